//! SPLIT_TRANS_RECS: a source transaction in several target transactions, because the operator asked for it.
//!
//! Each piece is a transaction of the schedule with a name of its own, by which the rows list it while the low watermark stands
//! before the transaction. After a restart operations in pieces that are listed are left out, however the pieces are cut then.

use super::ParallelReplicat;
use super::work::{Mark, Share};
use crate::watermark::piece_name;
use change::{Commit, TransactionId};

/// What pieces of the last transaction that was split were made, so that one that the trail begins anew is not applied twice.
pub(super) struct Given {
    transaction: TransactionId,
    /// Operations before this one are in pieces.
    operations: u64,
}

impl ParallelReplicat {
    /// Whether the operation was applied, or is on its way, in a piece of its transaction.
    pub(super) fn is_piece_of_another(&self, commit: &Commit, number: u64) -> bool {
        if number < self.operations_given(commit) {
            return true;
        }
        let is_forgotten = change::sabotage::is_on("forget-pieces");
        !is_forgotten && self.marks.as_ref().is_some_and(|marks| marks.covers_operation(commit, number))
    }

    /// Operations at the beginning of the transaction that are in pieces already, because the trail begins it anew. No other piece
    /// may speak for them.
    pub(super) fn operations_given(&self, commit: &Commit) -> u64 {
        let given = self.given.as_ref().filter(|given| given.transaction == commit.transaction);
        given.map_or(0, |given| given.operations)
    }

    /// Whether what is open, of a transaction that goes on, makes a piece.
    pub(super) fn is_piece(&self) -> bool {
        let Some(split) = self.setup.split else { return false };
        if self.left_out.is_some() {
            return false;
        }
        let limits = &self.setup.common.limits;
        let is_large = self.open.len() >= limits.chunk_operations || self.open_bytes >= limits.chunk_bytes;
        self.inside.saturating_sub(self.piece_start) >= split || (self.piece_start > 0 && is_large)
    }

    /// Makes a piece of what is open.
    pub(super) fn end_piece(&mut self, commit: &Commit, next: trail::Position) {
        let mark = self.piece(commit, next);
        match &mut self.streaming {
            Some(streaming) => {
                streaming.end = Some(mark);
                streaming.is_piece = true;
                streaming.is_due = true;
            }
            None => self.hand_over(mark, Share::Inside),
        }
    }

    /// The last piece is complete, and the transaction with it.
    pub(super) fn end_pieces(&mut self, commit: &Commit, end: Mark) {
        let mark = self.piece(commit, end.next);
        self.piece_start = 0;
        self.hand_over(mark, Share::End(end));
    }

    fn piece(&mut self, commit: &Commit, next: trail::Position) -> Mark {
        self.inside = self.inside.max(self.piece_start);
        let transaction = piece_name(&commit.transaction, &(self.piece_start..self.inside));
        self.piece_start = self.inside;
        self.given = Some(Given { transaction: commit.transaction.clone(), operations: self.inside });
        Mark { commit: Some(Commit { transaction, ..commit.clone() }), next }
    }
}
