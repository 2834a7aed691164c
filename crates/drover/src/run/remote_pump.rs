//! A Pump into another home, put together.

use super::{Run, STEP_WAIT, host};
use distribution::{
    CERTIFICATE_DEFAULT, Error, GroupLedger, Hello, Identity, NetworkRetry, RemoteSender, Response, RetryTable,
    SILENCE_DEFAULT, SenderSetup, Step,
};
use parameter::{PumpParameters, RemoteHost};
use process::{Action, CheckpointFile, Code, Failure, StopStatus, TrailPlace, Wallet, WriteCheckpoint, clock};
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Directory;

impl Run {
    /// Sends records to the receiver of another home until told to stop, or until the connection ends.
    pub(super) fn pump_there(
        &mut self,
        parameters: &PumpParameters,
        remote: &RemoteHost,
        source: &str,
        trail: &WriteCheckpoint,
        checkpoint: CheckpointFile,
    ) -> Result<(), Box<Failure>> {
        if self.network.is_none() {
            self.network = Some(NetworkRetry::new(self.retry_table()?));
        }
        let from = TrailPlace::parse(self.home.path(), source).map_err(|error| Box::new(Failure::from(&error)))?;
        let identity = Identity::of(&self.home.dircrd(), remote.certificate.as_deref().unwrap_or(CERTIFICATE_DEFAULT));
        let path = format!("/services/v2/targets?trail={}", trail.name.rsplit('/').next().unwrap_or_default());
        let silence = remote.silence.map_or(SILENCE_DEFAULT, |seconds| Duration::from_secs(seconds.into()));
        let wire = distribution::connect(&identity, &remote.host, remote.port, &path, silence);
        let wire = wire.map_err(|error| self.of_network(&error))?;
        let hello = Hello {
            who: format!("{}:{}:{} {}", host(), self.home.path().display(), self.kind, self.group),
            source: source.to_owned(),
            target: trail.name.clone(),
            megabytes: trail.megabytes,
            ..Hello::default()
        };
        let setup = SenderSetup {
            source: Arc::new(Directory::new(&from.directory)),
            trail: from.name,
            rules: self.rules(parameters),
            keys: Some(Arc::new(Wallet::of(&self.home))),
            ledger: Box::new(GroupLedger::new(checkpoint, Box::new(clock::now))),
            compress_from: remote.compress_from,
            bandwidth: remote.bandwidth,
            notice: self.journal.notice(),
            since: clock::now(),
        };
        let opened = RemoteSender::open(Box::new(wire), hello, setup);
        let mut sender = opened.map_err(|error| self.of_network(&error))?;
        self.journal.say(Code::Notice, format!("connected to {}:{}", remote.host, remote.port));
        let heading = format!("{} at {}:{}", trail.name, remote.host, remote.port);
        while !self.shutdown.is_requested() {
            match sender.step(STEP_WAIT) {
                // Only what arrived is a success: a connection can be made and be of no use.
                Ok(Step::Answered) => {
                    self.retry.succeeded();
                    self.network.iter_mut().for_each(NetworkRetry::succeeded);
                }
                Ok(Step::Worked | Step::Idle) => {}
                Err(error) => {
                    self.journal.statistics(&sender.statistics());
                    return Err(self.of_network(&error));
                }
            }
            self.purge_if_due(sender.position().sequence);
            self.answer_pump(&sender.statistics(), &heading);
        }
        let statistics = sender.statistics();
        let stopped = sender.stop();
        self.journal.statistics(&statistics);
        match stopped {
            // What was under way is sent again at the next start.
            Ok(()) | Err(Error::Network { .. }) => {}
            Err(error) => return Err(self.of_network(&error)),
        }
        self.note_end(StopStatus::Graceful);
        self.purge();
        Ok(())
    }

    /// The failure, and what the retry table says about it.
    fn of_network(&mut self, error: &Error) -> Box<Failure> {
        if let (Error::Network { source, .. }, Some(network)) = (error, &mut self.network) {
            self.decided = match network.decide(source) {
                Response::Retry(delay) => Some(Action::RetryAfter(delay)),
                Response::Abend => Some(Action::Abend),
                Response::Unnamed => None,
            };
        }
        Box::new(Failure::from(error))
    }

    /// The file `tcperrs` of the home, or what holds without it.
    fn retry_table(&self) -> Result<RetryTable, Box<Failure>> {
        let path = self.home.path().join("tcperrs");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                let what = format!("could not read {}", path.display());
                return Err(Failure::new(Code::HomeRefused, what).with_cause(&error).into());
            }
            Ok(text) => text,
        };
        RetryTable::parse(&text).map_err(|error| {
            let failure =
                Failure::new(Code::ParameterWrong, format!("could not use the retry table {}", path.display()));
            let next_step =
                "write lines such as `ECONNREFUSED RETRY 1000 12`: delay in hundredths of a second, most retries";
            failure.with_cause(&error).with_next_step(next_step).into()
        })
    }
}
