//! PURGEOLDEXTRACTS of a running group.

use super::Run;
use parameter::{KeepParameter, PurgeParameters};
use process::{Code, Failure, Purge, PurgeSchedule, Purged, TrailPlace, clock};
use std::time::Duration;
use trail::purge::{Keep, PurgeRules, Reason};

/// What a group removes of its trail, and when.
pub struct Purger {
    purge: Purge,
    schedule: PurgeSchedule,
    /// The trail as the operator wrote it.
    trail: String,
}

/// The rules that a PURGEOLDEXTRACTS statement stands for.
fn rules(parameters: &PurgeParameters) -> PurgeRules {
    let keep = match parameters.keep {
        KeepParameter::Files(files) => Keep::Files(files),
        KeepParameter::Hours(hours) => Keep::Time(Duration::from_secs(u64::from(hours) * 3600)),
    };
    PurgeRules { use_checkpoints: parameters.use_checkpoints, keep }
}

impl Run {
    /// Takes note of what the group is to remove of `trail`.
    ///
    /// # Errors
    /// When the statement names another trail.
    pub(super) fn plan_purge(&mut self, parameters: Option<&PurgeParameters>, trail: &str) -> Result<(), Box<Failure>> {
        let Some(parameters) = parameters else {
            self.purge = None;
            return Ok(());
        };
        let parse =
            |text: &str| TrailPlace::parse(self.home.path(), text).map_err(|error| Box::new(Failure::from(&error)));
        let place = parse(trail)?;
        if place.name.is_single() {
            let what =
                format!("PURGEOLDEXTRACTS has no effect: {trail} is a single file, of which nothing can be removed");
            let failure = Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone());
            return Err(Box::new(failure.with_next_step("take the statement out of the parameter file")));
        }
        if let Some(named) = &parameters.trail
            && !parse(named)?.is_same(&place)
        {
            let what = format!("PURGEOLDEXTRACTS names trail {named}, and {} {} has {trail}", self.kind, self.group);
            let failure = Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone());
            return Err(Box::new(failure.with_next_step("name the group's own trail, or leave the name out")));
        }
        // An attempt after a failure goes on with the schedule of the one before.
        let every = Duration::from_secs(u64::from(parameters.every_minutes) * 60);
        let schedule = self.purge.take().map_or_else(|| PurgeSchedule::new(every), |purger| purger.schedule);
        let purge = Purge { place, rules: rules(parameters) };
        self.purge = Some(Purger { purge, schedule, trail: trail.to_owned() });
        Ok(())
    }

    /// Removes what may go, when it is time; the group has come to file `file` of its trail.
    pub(super) fn purge_if_due(&mut self, file: u32) {
        if self.purge.as_mut().is_some_and(|purger| purger.schedule.is_due(file, clock::now())) {
            self.purge();
        }
    }

    /// Removes what may go. Trouble with it is told and does not stop the group.
    pub(super) fn purge(&self) {
        let Some(Purger { purge, trail, .. }) = &self.purge else { return };
        match purge.run(&self.home, clock::now()) {
            Ok(None) => {}
            Ok(Some(purged)) => {
                self.journal.say(Code::TrailPurged, described(trail, &purged));
                for reader in &purged.cut_off {
                    let text = format!(
                        "{reader} needs files of trail {trail} that were removed, up to number {}",
                        purged.last
                    );
                    self.journal
                        .say(Code::ReaderCutOff, format!("{text}\n  next step: {}", Code::ReaderCutOff.next_step()));
                }
            }
            Err(cause) => {
                let mut failure =
                    Failure::new(Code::PurgeRefused, format!("could not purge trail {trail}: {}", cause.what()));
                for cause in cause.causes() {
                    failure = failure.with_cause(&std::io::Error::other(cause.clone()));
                }
                self.journal.lock().fail(clock::now(), &failure);
            }
        }
    }
}

fn described(trail: &str, purged: &Purged) -> String {
    let Purged { files, last, bytes, stays, .. } = purged;
    let stays = stays.as_ref().map(|(file, reason)| format!("; {trail}{file:09} stays: {}", in_words(reason)));
    format!(
        "{files} files of trail {trail} removed, up to {trail}{last:09}, {bytes} bytes{}",
        stays.unwrap_or_default()
    )
}

fn in_words(reason: &Reason) -> String {
    match reason {
        Reason::Written => "it is written".to_owned(),
        Reason::Resumed => "it holds the last complete transaction".to_owned(),
        Reason::Reader(name) => format!("{name} has not left it behind"),
        Reason::NoReader => "no Replicat of this home reads the trail".to_owned(),
        Reason::Count => "MINKEEPFILES keeps it".to_owned(),
        Reason::Age => "it is not old enough".to_owned(),
        Reason::AgeUnknown => "its age is not known".to_owned(),
    }
}
