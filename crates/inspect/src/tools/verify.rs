//! `drover trail verify`: whether a trail is whole.

use super::files::{TrailFiles, Work};
use crate::error::Error;
use crate::session::Progress;
use change::{Commit, Csn};
use std::error::Error as _;
use trail::{FileReader, Record, TransactionPlace};

/// Bytes between two signs of life.
const NOTIFY_BYTES: u64 = 64 * 1024 * 1024;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Records that were decoded.
    pub records: u64,
    /// Transactions that are whole.
    pub transactions: u64,
    /// What is wrong.
    pub problems: u64,
}

/// What is carried from file to file.
#[derive(Default)]
struct Chain {
    /// The transaction that is open.
    open: Option<Commit>,
    /// Whether anything was read in front of this file.
    is_known: bool,
    last_csn: Option<Csn>,
}

/// Reads every record of every file: checksums, structure, transactions, and whether files are missing. Prints a line for each
/// file, and one for each problem.
///
/// # Errors
/// [`Error`] when nothing can be said.
pub fn verify(files: &TrailFiles, work: &mut Work<'_>) -> Result<Verdict, Error> {
    let mut verdict = Verdict::default();
    let mut chain = Chain::default();
    let mut expected: Option<u32> = None;
    for (place, (name, sequence)) in files.files.iter().enumerate() {
        if let Some(expected) = expected.filter(|expected| expected != sequence)
            && !change::sabotage::is_on("pass-missing-files")
        {
            let count = sequence - expected;
            let missing = files.trail.map_or(String::new(), |trail| trail.file(expected));
            let text = match count {
                1 => format!("{missing} is missing\n"),
                _ => format!("{missing} and {} files after it are missing\n", count - 1),
            };
            work.print(&text)?;
            verdict.problems += 1;
            chain = Chain::default();
        }
        expected = Some(sequence + 1);
        let is_last = place + 1 == files.files.len();
        verify_file(files, name, *sequence, is_last, &mut chain, &mut verdict, work)?;
    }
    if let Some(open) = &chain.open {
        let text = format!("transaction {}, csn {}, has no end yet\n", open.transaction, open.csn);
        work.print(&text)?;
    }
    let Verdict { records, transactions, problems } = verdict;
    let result = if problems == 0 { "whole" } else { "NOT whole" };
    let text = format!(
        "{result}: {} files, {records} records, {transactions} transactions, {problems} problems\n",
        files.files.len()
    );
    work.print(&text)?;
    Ok(verdict)
}

fn verify_file(
    files: &TrailFiles,
    name: &str,
    sequence: u32,
    is_last: bool,
    chain: &mut Chain,
    verdict: &mut Verdict,
    work: &mut Work<'_>,
) -> Result<(), Error> {
    let length = files.length(name, sequence)?;
    if length == 0 {
        return work.print(&format!("{name}: nothing of it is published yet\n"));
    }
    let before = *verdict;
    let problem = |work: &mut Work<'_>, verdict: &mut Verdict, text: String| {
        verdict.problems += 1;
        work.print(&format!("{name}: {text}\n"))
    };
    let (definitions, keys) = (&work.given.definitions, work.given.keys.clone());
    let mut reader = match FileReader::open(files.storage.clone(), name, Some(length), definitions, keys) {
        Ok(reader) => reader,
        Err(error) => {
            *chain = Chain::default();
            return problem(work, verdict, chain_of(&error));
        }
    };
    let mut told = 0;
    loop {
        if reader.rba() - told >= NOTIFY_BYTES {
            told = reader.rba();
            (work.progress)(Progress { records: verdict.records, rba: told, length, is_over: false });
        }
        let entry = match reader.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                let rba = reader.rba();
                let torn = if is_last && files.published.is_none() { " (the writer may have died here)" } else { "" };
                problem(work, verdict, format!("at byte {rba}: {}{torn}", chain_of(&error)))?;
                *chain = Chain::default();
                return Ok(());
            }
        };
        verdict.records += 1;
        match &entry.record {
            Record::Header(header) => {
                if files.trail.is_some() && header.sequence != sequence {
                    problem(work, verdict, format!("it has the number {} inside", header.sequence))?;
                }
                let size = header.completion.as_ref().map(|completion| completion.file_size);
                if let Some(size) = size.filter(|size| *size != length && !is_last) {
                    problem(work, verdict, format!("it had {size} bytes when it was complete, and has {length}"))?;
                }
            }
            Record::Change { place, commit, .. }
            | Record::Statement { place, commit, .. }
            | Record::Sequence { place, commit, .. } => {
                if let Some(text) = chain.change(*place, commit, verdict) {
                    problem(work, verdict, format!("at byte {}: {text}", entry.position.rba))?;
                }
                if place.starts() && chain.turns_back(commit) {
                    // So it is after an Extract was positioned anew: told, and no problem of the files.
                    let (rba, csn) = (entry.position.rba, &commit.csn);
                    work.print(&format!(
                        "{name}: note: at byte {rba} csn {csn} is before that of the transaction in front\n"
                    ))?;
                }
                if place.ends() {
                    chain.last_csn = Some(commit.csn.clone());
                }
            }
            Record::Restart { abend } => {
                if !abend && chain.open.is_some() {
                    let text = "the writer ended cleanly inside a transaction";
                    problem(work, verdict, format!("at byte {}: {text}", entry.position.rba))?;
                }
                chain.open = None;
                chain.is_known = true;
            }
            _ => {}
        }
    }
    if told > 0 {
        (work.progress)(Progress { records: verdict.records, rba: length, length, is_over: true });
    }
    let (records, transactions) = (verdict.records - before.records, verdict.transactions - before.transactions);
    work.print(&format!("{name}: {records} records, {transactions} transactions end, {length} bytes\n"))
}

impl Chain {
    /// Takes note of a change; returns what does not fit.
    fn change(&mut self, place: TransactionPlace, commit: &Commit, verdict: &mut Verdict) -> Option<String> {
        let is_known = std::mem::replace(&mut self.is_known, true);
        let problem = match (&self.open, place.starts()) {
            (Some(open), true) => Some(format!("a transaction starts inside transaction {}", open.transaction)),
            (Some(open), false) if open != commit => {
                Some(format!("a change of another one stands inside transaction {}", open.transaction))
            }
            // The first file that is there may begin inside a transaction.
            (None, false) if is_known => Some("a change belongs to a transaction that did not start".to_owned()),
            _ => None,
        };
        if place.ends() {
            verdict.transactions += 1;
            self.open = None;
        } else {
            self.open = Some(commit.clone());
        }
        problem
    }

    /// Whether a transaction has a CSN before that of the one in front of it. Those of one source compare as texts of one width.
    fn turns_back(&self, commit: &Commit) -> bool {
        let next = commit.csn.as_str();
        self.last_csn.as_ref().is_some_and(|last| last.as_str().len() == next.len() && next < last.as_str())
    }
}

fn chain_of(error: &trail::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
