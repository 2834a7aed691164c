//! Changes trail and checkpoint files at random, for a time, and gives them to all decoders.
//!
//! `cargo run -p testkit --example fuzz [SECONDS [SEED]]`, or `cargo x fuzz`. Without a seed a new one is taken; it
//! is printed first, so that a run that ends in an abort can be made again. A finding's input is kept in `target/fuzz`.

use peak_alloc::PeakAlloc;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testkit::mutation::{Corpus, Memory, run};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fn main() -> ExitCode {
    let argument = |index| std::env::args().nth(index).map(|text| text.parse::<u64>().expect("a number"));
    let seconds = argument(1).unwrap_or(60);
    let seed = argument(2).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}, {seconds} s");
    let memory = Memory {
        used: || ALLOCATOR.current_usage(),
        peak: || ALLOCATOR.peak_usage(),
        forget_peak: || ALLOCATOR.reset_peak_usage(),
    };
    let corpus = Corpus::open().expect("the corpus is readable");
    let (start, time) = (Instant::now(), Duration::from_secs(seconds));
    match run(&corpus, seed, &memory, |_| start.elapsed() < time) {
        Ok(tally) => {
            println!(
                "{} inputs, {} of them whole, {} records told of; most memory for one input {} KiB; seed {seed}: no finding",
                tally.cases,
                tally.whole,
                tally.records,
                tally.peak / 1024
            );
            ExitCode::SUCCESS
        }
        Err(finding) => {
            let folder = Path::new("target/fuzz");
            let path = folder.join(finding.input.file_name());
            let kept = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, &finding.input.bytes));
            eprintln!("seed {seed}, {finding}");
            match kept {
                Ok(()) => {
                    eprintln!("the input is {}; once understood, it belongs into crates/testkit/corpus", path.display())
                }
                Err(error) => eprintln!("the input could not be kept in {}: {error}", path.display()),
            }
            ExitCode::FAILURE
        }
    }
}
