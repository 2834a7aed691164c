//! What of a transaction goes into the trail: changes, of partitions too, statements, sequences and heartbeats.

use super::{Extract, Inside};
use crate::error::Error;
use crate::partition::Place;
use change::{Change, ObjectChange, Operation, OperationKind, TableName};
use database::{LogEvent, is_heartbeat_object};
use process::heartbeat::ExtractNotes;
use process::{Code, FilterReason};
use std::sync::Arc;
use trail::ChangeDetails;

impl Extract {
    pub(super) fn change(&mut self, change: &Change) -> Result<(), Error> {
        let skipping = match &mut self.inside {
            Inside::Nothing => return Err(self.out_of_order("a change outside a transaction")),
            Inside::Skipping { reason, changes, .. } => {
                *changes += 1;
                Some(*reason)
            }
            Inside::Writing { .. } => None,
        };
        if self.heartbeats.as_ref().is_some_and(|heartbeats| heartbeats.knows(&change.table)) {
            return if skipping.is_some() { Ok(()) } else { self.heartbeat(change) };
        }
        let place = match &mut self.placing {
            None => None,
            Some(placing) => placing.find(&change.table).map_err(|cause| self.source_error("look at", cause))?,
        };
        if let Some(place) = place {
            return self.change_of_partition(&place, change, skipping);
        }
        let (selected, table) = self.filter.find(&change.table, &mut self.statistics);
        let kind = change.operation.kind();
        self.statistics.counts_mut(table, kind).read += 1;
        if skipping.is_some() || !selected {
            let reason = skipping.unwrap_or(FilterReason::NotMapped);
            if !change::sabotage::is_on("uncounted-filter") {
                self.statistics.counts_mut(table, kind).filter(reason, 1);
            }
            return Ok(());
        }
        self.append(change, None)?;
        self.statistics.counts_mut(table, kind).written += 1;
        Ok(())
    }

    pub(super) fn append(&mut self, change: &Change, details: Option<&ChangeDetails>) -> Result<(), Error> {
        self.writer.append_with(change, details).map_err(|source| self.trail_error("append to", source))?;
        self.is_waiting = true;
        if let Inside::Writing { appended, .. } = &mut self.inside {
            *appended = true;
        }
        Ok(())
    }

    /// Takes a change of a partition that statements are about.
    pub(super) fn change_of_partition(
        &mut self,
        place: &Place,
        change: &Change,
        skipping: Option<FilterReason>,
    ) -> Result<(), Error> {
        let (selected, table) = self.filter.find(&place.table, &mut self.statistics);
        let kind = change.operation.kind();
        let reason = match (skipping, selected, place.is_excluded) {
            (Some(reason), _, _) => Some(reason),
            (_, false, _) => Some(FilterReason::NotMapped),
            (_, _, true) => Some(FilterReason::Excluded),
            _ => None,
        };
        match (reason, &change.operation) {
            (Some(reason), _) => {
                let counts = self.statistics.counts_mut(table, kind);
                counts.read += 1;
                counts.filter(reason, 1);
                Ok(())
            }
            // It counts once all its partitions are known.
            (None, Operation::Truncate(options)) => {
                if let Some(placing) = &mut self.placing {
                    placing.truncate(place, change, *options);
                }
                Ok(())
            }
            (None, _) => {
                self.statistics.counts_mut(table, kind).read += 1;
                self.append(&place.change(change), place.details.as_ref())?;
                self.statistics.counts_mut(table, kind).written += 1;
                Ok(())
            }
        }
    }

