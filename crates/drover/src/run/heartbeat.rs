//! Heartbeats beside a running group: the jobs of its database, and a watch over what arrives.

use super::{Run, SharedJournal};
use crate::failure;
use database::{Database, ErrorClass, HeartbeatJob, HeartbeatState, HeartbeatTable, Heartbeats};
use process::heartbeat::{Alert, Arrived, COLUMNS, Heartbeat, HeartbeatWatch};
use process::{Code, clock};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time between two looks for jobs that are due: a frequency of a second must be kept.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks for jobs between two looks at what has arrived.
const LOOKS_PER_WATCH: u32 = 20;

/// A thread that beats, beside the work of the group and over a connection of its own. It ends with this value.
pub(super) struct Beating {
    /// Closed when we go. The thread may hang in a connection then, and nobody waits for it.
    _end: Sender<()>,
}

impl Beating {
    /// Starts to run `jobs` when they are due, and to watch what `replicat` applies.
    pub(super) fn start(
        database: Arc<dyn Database>,
        jobs: &'static [HeartbeatJob],
        replicat: Option<String>,
        journal: SharedJournal,
    ) -> Beating {
        let (end, ended) = channel::<()>();
        let mut beat = Beat {
            database,
            jobs,
            replicat,
            journal,
            heartbeats: None,
            watch: HeartbeatWatch::default(),
            looks: 0,
            has_failed: false,
        };
        let run = move || {
            beat.look();
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                beat.look();
            }
        };
        // Without the thread no heart beats, and everything else works.
        let _ = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(run);
        Beating { _end: end }
    }
}

struct Beat {
    database: Arc<dyn Database>,
    jobs: &'static [HeartbeatJob],
    replicat: Option<String>,
    journal: SharedJournal,
    heartbeats: Option<Box<dyn Heartbeats>>,
    watch: HeartbeatWatch,
    looks: u32,
    has_failed: bool,
}

impl Beat {
    fn look(&mut self) {
        match self.run() {
            Ok(()) => self.has_failed = false,
            // A database that is busy is asked again.
            Err(error) if error.class() == ErrorClass::Transient => {}
            Err(error) => {
                self.heartbeats = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    let text = failure::of_database(&error).message(clock::now()).text;
                    self.journal.say(Code::HeartbeatJobFailed, format!("heartbeats stand still: {text}"));
                }
            }
        }
    }

    fn run(&mut self) -> Result<(), database::Error> {
        if self.heartbeats.is_none() {
            self.heartbeats = self.database.heartbeats()?;
        }
        let Some(heartbeats) = &mut self.heartbeats else { return Ok(()) };
        heartbeats.run_due(self.jobs)?;
        self.looks += 1;
        let Some(replicat) = self.replicat.as_deref().filter(|_| self.looks % LOOKS_PER_WATCH == 1) else {
            return Ok(());
        };
        let arrived: Vec<Arrived> = arrivals(&mut **heartbeats)?
            .into_iter()
            .filter(|row| row.incoming.replicat.as_deref() == Some(replicat))
            .map(|row| Arrived {
                remote: row.remote_database.unwrap_or_default(),
                incoming: row.incoming,
                received: Some(row.stamp),
            })
            .collect();
        for alert in self.watch.look(clock::now(), &arrived) {
            match alert {
                Alert::Late { from, age } => {
                    let text = format!("no heartbeat of {from} since {} s", age / 1_000_000);
                    self.journal.say(Code::HeartbeatLate, text);
                }
                Alert::Again { from } => self.journal.say(Code::HeartbeatAgain, format!("heartbeats of {from} again")),
                Alert::Skew { from, skew } => {
                    self.journal.say(Code::ClocksDisagree, format!("heartbeats of {from}: {}", skew.in_words()));
                }
            }
        }
        Ok(())
    }
}

/// The rows of GG_HEARTBEAT, with the time of arrival in place of the stamp.
pub(crate) fn arrivals(heartbeats: &mut dyn Heartbeats) -> Result<Vec<Heartbeat>, database::Error> {
    rows(heartbeats, HeartbeatTable::Arrived)
}

/// The rows of GG_HEARTBEAT_HISTORY, in the same form, oldest first.
pub(crate) fn history(heartbeats: &mut dyn Heartbeats) -> Result<Vec<Heartbeat>, database::Error> {
    rows(heartbeats, HeartbeatTable::History)
}

fn rows(heartbeats: &mut dyn Heartbeats, table: HeartbeatTable) -> Result<Vec<Heartbeat>, database::Error> {
    let columns = COLUMNS.map(|name| if name == COLUMNS[1] { "HEARTBEAT_RECEIVED_TS" } else { name });
    let rows = heartbeats.rows(table, &columns)?;
    Ok(rows.iter().map(|row| Heartbeat::of_values(row)).collect())
}

impl Run {
    /// What is known of the heartbeat tables of the group's database; `None` where there are none.
    pub(super) fn heartbeat_state(&self, database: &dyn Database) -> Option<HeartbeatState> {
        let state = database.heartbeats().and_then(|heartbeats| match heartbeats {
            Some(mut heartbeats) => heartbeats.inspect(),
            None => Ok(None),
        });
        match state {
            Ok(state) => state,
            Err(error) => {
                let text = failure::of_database(&error).message(clock::now()).text;
                self.journal.say(Code::HeartbeatJobFailed, format!("the group goes on without heartbeats: {text}"));
                None
            }
        }
    }
}
