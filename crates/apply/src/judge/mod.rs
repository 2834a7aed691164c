//! Rows one at a time, where rows may not fit and somebody has said what to do then.
//!
//! A [`Judge`] belongs to one session. It is shown the changes of the open target transaction one after another, writes each by
//! the rules of its MAP, and keeps what becomes of them until the commit: rows for the discard file, a transaction that is being
//! parked, conflicts. The loop that has the session carries out the ways back that [`Setback`] names.

mod queue;
mod rows;

use crate::error::Error;
use crate::error_queue::{ConflictNote, Held, Parking, QueueWriter};
use crate::handling::{Converted, Discard, LastError};
use crate::plans::Written;
use change::{Change, Commit, Csn, Timestamp, TransactionId};
use process::FilterReason;
use std::sync::{Arc, Mutex};
use trail::Position;

/// The discard file, where the group has one.
pub(crate) type DiscardFile = Arc<Mutex<Option<Box<dyn Discard>>>>;

/// The time now.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A change that is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) change: &'a Change,
    /// What it becomes, per target; empty where it is written as it is.
    pub(crate) converted: &'a [Converted],
    pub(crate) position: Position,
    /// Its source transaction.
    pub(crate) commit: Option<&'a Commit>,
    pub(crate) written: &'a Written,
    pub(crate) is_heartbeat: bool,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Written,
    Filtered(FilterReason),
}

/// How much may be decided about a row that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stance {
    /// Nothing: an earlier transaction may not be applied, and may be the cause.
    Early,
    /// Everything that concerns the row alone. The open target transaction holds several source transactions.
    #[default]
    Together,
    /// Everything: the open target transaction holds this source transaction, or whole ones before it.
    Single,
}

/// Why a change was not written, by the way out.
pub(crate) enum Setback {
    /// The target failed.
    Failed { action: &'static str, source: database::Error },
    /// The group stops.
    Stop(Error),
    /// Roll back, and show the source transaction again: where its rows go is decided now, or will be by a judge with more
    /// to say.
    Anew,
    /// Roll back, and show it again at this time.
    Wait { until: Timestamp, cause: database::Error },
}

/// Where the rows of a source transaction go that are not written to their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    DiscardFile,
    ExceptionsTables,
    /// The error queue; behind a parked transaction on which this one depends, if it is held back.
    ErrorQueue {
        held_behind: Option<String>,
    },
}

/// A source transaction all of whose rows go another way than into their tables.
pub(crate) struct Doomed {
    csn: Csn,
    transaction: TransactionId,
    error: LastError,
    /// The change that met the error.
    refused_at: Option<Position>,
    destination: Destination,
    /// A conflict that stayed unresolved, for the log.
    unsettled: Vec<ConflictNote>,
}

impl Doomed {
    fn is(&self, commit: &Commit) -> bool {
        commit.csn == self.csn && commit.transaction == self.transaction
    }
}

/// A transaction that went into the error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedNotice {
    /// Its DEFERRED_TRAN_ID.
    pub id: String,
    /// The code and the words of its error.
    pub error: String,
}

/// A source transaction that is tried again.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    csn: Csn,
    transaction: TransactionId,
    count: u32,
}

/// What a committed transaction has to tell.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Conflicts by source table and kind, and whether a method settled them.
    pub(crate) conflicts: Vec<crate::ConflictNotice>,
    pub(crate) parked: Vec<ParkedNotice>,
}

/// Writes rows by the rules of their MAPs.
pub(crate) struct Judge {
    group: String,
    group_key: i64,
    clock: Clock,
    discard_file: DiscardFile,
    /// The error queue and conflict log, where the target has them.
    queue: Option<Arc<QueueWriter>>,
    /// Whether later transactions are held back behind parked ones.
    holds: bool,
    /// What parked transactions touch, where later ones are held back behind them.
    pub(crate) held: Arc<Held>,
    pub(crate) stance: Stance,
    /// How far the group is, for the words of errors.
    pub(crate) position: Position,
    /// The database that the trail comes from, where that is known.
    pub(crate) origin: Option<String>,
    /// A source transaction whose rows go another way.
    pub(crate) doomed: Option<Doomed>,
    /// How often a source transaction was tried again.
    pub(crate) attempts: Option<Attempts>,
    /// What the open transaction discards.
    discards: String,
    /// Conflicts of the open transaction.
    conflicts: Vec<ConflictNote>,
    /// The source transaction that is being parked.
    parking: Option<Parking>,
    /// Transactions parked by the open transaction.
    parked: Vec<ParkedNotice>,
}

impl Judge {
    /// A judge without anything open.
    pub(crate) fn new(
        (group, group_key): (String, i64),
        clock: Clock,
        discard_file: DiscardFile,
        queue: Option<Arc<QueueWriter>>,
        holds: bool,
    ) -> Judge {
        Judge {
            group,
            group_key,
            clock,
            discard_file,
            queue,
            holds,
            held: Arc::default(),
            stance: Stance::default(),
            position: Position::default(),
            origin: None,
            doomed: None,
            attempts: None,
            discards: String::new(),
            conflicts: Vec::new(),
            parking: None,
            parked: Vec::new(),
        }
    }

    /// Forgets what the open transaction discards, parks and has met: it was rolled back.
    pub(crate) fn forget_open(&mut self) {
        self.discards.clear();
        self.conflicts.clear();
        self.parking = None;
        self.parked.clear();
    }

    /// Takes what the open transaction has to tell: it was committed.
    pub(crate) fn committed(&mut self) -> Told {
        let conflicts = self.conflicts.drain(..).map(|note| note.notice()).collect();
        Told { conflicts, parked: std::mem::take(&mut self.parked) }
    }

    /// Forgets what was decided about one transaction: it is committed.
    pub(crate) fn acquit(&mut self) {
        self.doomed = None;
        self.attempts = None;
    }

    /// Conflicts of the open transaction that nobody settled; the rest comes again when the transaction does.
    pub(crate) fn take_unsettled(&mut self) -> Vec<ConflictNote> {
        std::mem::take(&mut self.conflicts).into_iter().filter(|note| !note.resolved).collect()
    }

    /// Makes durable what the open transaction discards. Before the commit: what is dropped must not get lost by a crash; that
    /// it may be told twice is the price.
    pub(crate) fn save_discards(&mut self) -> Result<(), Setback> {
        if self.discards.is_empty() || change::sabotage::is_on("lose-discards") {
            return Ok(());
        }
        let text = std::mem::take(&mut self.discards);
        let mut file = self.discard_file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let appended = match &mut *file {
            Some(file) => file.append(&text),
            None => Err(std::io::Error::other("the group has no discard file")),
        };
        appended.map_err(|source| Setback::Stop(Error::Discard { position: self.position, source }))
    }
}
