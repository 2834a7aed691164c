//! Which transactions the trail already holds.
//!
//! After a restart the source replays from the position in the checkpoint, which is behind the trail whenever the
//! process died between the trail's sync and the checkpoint's. Commit order tells which of the replayed transactions are in
//! the trail: everything up to and including its last complete transaction.

use change::{Commit, Csn, TransactionId};

/// What becomes of a transaction that the source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Write,
    /// The trail holds it.
    Skip,
}

/// The trail and the source do not belong together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the source does not replay transaction {transaction} (CSN {csn}), the last one in the trail, but goes on with {found_transaction} (CSN {found_csn})"
)]
pub struct Gap {
    /// CSN of the last transaction in the trail.
    pub csn: Csn,
    /// Identifier of the last transaction in the trail.
    pub transaction: TransactionId,
    /// CSN of the transaction that came instead.
    pub found_csn: Csn,
    /// Identifier of the transaction that came instead.
    pub found_transaction: TransactionId,
}

/// Skips what the trail holds.
#[derive(Debug)]
pub struct Restart {
    last: Option<Commit>,
}

impl Restart {
    /// Starts with the last complete transaction of the trail, or `None` when the source goes on right behind it.
    pub fn after(last: Option<Commit>) -> Restart {
        Restart { last }
    }

    /// Whether transactions are still being skipped.
    pub fn is_skipping(&self) -> bool {
        self.last.is_some()
    }

    /// Decides on the next transaction, in commit order.
    ///
    /// # Errors
    /// [`Gap`] when commit order has passed the trail's last transaction and it was not among those that came: the source
    /// was given a position behind it, or its history is another one. Going on could lose changes.
    pub fn decide(&mut self, commit: &Commit) -> Result<Verdict, Gap> {
        if change::sabotage::is_on("skip-restart-filter") {
            return Ok(Verdict::Write);
        }
        let Some(last) = &self.last else {
            return Ok(Verdict::Write);
        };
        if commit.csn > last.csn {
            // What an operator has forced into the trail is in no log: that commit order has passed it is all there is to know.
            if last.transaction.forced_of().is_some() {
                self.last = None;
                return Ok(Verdict::Write);
            }
            return Err(Gap {
                csn: last.csn.clone(),
                transaction: last.transaction.clone(),
                found_csn: commit.csn.clone(),
                found_transaction: commit.transaction.clone(),
            });
        }
        // Transactions that share the last one's CSN come in the order in which they were written, so those before it
        // are in the trail and those after it are not.
        if commit.csn == last.csn && commit.transaction == last.transaction {
            self.last = None;
        }
        Ok(Verdict::Skip)
    }
}
