//! A few thousand inputs that nobody wrote; `cargo x fuzz` tries more.

use peak_alloc::PeakAlloc;
use testkit::mutation::{Corpus, Memory, run};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Cases of this run, always the same: a few seconds' worth.
const CASES: u64 = 8000;
const SEED: u64 = 7;

#[test]
fn no_input_makes_a_decoder_panic_or_hold_more_than_its_length_allows() {
    let memory = Memory {
        used: || ALLOCATOR.current_usage(),
        peak: || ALLOCATOR.peak_usage(),
        forget_peak: || ALLOCATOR.reset_peak_usage(),
    };
    let corpus = Corpus::open().expect("the corpus is readable");
    let tally = run(&corpus, SEED, &memory, |case| case <= CASES);
    let tally = tally.unwrap_or_else(|finding| panic!("seed {SEED}, {finding}"));
    // Most inputs get past the frames and checksums, or the test would show little.
    assert!(tally.records > 2 * CASES, "{tally:?}");
    assert!(tally.whole > CASES / 10, "{tally:?}");
}
