//! What has left and has not arrived for good: the sender's side, without any disk or network.

use crate::{Error, Standing};
use change::Commit;
use std::collections::VecDeque;
use trail::Position;
use trail::copy::{Boundary, CopyBatch, CopyContent};

/// Most bytes that are under way. Enough for a gigabyte a second over 50 ms, and nothing beside the backlog that the source trail
/// takes.
pub const UNDER_WAY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most batches that are under way, however small they are.
const UNDER_WAY_BATCHES_MAX: usize = 4096;

/// Numbers batches, and knows which of them are under way.
///
/// Batches have numbers from 1 on in each session; a session begins with the first call of [`begin`](crate::begin).
pub struct Outlet {
    last: u64,
    under_way: VecDeque<UnderWay>,
    bytes: usize,
    bytes_max: usize,
    standing: Standing,
}

struct UnderWay {
    number: u64,
    bytes: usize,
    boundary: Option<Boundary>,
}

impl Outlet {
    /// Nothing is under way. `standing` is that of the ledger, `last` what the target trail ends with.
    pub fn new(standing: Standing, last: Option<&Commit>) -> Outlet {
        let standing = Standing { delivered: last.cloned(), is_repositioned: false, ..standing };
        Outlet { last: 0, under_way: VecDeque::new(), bytes: 0, bytes_max: UNDER_WAY_BYTES_MAX, standing }
    }

    /// The same with another bound for bytes under way.
    pub fn with_bytes_max(self, bytes_max: usize) -> Outlet {
        Outlet { bytes_max, ..self }
    }

    /// Whether another batch may leave.
    pub fn admits(&self) -> bool {
        self.bytes < self.bytes_max && self.under_way.len() < UNDER_WAY_BATCHES_MAX
    }

    /// Whether all that left is durable at the target.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Takes note that the batch leaves, and gives it its number. Returns the standing too when it is to be saved at once.
    pub fn leave(&mut self, batch: &CopyBatch) -> (u64, Option<Standing>) {
        self.last += 1;
        let bytes = batch_bytes(batch);
        self.bytes += bytes;
        self.under_way.push_back(UnderWay { number: self.last, bytes, boundary: batch.boundary.clone() });
        let early = change::sabotage::is_on("standing-before-answer");
        (self.last, batch.boundary.as_ref().filter(|_| early).map(|boundary| self.moved(boundary)))
    }

    /// Takes note that everything up to batch `number` is durable, in a target trail that ends at `target` with the transaction
    /// `last`. Returns the new standing, which is to be saved, if it has moved.
    ///
    /// # Errors
    /// [`Error::Protocol`] when no such batch has left.
    pub fn arrived(&mut self, number: u64, target: Position, last: Option<Commit>) -> Result<Option<Standing>, Error> {
        if number > self.last {
            return Err(Error::Protocol(format!("batch {number} is answered for, and {} is the last one", self.last)));
        }
        let mut boundary = None;
        while let Some(front) = self.under_way.front().filter(|front| front.number <= number) {
            self.bytes -= front.bytes;
            boundary = front.boundary.clone().or(boundary);
            self.under_way.pop_front();
        }
        let Some(boundary) = boundary else { return Ok(None) };
        self.standing.target = Some(target);
        self.standing.delivered = last;
        let standing = self.moved(&boundary);
        self.standing = standing.clone();
        Ok(Some(standing))
    }

    fn moved(&self, boundary: &Boundary) -> Standing {
        Standing { position: boundary.position, after: Some(boundary.commit.clone()), ..self.standing.clone() }
    }
}

fn batch_bytes(batch: &CopyBatch) -> usize {
    match &batch.content {
        CopyContent::File { header, definitions } => header.len() + definitions.len(),
        CopyContent::Records(records) => records.iter().map(bytes::Bytes::len).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use change::{Csn, Timestamp, TransactionId};

    fn commit(number: u64) -> Commit {
        Commit {
            csn: Csn::new(format!("{number:020}")),
            transaction: TransactionId::new(format!("{number}.1")),
            time: Timestamp::from_unix_micros(number as i64),
        }
    }

    fn batch(number: u64, ends: bool, bytes: usize) -> CopyBatch {
        let position = Position::new(0, number * 100);
        let boundary = ends.then(|| Boundary { position, commit: commit(number) });
        let content = CopyContent::Records(vec![Bytes::from(vec![0; bytes])]);
        CopyBatch { start: position, end: position, content, boundary, changes: 1 }
    }

    #[test]
    fn the_standing_follows_the_answer_to_the_end_of_a_transaction() {
        let mut outlet = Outlet::new(Standing::default(), None);
        for number in 1..=4 {
            assert_eq!(outlet.leave(&batch(number, number != 3, 10)), (number, None));
        }
        let target = Position::new(7, 7);
        let standing = outlet.arrived(3, target, Some(commit(2))).expect("is right").expect("has moved");
        assert_eq!((standing.position, standing.after), (Position::new(0, 200), Some(commit(2))));
        assert_eq!((standing.target, standing.delivered), (Some(target), Some(commit(2))));
        assert_eq!(outlet.arrived(3, target, Some(commit(2))).expect("is right"), None, "nothing new");
        assert!(!outlet.is_empty());
        assert!(outlet.arrived(4, target, Some(commit(4))).expect("is right").is_some());
        assert!(outlet.is_empty());
        assert!(outlet.arrived(5, target, None).is_err());
    }

    #[test]
    fn what_is_under_way_is_bounded() {
        let mut outlet = Outlet::new(Standing::default(), None).with_bytes_max(25);
        let mut left = 0;
        while outlet.admits() {
            left += 1;
            outlet.leave(&batch(left, true, 10));
        }
        assert_eq!(left, 3);
        outlet.arrived(2, Position::default(), None).expect("is right");
        assert!(outlet.admits());
    }
}
