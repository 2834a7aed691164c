//! Row marks on their way from a database to the merge: in batches over a bounded channel, so that both databases work at
//! once and neither runs ahead.

use crate::merge::Marks;
use crate::{Error, Side};
use database::compare::{ComparedTable, ComparisonSide, RowMark};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Marks in a batch: enough to make the channel cheap.
const BATCH_MARKS: usize = 1024;
/// Bytes of identities in a batch: rows without a key are their own identity and may be long.
const BATCH_BYTES: usize = 1024 * 1024;
/// Batches that wait: one is being merged, the next is ready.
const BATCHES_WAITING: usize = 2;

type Batch = Result<Vec<RowMark>, database::Error>;

/// Which rows are read.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) buckets: u32,
    pub(crate) chosen: &'a [u32],
    pub(crate) rows_max: Option<u64>,
}

/// A channel for the marks of one side.
pub(crate) fn channel(side: Side) -> (Sender, Stream) {
    let (sender, receiver) = sync_channel(BATCHES_WAITING);
    (Sender(sender), Stream { receiver, side, batch: Vec::new().into_iter() })
}

/// The end at the database.
pub(crate) struct Sender(SyncSender<Batch>);

impl Sender {
    /// Reads rows until all are sent or nobody wants them any more.
    pub(crate) fn send_all(self, database: &mut dyn ComparisonSide, table: &ComparedTable, wanted: Wanted<'_>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let outcome = database.rows(table, wanted.buckets, wanted.chosen, wanted.rows_max, &mut |mark| {
            bytes += mark.identity.len();
            batch.push(mark);
            if batch.len() < BATCH_MARKS && bytes < BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            bytes = 0;
            match self.0.send(Ok(std::mem::take(&mut batch))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        // The merge is gone when it has failed, and then says why itself.
        let _ = self.0.send(outcome.map(|()| batch));
    }
}

/// The end at the merge.
pub(crate) struct Stream {
    receiver: Receiver<Batch>,
    side: Side,
    batch: std::vec::IntoIter<RowMark>,
}

impl Marks for Stream {
    fn next(&mut self) -> Result<Option<RowMark>, Error> {
        loop {
            if let Some(mark) = self.batch.next() {
                return Ok(Some(mark));
            }
            match self.receiver.recv() {
                Ok(Ok(batch)) => self.batch = batch.into_iter(),
                Ok(Err(cause)) => return Err(Error::Database { side: self.side, cause }),
                Err(_) => return Ok(None),
            }
        }
    }
}
