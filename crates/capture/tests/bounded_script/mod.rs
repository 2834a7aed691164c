//! Scripts of a log that tells uncommitted work, and of what a restart does with it. Times are `h:mm:ss`.

use capture::bounded::{self, Bounded, BoundedOptions};
use capture::open::{CommittedSource, CommittedSourceSetup, Place, Store, StoreOptions};
use change::{Column, LogPosition, LogicalType, Operation, Row, TableDefinition, TableName, Timestamp, Value};
use database::memory::MemoryLog;
use database::{LogEvent, LogSource};
use process::channel::{Answer, BoundedRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use testkit::script::{Command, Script};
use trail::storage::{Forgetful, Storage};

/// Commands
/// - `interval 4h` or `interval off`, `options [keep-stale] [off-on-failure] [reset]`: for the next start
/// - `clock TIME`
/// - `begin NAME`, `change NAME [rows=N]`, `savepoint NAME`, `rollback NAME` (to the savepoint), `prepare NAME`, `commit NAME`,
///   `abort NAME`
/// - `read`: reads until the log is at its end, shows what is handed out, and makes it durable
/// - `checkpoint`: where a restart would stand
/// - `restart`: kills the process and starts it again
/// - `open`: the open transactions
/// - `send status`, `send statistics`, `send checkpoint [in 20m | at TIME]`, `send start`, `send stop`, `send interval 30m`: what
///   SEND EXTRACT, BR answers
/// - `full`, `roomy`: whether the disk has room
/// - `files`: files of Bounded Recovery
/// - `damage`, `remove`: the first persisted object
pub(crate) struct BoundedScript {
    log: MemoryLog,
    disk: Forgetful,
    clock: Arc<AtomicI64>,
    interval: Option<Duration>,
    options: Vec<String>,
    names: Vec<String>,
    /// The time of each record.
    times: Vec<i64>,
    source: Option<CommittedSource>,
    durable: LogPosition,
    table: Arc<TableDefinition>,
}

impl BoundedScript {
    pub(crate) fn new() -> BoundedScript {
        let log = MemoryLog::new(1000);
        let columns = vec![Column::new("id", LogicalType::Text, "text").with_key(0)];
        BoundedScript {
            durable: log.end(),
            log,
            disk: Forgetful::new(1),
            clock: Arc::default(),
            interval: Some(bounded::INTERVAL_DEFAULT),
            options: Vec::new(),
            names: Vec::new(),
            times: Vec::new(),
            source: None,
            table: Arc::new(TableDefinition { name: TableName::new("main", "t"), columns: columns.into() }),
        }
    }

    fn transaction(&self, command: &Command<'_>) -> Result<u64, String> {
        let name = command.word(0)?;
        let place =
            self.names.iter().rposition(|known| known == name).ok_or_else(|| format!("no transaction {name}"))?;
        Ok(place as u64 + 1)
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    fn note_times(&mut self) {
        let end = number(&self.log.end());
        self.times.resize(end, self.clock.load(Ordering::Relaxed));
    }

    /// The time of the record at a position; the time now for the end of the log.
    fn time_at(&self, position: &LogPosition) -> String {
        let micros = self.times.get(number(position)).copied();
        time_text(micros.unwrap_or_else(|| self.clock.load(Ordering::Relaxed)))
    }

    fn name_of(&self, transaction: &str) -> String {
        let number = transaction.trim_start_matches('x').parse::<usize>().ok();
        let name = number.and_then(|number| self.names.get(number - 1));
        name.cloned().unwrap_or_else(|| transaction.to_owned())
    }

    fn start(&mut self) -> Result<String, String> {
        let storage: Arc<dyn Storage> = Arc::new(self.disk.clone());
        let options = StoreOptions { name: "E1".to_owned(), memory_max: 1 << 20 };
        let clock = Arc::clone(&self.clock);
        let setup = CommittedSourceSetup {
            start: self.durable.clone(),
            store: Store::open(Arc::clone(&storage), options).map_err(|error| error.to_string())?,
            bounded: self.interval.map(|interval| {
                let options = BoundedOptions {
                    group: "E1".to_owned(),
                    interval,
                    keep_stale_files: self.has("keep-stale"),
                    off_on_failure: self.has("off-on-failure"),
                    reset: self.has("reset"),
                    tables: 1,
                };
                Bounded::new(storage, options)
            }),
            left_out: Vec::new(),
            prepared: None,
            clock: Arc::new(move || Timestamp::from_unix_micros(clock.load(Ordering::Relaxed))),
        };
        let log = self.log.clone();
        let source = CommittedSource::open(setup, |start| log.open(start).map(Some));
        self.source = source.map_err(|error| error.to_string())?;
        let place = Place::parse(&self.durable);
        let from = self.log.last_start();
        let kind = if from > place.recovery { "bounded recovery" } else { "normal recovery" };
        Ok(format!(
            "{kind}: reads from {}, skips what committed before {}",
            self.time_at(&from),
            self.time_at(&place.current)
        ))
    }

    fn read(&mut self) -> Result<String, String> {
        let mut lines = Vec::new();
        if self.source.is_none() {
            self.start()?;
        }
        let Some(mut source) = self.source.take() else { return Err("no source".to_owned()) };
        let mut rows = 0;
        let mut transaction = String::new();
        loop {
            let mut events = Vec::new();
            source.read(&mut events, Duration::ZERO).map_err(|error| error.to_string())?;
            if events.is_empty() {
                break;
            }
            for event in events {
                match event {
                    LogEvent::Begin(commit) => (transaction, rows) = (self.name_of(commit.transaction.as_str()), 0),
                    LogEvent::Change(_) => rows += 1,
                    LogEvent::Commit { next } => {
                        lines.push(format!("{transaction}: {rows} changes"));
                        self.durable = next;
                    }
                    LogEvent::Idle { next } => self.durable = next,
                    LogEvent::Object(object) => panic!("nobody has asked for {object:?}"),
                    LogEvent::Notice(text) => lines.push(notice(&text)),
                }
            }
            source.release(&self.durable).map_err(|error| error.to_string())?;
        }
        self.source = Some(source);
        Ok(lines.join("\n"))
    }

    fn first_object(&self) -> Result<String, String> {
        let mut names = self.disk.list().map_err(|error| error.to_string())?;
        names.retain(|name| name.ends_with(".bro"));
        names.sort();
        names.into_iter().next().ok_or_else(|| "no persisted object".to_owned())
    }

    fn do_it(&mut self, command: &Command<'_>) -> Result<String, String> {
        let refused = |error: std::io::Error| error.to_string();
        match command.name {
            "interval" => {
                let text = command.word(0)?;
                self.interval = match text.strip_suffix('h') {
                    Some(hours) => Some(Duration::from_secs(3600 * hours.parse::<u64>().map_err(|_| "no number")?)),
                    None => None,
                };
            }
            "options" => self.options = command.words.iter().map(|word| (*word).to_owned()).collect(),
            "full" => self.disk.full_after(Some(0)),
            "roomy" => self.disk.full_after(None),
            "clock" => {
                let micros = parse_time(command.word(0)?)?;
                self.clock.store(micros, Ordering::Relaxed);
                self.log.set_time(Timestamp::from_unix_micros(micros));
            }
            "begin" => {
                self.names.push(command.word(0)?.to_owned());
                self.log.begin();
            }
            "change" => {
                let transaction = self.transaction(command)?;
                for row in 0..command.number("rows", 1)? {
                    let new = Row::from_values([Value::Bytes(row.to_string().as_bytes())]);
                    self.log.change(transaction, &self.table, Operation::Insert { new });
                }
            }
            "savepoint" => self.log.savepoint(self.transaction(command)?),
            "rollback" => self.log.rollback_to_savepoint(self.transaction(command)?),
            "prepare" => self.log.prepare(self.transaction(command)?, "gid"),
            "commit" => self.log.commit(self.transaction(command)?),
            "abort" => self.log.abort(self.transaction(command)?),
            "read" => return self.read(),
            "checkpoint" => {
                let place = Place::parse(&self.durable);
                let (recovery, current) = (self.time_at(&place.recovery), self.time_at(&place.current));
                return Ok(format!("recovery {recovery}, current {current}"));
            }
            "restart" => {
                self.disk.kill();
                self.source = None;
                return self.start();
            }
            "open" => {
                let list = self.source.as_ref().map(CommittedSource::open_transactions).unwrap_or_default();
                let line = |open: &capture::open::OpenTransaction| {
                    let prepared = open.prepared.as_deref().map(|name| format!(", prepared as {name}"));
                    let (name, start) = (self.name_of(open.transaction.as_str()), self.time_at(&open.start));
                    format!("{name}: since {start}, {} changes{}", open.records, prepared.unwrap_or_default())
                };
                return Ok(list.iter().map(line).collect::<Vec<_>>().join("\n"));
            }
            "send" => {
                let request = match command.word(0)? {
                    "status" => BoundedRequest::Status,
                    "statistics" => BoundedRequest::Statistics,
                    "checkpoint" => match command.word(1) {
                        Ok("in") => {
                            let minutes = command.word(2)?.strip_suffix('m').ok_or("no number of minutes")?;
                            let minutes: u64 = minutes.parse().map_err(|_| "no number of minutes")?;
                            BoundedRequest::CheckpointIn { seconds: 60 * minutes }
                        }
                        Ok("at") => BoundedRequest::CheckpointAt { unix_micros: parse_time(command.word(2)?)? },
                        _ => BoundedRequest::Checkpoint,
                    },
                    "start" => BoundedRequest::Start,
                    "stop" => BoundedRequest::Stop,
                    "interval" => {
                        let minutes = command.word(1)?.strip_suffix('m').ok_or("no number of minutes")?;
                        let minutes: u64 = minutes.parse().map_err(|_| "no number of minutes")?;
                        BoundedRequest::interval(Duration::from_secs(60 * minutes))
                    }
                    other => return Err(format!("nothing to send: {other}")),
                };
                let now = Timestamp::from_unix_micros(self.clock.load(Ordering::Relaxed));
                return Ok(match bounded::answer(self.source.as_mut(), &request, now) {
                    Answer::Done { lines } => lines.join("\n"),
                    Answer::Refused { what, .. } => format!("refused: {what}"),
                });
            }
            "files" => {
                let mut names = self.disk.list().map_err(refused)?;
                names.sort();
                return Ok(names.join("\n"));
            }
            "persisted" => {
                let Some(status) = bounded::status(&self.disk, "E1") else { return Ok("no checkpoint".to_owned()) };
                let names: Vec<String> =
                    status.transactions.iter().map(|transaction| self.name_of(transaction.as_str())).collect();
                let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                let (begin, end) = (self.time_at(&status.begin), self.time_at(&status.end));
                return Ok(format!("BR checkpoint {}: {names}; begin {begin}, end {end}", status.number));
            }
            "damage" => {
                let file = self.disk.open(&self.first_object()?).map_err(refused)?;
                file.write_at(b"?", file.len().map_err(refused)? / 2).map_err(refused)?;
            }
            "remove" => self.disk.remove(&self.first_object()?).map_err(refused)?,
            other => return Err(format!("no command {other}")),
        }
        Ok(String::new())
    }
}

impl Script for BoundedScript {
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
        let answer = self.do_it(command);
        self.note_times();
        answer
    }
}

fn number(position: &LogPosition) -> usize {
    position.as_str().parse().unwrap_or_default()
}

fn parse_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text} is no time");
    let parts: Vec<i64> = text.split(':').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let [hours, minutes, seconds] = parts[..] else { return Err(wrong()) };
    Ok(((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
}

fn time_text(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The beginning of a notice: what follows names positions, which the scripts show as times.
fn notice(text: &str) -> String {
    let end = text.find(&[',', ';', '.'][..]).unwrap_or(text.len());
    format!("notice: {}", &text[..end])
}
