//! Work that is done at a moment that the seed chooses.

use super::Forgetful;
use crate::storage::{Done, Work, Worker};
use std::io;
use std::time::Duration;

/// Most looks at the result that come before it.
const LOOKS_MAX: u8 = 3;

/// Does work when it is started, or when its result is asked for, once or some times. It is lost when nobody asks.
pub(super) struct Later {
    storage: Forgetful,
    state: State,
    /// Looks that find nothing.
    looks: u8,
}

enum State {
    Nothing,
    Waiting(Work),
    Done(io::Result<()>),
}

impl Later {
    pub(super) fn new(storage: &Forgetful) -> Later {
        Later { storage: storage.clone(), state: State::Nothing, looks: 0 }
    }
}

impl Worker for Later {
    fn start(&mut self, work: Work) -> io::Result<()> {
        let at_once = {
            let mut disk = self.storage.disk();
            self.looks = if disk.works_at_once { 0 } else { disk.random.u8(..=LOOKS_MAX) };
            disk.works_at_once || disk.random.bool()
        };
        self.state = if at_once { State::Done(work()) } else { State::Waiting(work) };
        Ok(())
    }

    fn result(&mut self, wait: bool) -> Option<Done> {
        if self.looks > 0 && !wait {
            self.looks -= 1;
            return None;
        }
        let result = match std::mem::replace(&mut self.state, State::Nothing) {
            State::Nothing => return None,
            State::Waiting(work) => work(),
            State::Done(result) => result,
        };
        // No real time passes here.
        Some(Done { result, took: Duration::ZERO })
    }
}
