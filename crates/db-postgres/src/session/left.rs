//! Where the group's checkpoint row was left: whether the target is still the one that the last transaction was written to.

use crate::checkpoint::Expected;
use crate::name;
use crate::wire::{Connection, Error as WireError, Parameter, Statement};
use database::{CheckpointRow, Error, ErrorClass, SessionRequest};

/// The part of the row that every transaction of the group moves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    sequence: i32,
    rba: i64,
    csn: Option<String>,
}

impl From<&CheckpointRow> for Place {
    fn from(row: &CheckpointRow) -> Place {
        Place { sequence: row.sequence.cast_signed(), rba: row.rba.cast_signed(), csn: row.log_csn.clone() }
    }
}

/// What a session remembers of its row.
pub(super) struct Left {
    find: Statement,
    /// Finds the row, whatever is in it.
    exists: String,
    key: i64,
    /// As it was committed or read, as soon as that is known.
    place: Option<Place>,
    /// As the open transaction leaves it.
    saved: Option<Place>,
}

impl Left {
    pub(super) fn new(request: &SessionRequest) -> Left {
        let sql = format!(
            "SELECT FROM {} WHERE group_name = $1 AND group_key = $2::bigint AND seqno IS NOT DISTINCT FROM $3::integer \
             AND rba = $4::bigint AND log_csn IS NOT DISTINCT FROM $5",
            name::table(&request.checkpoint_table)
        );
        let exists = format!(
            "SELECT FROM {} WHERE group_name = $1 AND group_key = $2::bigint",
            name::table(&request.checkpoint_table)
        );
        Left { find: Statement::new(sql, []), exists, key: request.group_key, place: None, saved: None }
    }

    /// The row as it was read.
    pub(super) fn read(&mut self, row: Option<&CheckpointRow>) {
        self.place = row.map(Place::from);
    }

    /// The row as the open transaction has it now; rows of others do not count.
    pub(super) fn saved(&mut self, row: &CheckpointRow) {
        if row.group_key == self.key {
            self.saved = Some(Place::from(row));
        }
    }

    /// The open transaction was committed.
    pub(super) fn committed(&mut self) {
        self.place = self.saved.take().or(self.place.take());
    }

    /// The open transaction was given up.
    pub(super) fn rolled_back(&mut self) {
        self.saved = None;
    }

    /// What a statement that replaces the row must find, so that the transaction fails when somebody put the target back or
    /// moved the row.
    pub(super) fn expected(&self) -> Expected<'_> {
        match &self.place {
            Some(Place { sequence, rba, csn }) if !change::sabotage::is_on("trust-the-target") => {
                Expected::At { sequence: *sequence, rba: *rba, csn: csn.as_deref() }
            }
            _ => Expected::There,
        }
    }

    /// Makes sure that nobody put the target back, or moved the row, since the last transaction. A row that is gone is told when
    /// it is to be written.
    pub(super) fn verify(&self, connection: &mut Connection, request: &SessionRequest) -> Result<(), Error> {
        let Some(place) = &self.place else { return Ok(()) };
        if change::sabotage::is_on("trust-the-target") {
            return Ok(());
        }
        let [key, sequence, rba] = [self.key.to_string(), place.sequence.to_string(), place.rba.to_string()];
        let csn = place.csn.as_ref().map_or(Parameter::Null, |csn| Parameter::Text(csn.as_bytes()));
        let mut pipeline = connection.pipeline();
        pipeline.execute(
            &self.find,
            [
                Parameter::Text(request.group.as_bytes()),
                Parameter::Text(key.as_bytes()),
                Parameter::Text(sequence.as_bytes()),
                Parameter::Text(rba.as_bytes()),
                csn,
            ],
        );
        let table = &request.checkpoint_table;
        let failed = |error: WireError| error.during(format!("can't read checkpoint table {table}"));
        let counts = pipeline.run().map_err(|error| failed(error.error))?;
        if counts.first() == Some(&1) {
            return Ok(());
        }
        let found = connection.query_one(&self.exists, &[Some(&request.group), Some(&key)]).map_err(failed)?;
        if found.is_none() {
            return Ok(());
        }
        let what = format!(
            "the checkpoint row of group {} in {table} is not as it was left: the target was restored, or somebody else \
             uses the row",
            request.group
        );
        Err(Error::new(ErrorClass::ConnectionLost, what))
    }
}
