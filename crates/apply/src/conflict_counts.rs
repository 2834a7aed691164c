//! How many conflicts there were since the start, and the last of them.

use crate::conflict::ConflictKind;
use change::TableName;
use std::collections::{BTreeMap, VecDeque};

/// Conflicts that wait for somebody to take note of them; of more the oldest are forgotten, and counted all the same.
const RECENT_MAX: usize = 1000;

/// Conflicts of one kind on one source table, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConflictCount {
    /// Settled by a method.
    pub resolved: u64,
    /// Left to REPERROR.
    pub failed: u64,
}

/// How often each method has decided conflicts of one kind on one source table; one conflict may be decided by several, each for
/// columns of its own.
pub type MethodCounts = BTreeMap<&'static str, u64>;

/// A conflict of a transaction that is committed at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictNotice {
    /// The source table.
    pub table: TableName,
    /// What kind.
    pub kind: ConflictKind,
    /// Whether methods settled it.
    pub is_settled: bool,
    /// The methods that decided, with what each of them made of it.
    pub methods: Vec<(&'static str, String)>,
    /// The source transaction, and its CSN; empty where they are not known.
    pub transaction: String,
    /// See `transaction`.
    pub csn: String,
}

/// All conflicts since the start.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    counts: BTreeMap<(TableName, ConflictKind), ConflictCount>,
    methods: BTreeMap<(TableName, ConflictKind), MethodCounts>,
    recent: VecDeque<ConflictNotice>,
}

impl Conflicts {
    /// Adds conflicts that a committed transaction has met.
    pub(crate) fn add(&mut self, conflicts: Vec<ConflictNotice>) {
        for conflict in conflicts {
            let place = (conflict.table.clone(), conflict.kind);
            let methods = self.methods.entry(place.clone()).or_default();
            let count = self.counts.entry(place).or_default();
            *(if conflict.is_settled { &mut count.resolved } else { &mut count.failed }) += 1;
            conflict.methods.iter().for_each(|(method, _)| *methods.entry(method).or_default() += 1);
            if self.recent.len() == RECENT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(conflict);
        }
    }

    pub(crate) fn counts(&self) -> &BTreeMap<(TableName, ConflictKind), ConflictCount> {
        &self.counts
    }

    pub(crate) fn methods(&self) -> &BTreeMap<(TableName, ConflictKind), MethodCounts> {
        &self.methods
    }

    /// Conflicts since this was asked last.
    pub(crate) fn take_recent(&mut self) -> Vec<ConflictNotice> {
        self.recent.drain(..).collect()
    }
}
