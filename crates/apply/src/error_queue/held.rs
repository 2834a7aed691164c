//! What parked transactions touch, so that later ones can be held back behind them.

use super::writer::{BARRIER, QueueWriter};
use crate::schedule::WriteSet;
use database::{Error, Session};
use std::collections::HashMap;

/// Things that are kept apart; with more, everything is held back.
const ITEMS_MAX: usize = 1_000_000;

/// Who touches a thing.
#[derive(Clone, Debug)]
struct Toucher {
    transaction: String,
    is_written: bool,
}

/// What the parked transactions of a group touch.
#[derive(Debug, Default)]
pub(crate) struct Held {
    items: HashMap<i64, Toucher>,
    /// A parked transaction of which nobody knows what it touches.
    barrier: Option<String>,
    /// Any parked transaction.
    any: Option<String>,
}

impl Held {
    /// Reads what is parked now.
    pub(crate) fn load(queue: &QueueWriter, session: &mut dyn Session, group_key: i64) -> Result<Held, Error> {
        let mut held = Held::default();
        let mut after = None;
        loop {
            let rows = queue.keys(session, group_key, after)?;
            let Some(last) = rows.last().map(|row| row.item) else { return Ok(held) };
            let is_full = rows.len() == QueueWriter::PAGE as usize;
            for row in rows {
                held.add(row.item, row.transaction, row.is_written);
            }
            if !is_full {
                return Ok(held);
            }
            if held.items.len() > ITEMS_MAX {
                held.barrier = held.any.clone();
                return Ok(held);
            }
            // The next page starts behind this item, of which it may hold more.
            if let Some(toucher) = held.items.get_mut(&last) {
                toucher.is_written = true;
            }
            after = Some(last);
        }
    }

    fn add(&mut self, item: i64, transaction: String, is_written: bool) {
        let first = |known: &mut Option<String>| match known {
            Some(known) if place(known) <= place(&transaction) => {}
            other => *other = Some(transaction.clone()),
        };
        first(&mut self.any);
        if item == BARRIER {
            return first(&mut self.barrier);
        }
        let toucher = self.items.entry(item).or_insert(Toucher { transaction: transaction.clone(), is_written });
        toucher.is_written |= is_written;
        if place(&transaction) < place(&toucher.transaction) {
            toucher.transaction = transaction;
        }
    }

    /// Whether nothing is parked.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none()
    }

    /// The parked transaction behind which a later one stands that touches `set`, if there is one.
    pub(crate) fn ahead_of(&self, set: &WriteSet) -> Option<&str> {
        if let Some(barrier) = &self.barrier {
            return Some(barrier);
        }
        if set.is_barrier() {
            return self.any.as_deref();
        }
        set.items().iter().find_map(|item| {
            let toucher = self.items.get(&item.hash.cast_signed())?;
            (toucher.is_written || item.is_written).then_some(toucher.transaction.as_str())
        })
    }
}

/// Where a parked transaction stands in the trail, from its name: of several ahead the first is told, in whatever order they are
/// read.
fn place(transaction: &str) -> Option<(u64, u64)> {
    let (rest, rba) = transaction.rsplit_once('.')?;
    let (_, sequence) = rest.rsplit_once('.')?;
    Some((sequence.parse().ok()?, rba.parse().ok()?))
}
