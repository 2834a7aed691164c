//! Signing heartbeats that pass through a Pump or a path.

use change::{Change, Operation, TableName, Timestamp};
use process::heartbeat::{COLUMNS, Router, Routing, SEED_TABLE, TABLE};
use trail::copy::{CopiedRecord, CopyRules, Signed};

/// Rules of a copy that signs the heartbeats which it sends on, whatever the rules below say of other records.
///
/// Each heartbeat gets the name of the Pump or path in its list and the time in OUTGOING_ROUTING_TS, of which there is one for
/// all Pumps on the way; one that takes another way is left out. See [`process::heartbeat`]. What can't be read as a
/// heartbeat goes on as it is: who applies it says what is wrong.
pub struct Signing {
    rules: Box<dyn CopyRules>,
    router: Router,
    clock: Box<dyn Fn() -> Timestamp + Send>,
}

impl Signing {
    /// `rules` with signing; `clock` tells the time now.
    pub fn new(rules: Box<dyn CopyRules>, router: Router, clock: Box<dyn Fn() -> Timestamp + Send>) -> Signing {
        Signing { rules, router, clock }
    }
}

impl CopyRules for Signing {
    fn keeps_all(&self) -> bool {
        self.rules.keeps_all()
    }

    fn depends_on_operation(&self) -> bool {
        self.rules.depends_on_operation()
    }

    fn keeps(&self, record: &CopiedRecord<'_>) -> bool {
        self.rules.keeps(record)
    }

    fn signs_any(&self) -> bool {
        true
    }

    fn signs(&self, table: &str) -> bool {
        TableName::parse(table).is_ok_and(|table| is_of_heartbeats(&table))
    }

    fn sign(&self, change: &Change) -> Signed {
        // Of another version, which knows more of heartbeats than this one, or less.
        let is_known = change.table.columns.iter().map(|column| column.name.as_str()).eq(COLUMNS);
        if !is_known || change::sabotage::is_on("pass-heartbeats-unsigned") {
            return Signed::AsItIs;
        }
        match self.router.route(change, (self.clock)()) {
            Ok(Routing::Forward(passed)) => match passed.operation {
                Operation::Insert { new } | Operation::Update { new, .. } => Signed::With(new),
                Operation::Delete { .. } | Operation::Truncate(_) => Signed::AsItIs,
            },
            Ok(Routing::Drop) => Signed::Dropped,
            Ok(Routing::Other) | Err(_) => Signed::AsItIs,
        }
    }
}

/// Whether the name is that of a heartbeat table in a trail.
pub(crate) fn is_of_heartbeats(table: &TableName) -> bool {
    [SEED_TABLE, TABLE].iter().any(|name| table.table.eq_ignore_ascii_case(name))
}