    /// Writes a truncation that was told partition by partition, once `event` shows that it is told to its end.
    pub(super) fn look_at_truncation(&mut self, event: &LogEvent) -> Result<(), Error> {
        let change = match event {
            LogEvent::Notice(_) => return Ok(()),
            LogEvent::Change(change) => Some(change),
            _ => None,
        };
        let Some(placing) = &mut self.placing else { return Ok(()) };
        let failure = placing.failure();
        let ends = match failure {
            Some(failure) => Err(failure),
            None => placing.ends_truncation(change),
        };
        let told = match ends {
            Ok(true) => placing.end_truncation(),
            Ok(false) => None,
            Err(cause) => return Err(self.source_error("look at", cause)),
        };
        let Some((truncation, left)) = told else { return Ok(()) };
        if let Some(left) = left {
            return Err(Error::PartitionTruncated {
                position: self.progress.position.clone(),
                partition: truncation.partition().into(),
                table: truncation.table.name.clone().into(),
                left: left.into(),
            });
        }
        let (_, table) = self.filter.find(&truncation.table, &mut self.statistics);
        self.statistics.counts_mut(table, OperationKind::Truncate).read += 1;
        let operation = Operation::Truncate(truncation.options);
        let change = Change { table: Arc::clone(&truncation.table), operation, address: truncation.address };
        self.append(&change, None)?;
        self.statistics.counts_mut(table, OperationKind::Truncate).written += 1;
        Ok(())
    }

    /// Takes what the transaction did to an object of the database.
    pub(super) fn object(&mut self, object: ObjectChange) -> Result<(), Error> {
        match self.inside {
            Inside::Nothing => return Err(self.out_of_order("a statement outside a transaction")),
            Inside::Skipping { reason, .. } => {
                // Where a sequence stands is told once, and counts for later transactions too.
                if let (FilterReason::LeftOut, ObjectChange::Sequence(sequence)) = (reason, object) {
                    self.owed.push(sequence);
                }
                return Ok(());
            }
            Inside::Writing { .. } => {}
        }
        match object {
            ObjectChange::Definition(statement) => {
                let own = TableName::new(&*statement.owner, &*statement.object);
                // Each site has heartbeat tables of its own, and makes and mends them itself.
                if is_heartbeat_object(&own) || statement.base.as_ref().is_some_and(is_heartbeat_object) {
                    return Ok(());
                }
                let is_mapped =
                    self.filter.selects(&own) || statement.base.as_ref().is_some_and(|base| self.filter.selects(base));
                if !self.definitions.includes(&statement, is_mapped) {
                    let code = Code::DefinitionPassedOver;
                    (self.notice)(&format!("{code}: {} is not carried: the DDL rules leave it out", statement.title()));
                    return Ok(());
                }
                if !statement.untold.is_empty() {
                    let (position, title) = (self.progress.position.clone(), statement.title());
                    return Err(Error::Untold { position, title, reason: statement.untold });
                }
                if self.definitions.reports {
                    (self.notice)(&format!("{}: {} is carried", Code::DefinitionCarried, statement.title()));
                }
                let appended = self.writer.append_statement(&statement);
                appended.map_err(|source| self.trail_error("append to", source))?;
            }
            ObjectChange::Sequence(sequence) => {
                let appended = self.writer.append_sequence(&sequence);
                appended.map_err(|source| self.trail_error("append to", source))?;
            }
        }
        self.is_waiting = true;
        if let Inside::Writing { appended, .. } = &mut self.inside {
            *appended = true;
        }
        Ok(())
    }

    /// Passes a heartbeat on. It is no row of a user's, and not counted.
    pub(super) fn heartbeat(&mut self, change: &Change) -> Result<(), Error> {
        let Inside::Writing { commit, appended } = &mut self.inside else { return Ok(()) };
        let body = self.checkpoint.extract();
        let notes = ExtractNotes {
            now: (self.clock)(),
            csn: Some(commit.csn.as_str().to_owned()),
            restart: body.map(|body| body.recovery.position.as_str().to_owned()),
            restart_time: body.and_then(|body| body.current.time),
        };
        let Some(heartbeats) = &mut self.heartbeats else { return Ok(()) };
        let passed = match heartbeats.pass(change, notes) {
            Ok(Some(passed)) => passed,
            Ok(None) => return Ok(()),
            Err(unreadable) => {
                (self.notice)(&format!("a row of {} is dropped: {unreadable}", change.table.name));
                return Ok(());
            }
        };
        *appended = true;
        self.is_waiting = true;
        self.writer.append(&passed).map_err(|source| self.trail_error("append to", source))
    }
}
