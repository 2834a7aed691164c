//! Inputs that nobody wrote: trail and checkpoint files that were changed at random, for every decoder that reads them.
//!
//! Whatever it is given, a decoder returns; it does not panic, it tells no more records than the input has room for, and it
//! holds no more memory than [`bytes_allowed`] says. Lengths that an input declares are not believed.
//!
//! Most changes leave the frames, lengths, checksums and tags of a file right (`structure`), because a decoder that
//! stops at a wrong checksum shows nothing of those behind it.
//!
//! Everything is decided by a seed. What comes of it is a [`Finding`], whose input belongs into the crate's folder `corpus` once
//! it is understood: all files there are decoded first in every run.

mod change;
mod checkpoint;
mod corpus;
mod decode;
mod structure;

pub use corpus::Corpus;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The allocator of the program, so that what decoders hold can be seen.
pub struct Memory {
    /// Bytes in use.
    pub used: fn() -> usize,
    /// Most bytes that were in use since [`forget_peak`](Memory::forget_peak).
    pub peak: fn() -> usize,
    /// Starts a new peak.
    pub forget_peak: fn(),
}

/// Bytes that decoders may hold for an input of so many bytes: their blocks and arenas, and for each byte what the most wasteful
/// declaration, that of a column without a name, takes in memory while a list of them grows.
pub fn bytes_allowed(input: usize) -> usize {
    (1 << 20) + 16 * input
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where it comes from.
    pub origin: String,
    /// What it claims to be.
    pub kind: InputKind,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What an input claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The file of a trail with this number.
    Trail(u32),
    /// The checkpoint file of Extract `E1`.
    Extract,
    /// The checkpoint file of Replicat `R1`.
    Replicat,
}

impl Input {
    /// Its name in the folder `corpus`.
    pub fn file_name(&self) -> String {
        let checksum = crc32fast::hash(&self.bytes);
        match self.kind {
            InputKind::Trail(sequence) => format!("{sequence:09}-{checksum:08x}.trail"),
            InputKind::Extract => format!("{checksum:08x}.cpe"),
            InputKind::Replicat => format!("{checksum:08x}.cpr"),
        }
    }
}

/// An input that a decoder did not bear.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Number of the case; with the seed it makes the same input.
    pub case: u64,
    /// What happened.
    pub what: String,
    /// The input.
    pub input: Input,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Input { origin, bytes, .. } = &self.input;
        write!(formatter, "case {}, {} bytes made from {origin}: {}", self.case, bytes.len(), self.what)
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs.
    pub cases: u64,
    /// Records that decoders told of, a measure of how deep the inputs got.
    pub records: u64,
    /// Inputs that were read to their end without an error.
    pub whole: u64,
    /// Most memory that decoders held for one input, in bytes.
    pub peak: usize,
}

/// Decodes the corpus as it is, then cases made from it for as long as `goes_on` says, which is told the number of the case.
///
/// # Errors
/// The first [`Finding`].
pub fn run(
    corpus: &Corpus,
    seed: u64,
    memory: &Memory,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<Tally, Box<Finding>> {
    let mut tally = Tally::default();
    for input in corpus.inputs() {
        try_one(0, input.clone(), memory, &mut tally)?;
    }
    for case in 1.. {
        if !goes_on(case) {
            break;
        }
        try_one(case, corpus.mutant(&mut random(seed, case)), memory, &mut tally)?;
    }
    Ok(tally)
}

/// Each case has its own source of chance, so that it can be made again by itself.
fn random(seed: u64, case: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn try_one(case: u64, input: Input, memory: &Memory, tally: &mut Tally) -> Result<(), Box<Finding>> {
    let storage = decode::put(&input);
    let before = (memory.used)();
    (memory.forget_peak)();
    let decoded = catch_unwind(AssertUnwindSafe(|| decode::all(&storage, &input)));
    let peak = (memory.peak)().saturating_sub(before);
    let found = |what: String, input| Err(Box::new(Finding { case, what, input }));
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            return found(format!("a decoder panicked: {}", text.unwrap_or_default()), input);
        }
    };
    let (allowed, length) = (bytes_allowed(input.bytes.len()), input.bytes.len());
    if peak > allowed {
        return found(format!("decoders held {peak} bytes, {allowed} are allowed"), input);
    }
    // The shortest record has eight bytes.
    if decoded.records > length as u64 / 8 + 1 {
        return found(format!("{} records were told of", decoded.records), input);
    }
    tally.cases += 1;
    tally.records += decoded.records;
    tally.whole += u64::from(decoded.is_whole);
    tally.peak = tally.peak.max(peak);
    Ok(())
}
