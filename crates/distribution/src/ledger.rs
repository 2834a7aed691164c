//! A Pump's standing in its group's checkpoint file.

use crate::{Error, Ledger, Standing};
use change::{LogPosition, Timestamp};
use process::{CheckpointBody, CheckpointFile, ReadCheckpoint};

/// A [`Ledger`] in the checkpoint file of a group whose input is a trail.
///
/// The recovery checkpoint is the position in that trail, what was written the last transaction of the target trail, and the
/// write checkpoint its end.
pub struct GroupLedger {
    file: CheckpointFile,
    clock: Box<dyn Fn() -> Timestamp + Send>,
}

impl GroupLedger {
    /// A ledger in this file, which is an Extract's; `clock` gives the time of each checkpoint.
    pub fn new(file: CheckpointFile, clock: Box<dyn Fn() -> Timestamp + Send>) -> GroupLedger {
        GroupLedger { file, clock }
    }
}

impl Ledger for GroupLedger {
    fn standing(&self) -> Standing {
        let Some(body) = self.file.latest().extract() else { return Standing::default() };
        let input = body.input.as_ref();
        Standing {
            position: body.trail_position().unwrap_or_default(),
            after: input.and_then(|input| input.after.clone()),
            target: body.trails.first().and_then(|trail| trail.position),
            delivered: body.written.clone(),
            is_repositioned: input.is_some_and(|input| input.is_repositioned),
        }
    }

    fn save(&mut self, standing: &Standing) -> Result<(), Error> {
        let mut checkpoint = self.file.latest().clone();
        checkpoint.updated = (self.clock)();
        if let CheckpointBody::Extract(body) = &mut checkpoint.body {
            let time = standing.after.as_ref().map(|commit| commit.time);
            body.recovery = ReadCheckpoint { position: LogPosition::new(standing.position.to_string()), time };
            body.current = body.recovery.clone();
            body.written = standing.delivered.clone();
            if let Some(input) = &mut body.input {
                input.after = standing.after.clone();
                input.is_repositioned = standing.is_repositioned;
            }
            if let Some(trail) = body.trails.first_mut() {
                trail.position = standing.target;
            }
        }
        self.file.save(&checkpoint).map_err(|error| Error::Checkpoint(Box::new(error)))
    }
}
