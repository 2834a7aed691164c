//! Heartbeats beside a running group: the jobs of its database, and a watch over what arrives.

use super::{Run, SharedJournal};
use crate::failure;
use database::{Database, ErrorClass, HeartbeatJob, HeartbeatState, HeartbeatTable, Heartbeats};
use process::heartbeat::{Alert, Arrived, COLUMNS, Heartbeat, HeartbeatWatch};
use process::{Code, clock};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two looks for jobs that are due, where hearts beat often: a frequency of a second must be kept.
const OFTEN: Duration = Duration::from_millis(500);
/// Time between two looks elsewhere. No connection is held meanwhile, since a server that is shut down smartly waits for it.
const SELDOM: Duration = Duration::from_secs(5);
/// Time between two looks for tables, where there are none.
const FOR_TABLES: Duration = Duration::from_secs(30);
/// Longest frequency that counts as often, in seconds.
const OFTEN_MOST: u32 = 10;
/// Time between two looks at what has arrived, and at what was chosen.
const WATCH_EVERY: Duration = Duration::from_secs(10);

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
            watched_at: None,
            rest: OFTEN,
            has_failed: false,
        };
        let run = move || {
            beat.look();
            while ended.recv_timeout(beat.rest) == Err(RecvTimeoutError::Timeout) {
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
    watched_at: Option<Instant>,
    /// Time until the next look.
    rest: Duration,
    has_failed: bool,
}

impl Beat {
    fn look(&mut self) {
        match self.run() {
            Ok(()) => self.has_failed = false,
            // A database that is busy is asked again.
            Err(error) if error.class() == ErrorClass::Transient => {}
            Err(error) => {
                (self.heartbeats, self.rest) = (None, SELDOM);
                if !std::mem::replace(&mut self.has_failed, true) {
                    let text = failure::of_database(&error).message(clock::now()).text;
                    self.journal.say(Code::HeartbeatJobFailed, format!("heartbeats stand still: {text}"));
                }
            }
        }
    }

    fn run(&mut self) -> Result<(), database::Error> {
        let held = self.heartbeats.take();
        let is_held = held.is_some();
        let Some(mut heartbeats) = held.map_or_else(|| self.database.heartbeats(), |held| Ok(Some(held)))? else {
            self.rest = FOR_TABLES;
            return Ok(());
        };
        let watches = self.watched_at.is_none_or(|at| at.elapsed() >= WATCH_EVERY);
        if watches || !is_held {
            let Some(state) = heartbeats.inspect()? else {
                self.rest = FOR_TABLES;
                return Ok(());
            };
            self.rest = if (1..=OFTEN_MOST).contains(&state.options.frequency) { OFTEN } else { SELDOM };
        }
        heartbeats.run_due(self.jobs)?;
        if watches {
            self.watched_at = Some(Instant::now());
            self.watch_arrivals(&mut *heartbeats)?;
        }
        self.heartbeats = (self.rest == OFTEN).then_some(heartbeats);
        Ok(())
    }

    fn watch_arrivals(&mut self, heartbeats: &mut dyn Heartbeats) -> Result<(), database::Error> {
        let Some(replicat) = self.replicat.as_deref() else { return Ok(()) };
        let arrived: Vec<Arrived> = arrivals(heartbeats)?
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
