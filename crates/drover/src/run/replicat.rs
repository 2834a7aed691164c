//! A Replicat, put together.

use super::{Run, STEP_WAIT};
use crate::trail_place::TrailPlace;
use crate::{failure, wire};
use apply::{GroupLimits, Pace, Replicat, ReplicatSetup, Step};
use database::{ForeignKeyPolicy, SessionRequest, TriggerPolicy};
use parameter::ReplicatParameters;
use process::{Code, Failure, clock};
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Directory;

/// How often the checkpoint file follows the checkpoint table's row, which moves with every commit. INFO reads the file.
const CHECKPOINT_FILE_PACE: Duration = Duration::from_secs(1);

impl Run {
    /// Applies until told to stop, from the checkpoint row on.
    pub(super) fn replicat(&mut self) -> Result<(), Failure> {
        let parameters = parameter::parse_replicat(&self.parameters, &self.parameter_file)
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        self.check_group(&parameters.group)?;
        let mut replicat = self.open_replicat(&parameters)?;
        while !self.shutdown.is_requested() {
            let stepped = match replicat.step(STEP_WAIT) {
                Ok(Step::Worked | Step::Idle) => {
                    self.retry.succeeded();
                    Ok(())
                }
                Ok(Step::Retry { cause }) => self.before_retry(&cause),
                Err(error) => Err(Failure::from(&error)),
            };
            if stepped.is_err() {
                self.journal.statistics(replicat.statistics());
                return stepped;
            }
        }
        let statistics = replicat.statistics().clone();
        let stopped = replicat.stop();
        self.journal.statistics(&statistics);
        stopped.map(|_| ()).map_err(|error| Failure::from(&error))
    }

    fn open_replicat(&self, parameters: &ReplicatParameters) -> Result<Replicat, Failure> {
        let checkpoint = self.checkpoint_file()?;
        let body = checkpoint.latest().replicat().expect("the file is a Replicat's");
        let place = TrailPlace::parse(self.home.path(), &body.trail).map_err(|error| Failure::from(&error))?;
        let database = wire::open(self.home.path(), parameters.target.reveal())
            .map_err(|error| failure::of_database(&error).with_object(parameters.target.to_string()))?;
        let table = body.checkpoint_table.clone();
        let has_table = database
            .has_checkpoint_table(&table)
            .map_err(|error| failure::of_database(&error).with_object(parameters.target.to_string()))?;
        if !has_table {
            let what = format!("the target has no checkpoint table {table}");
            return Err(Failure::new(Code::CheckpointTableMissing, what).with_object(parameters.target.to_string()));
        }
        let request = SessionRequest {
            group: self.group.to_string(),
            checkpoint_table: table,
            triggers: if parameters.fire_triggers { TriggerPolicy::Fire } else { TriggerPolicy::Suppress },
            foreign_keys: if parameters.check_foreign_keys {
                ForeignKeyPolicy::Check
            } else {
                ForeignKeyPolicy::Ignore
            },
        };
        // The source's rules are taken from the target: so far both are of one product.
        let (case, schema) = (database.case_rule(), database.default_schema());
        let setup = ReplicatSetup {
            group: self.group.to_string(),
            storage: Arc::new(Directory::new(&place.directory)),
            trail: place.name,
            connect: Box::new(move || database.open_session(request.clone())),
            rules: parameters.map.plan(case, &schema, case, &schema),
            limits: GroupLimits::with_operations(parameters.group_transactions),
            checkpoint,
            directory: self.home.path().display().to_string(),
            clock: Arc::new(clock::now),
            notice: self.journal.notice(),
            pace: Pace { checkpoint_file: CHECKPOINT_FILE_PACE, ..Pace::default() },
        };
        Replicat::new(setup).map_err(|error| Failure::from(&error))
    }
}
