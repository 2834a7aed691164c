//! A Pump, put together: an Extract whose source is a trail.

use super::{Run, STEP_WAIT, host, machine};
use distribution::{Error, GroupLedger, PathRules, Pump, PumpSetup, Signing};
use parameter::{PumpOutput, PumpParameters};
use process::heartbeat::Router;
use process::{
    CheckpointBody, CheckpointFile, Code, Failure, Statistics, StopStatus, TrailPlace, Wallet, WriteCheckpoint, clock,
};
use std::sync::Arc;
use trail::Producer;
use trail::copy::{CopyEverything, CopyOptions, CopyRules};
use trail::storage::Directory;

impl Run {
    /// Sends records on until told to stop, from the last checkpoint on.
    pub(super) fn pump(&mut self) -> Result<(), Box<Failure>> {
        let parameters = parameter::parse_pump(&self.parameters, &self.parameter_file)
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        self.check_group(&parameters.group)?;
        let mut checkpoint = self.checkpoint_file()?;
        let mut first = checkpoint.latest().clone();
        let body = first.extract().expect("the file is an Extract's");
        let input = body.input.clone().expect("only a Pump is run as one");
        self.plan_purge(parameters.purge.as_ref(), &input.trail)?;
        let trail = self.output_of(&parameters, &body.trails)?;
        first.started = Some(clock::now());
        first.updated = clock::now();
        first.stop_status = StopStatus::Active;
        if let CheckpointBody::Extract(body) = &mut first.body {
            body.startup = body.recovery.clone();
        }
        checkpoint.save(&first).map_err(|error| Failure::from(&error))?;
        match &parameters.output {
            PumpOutput::Local(_) => self.pump_here(&parameters, &input.trail, &trail, checkpoint),
            PumpOutput::Remote(host, _) => self.pump_there(&parameters, host, &input.trail, &trail, checkpoint),
        }
    }

    fn pump_here(
        &mut self,
        parameters: &PumpParameters,
        source: &str,
        trail: &WriteCheckpoint,
        checkpoint: CheckpointFile,
    ) -> Result<(), Box<Failure>> {
        let parse =
            |text: &str| TrailPlace::parse(self.home.path(), text).map_err(|error| Box::new(Failure::from(&error)));
        let (from, to) = (parse(source)?, parse(&trail.name)?);
        let setup = PumpSetup {
            source: Arc::new(Directory::new(&from.directory)),
            source_trail: from.name,
            rules: self.rules(parameters),
            keys: Some(Arc::new(Wallet::of(&self.home))),
            target: Arc::new(Directory::new(&to.directory)),
            options: CopyOptions {
                trail: to.name,
                display_name: trail.name.clone(),
                file_bytes_max: u64::from(trail.megabytes) * 1_000_000,
                producer: self.producer(),
                clock: Arc::new(clock::now),
                // What the target trail ends with tells more: an end before the checkpoint is told of and mended.
                expected: None,
            },
            ledger: Box::new(GroupLedger::new(checkpoint, Box::new(clock::now))),
            notice: self.journal.notice(),
            since: clock::now(),
        };
        let of = |error: Error| Box::new(Failure::from(&error));
        let mut pump = Pump::open(setup).map_err(of)?;
        while !self.shutdown.is_requested() {
            let stepped = pump.step(STEP_WAIT);
            if let Err(error) = stepped {
                self.journal.statistics(&pump.statistics());
                return Err(of(error));
            }
            self.retry.succeeded();
            self.purge_if_due(pump.position().sequence);
            self.answer_pump(&pump.statistics(), &trail.name);
        }
        let statistics = pump.statistics();
        let stopped = pump.stop();
        self.journal.statistics(&statistics);
        stopped.map_err(of)?;
        self.note_end(StopStatus::Graceful);
        self.purge();
        Ok(())
    }

    pub(super) fn rules(&self, parameters: &PumpParameters) -> Box<dyn CopyRules> {
        Box::new(Signing::new(rules(parameters), Router::pump(&self.group.to_string()), Box::new(clock::now)))
    }

    /// Answers what was asked since the last step.
    pub(super) fn answer_pump(&mut self, statistics: &Statistics, trail: &str) {
        self.commands.parts.look(clock::now(), statistics);
        while let Some(pending) = self.commands.next() {
            let heading = format!("Output to {trail}:");
            let answer = self.answer_of_group(pending.request(), statistics, &heading);
            pending.answer(&answer.unwrap_or_else(|| self.unfit()));
        }
    }

    /// The trail that parameter file and checkpoint agree on, letter for letter.
    fn output_of(
        &self,
        parameters: &PumpParameters,
        known: &[WriteCheckpoint],
    ) -> Result<WriteCheckpoint, Box<Failure>> {
        let (keyword, is_remote) = match &parameters.output {
            PumpOutput::Local(_) => ("EXTTRAIL", false),
            PumpOutput::Remote(_, name)
                if TrailPlace::parse(self.home.path(), name).is_ok_and(|at| at.name.is_single()) =>
            {
                ("RMTFILE", true)
            }
            PumpOutput::Remote(..) => ("RMTTRAIL", true),
        };
        let named = parameters.output.name();
        let kind = if is_remote { "trail in another home called" } else { "trail" };
        let is_it = |trail: &&WriteCheckpoint| trail.name == named && trail.is_remote == is_remote;
        if let Some(trail) = known.iter().find(is_it) {
            return Ok(trail.clone());
        }
        let what = match known.first() {
            None => format!("EXTRACT {} has no {kind} {named}", self.group),
            Some(other) => {
                let place = if other.is_remote { " of another home" } else { "" };
                format!("EXTRACT {} has no {kind} {named}, it has {}{place}", self.group, other.name)
            }
        };
        let next_step = format!(
            "ADD {keyword} {named}, EXTRACT {}, or give the trail's name in the parameter file letter for letter",
            self.group
        );
        let failure = Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone());
        Err(Box::new(failure.with_next_step(next_step)))
    }

    pub(super) fn producer(&self) -> Producer {
        Producer {
            group: self.group.to_string(),
            host: host(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine(),
        }
    }
}

/// Which records the parameter file lets through.
fn rules(parameters: &PumpParameters) -> Box<dyn CopyRules> {
    match &parameters.tables {
        Some(tables) => Box::new(PathRules::of_tables(tables)),
        None => Box::new(CopyEverything),
    }
}
