//! The source of an Extract, with a place for what is open.

use super::Run;
use super::extract::of_source;
use capture::Reading;
use capture::bounded::{Bounded, BoundedOptions, mark_of};
use capture::open::{CommittedSource, CommittedSourceSetup, Store, StoreOptions};
use change::TransactionId;
use database::{Database, ErrorClass, SourceRequest};
use parameter::ExtractParameters;
use process::{Code, Failure, clock};
use std::path::PathBuf;
use std::sync::Arc;
use trail::storage::{Directory, Storage};

impl Run {
    /// Opens the source at the position of `request`. Where it tells uncommitted work, that waits in the open-transaction
    /// store.
    pub(super) fn open_source(
        &self,
        parameters: &ExtractParameters,
        database: &dyn Database,
        request: SourceRequest,
        left_out: Vec<TransactionId>,
    ) -> Result<Reading, Box<Failure>> {
        let position = request.start.clone();
        let failed = |source| {
            of_source(&capture::Error::Source { action: "open", position: position.clone(), source }, parameters)
        };
        let group = self.group.to_string();
        let storage = self.storage_of(parameters.cache.directory.as_deref(), self.home.dirtmp())?;
        let memory_max = usize::try_from(parameters.cache.bytes).unwrap_or(usize::MAX);
        let store = Store::open(storage, StoreOptions { name: group.clone(), memory_max }).map_err(|error| {
            let step = error.next_step();
            let what = "can't make a place for open transactions";
            failed(database::Error::new(ErrorClass::Permanent, what).with_next_step(step).with_cause(error))
        })?;
        let bounded = match parameters.bounded.is_on {
            true => {
                let storage = self.storage_of(parameters.bounded.directory.as_deref(), self.home.dirbr())?;
                let options = BoundedOptions {
                    group,
                    interval: parameters.bounded.interval,
                    keep_stale_files: parameters.bounded.keep_stale_files,
                    off_on_failure: parameters.bounded.off_on_failure,
                    reset: self.resets_bounded,
                    tables: mark_of(&format!("{:?}", parameters.tables)),
                };
                Some(Bounded::new(storage, options))
            }
            false => None,
        };
        let setup = CommittedSourceSetup {
            start: request.start.clone(),
            store,
            bounded,
            left_out,
            prepared: Some((
                self.storage_of(parameters.bounded.directory.as_deref(), self.home.dirbr())?,
                self.group.to_string(),
            )),
            clock: Arc::new(clock::now),
        };
        let opened = CommittedSource::open(setup, |start| {
            let request = SourceRequest { start: start.clone(), ..request.clone() };
            match parameters.two_phase {
                true => database.open_prepared(&request),
                false => database.open_uncommitted(&request),
            }
        });
        let source: Reading = match opened.map_err(failed)? {
            Some(source) => {
                if (parameters.bounded.is_given || self.resets_bounded) && !source.can_be_bounded() {
                    self.say_unbounded("tells every open transaction again whole after a restart");
                }
                source.into()
            }
            None => {
                if parameters.bounded.is_given || self.resets_bounded {
                    self.say_unbounded("tells committed transactions only");
                }
                database.open_source(request).map_err(failed)?.into()
            }
        };
        Ok(source)
    }

    fn say_unbounded(&self, why: &str) {
        let text = format!("BR has nothing to do here: this source {why}, so that nothing is persisted");
        self.journal.say(Code::Notice, text);
    }

    /// A directory that the operator named relative to the home, or `default`.
    fn storage_of(&self, named: Option<&str>, default: PathBuf) -> Result<Arc<dyn Storage>, Box<Failure>> {
        let path = named.map_or(default, |named| self.home.path().join(named));
        if path.is_dir() {
            return Ok(Arc::new(Directory::new(path)));
        }
        let what = "a directory for open transactions does not exist";
        let failure = Failure::new(Code::ParameterWrong, what).with_object(path.display().to_string());
        Err(Box::new(failure.with_next_step("make the directory, or name one that exists in CACHEMGR or BR")))
    }
}
