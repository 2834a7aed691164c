//! Two databases, a home between them, and the real binary.
//!
//! What a test claims about data is looked up with plain SQL; what it claims about processes comes from their exit status,
//! their output and their files.

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a condition may take to come true. Long, because the machine may be busy; a test that waits in vain fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Console commands that add Extract E1 and Replicat R1 with trail `./dirdat/aa`.
pub const SET_UP: &str = "\
    DBLOGIN SOURCEDB sqlite:../source.db
    ADD EXTRACT e1, TRANLOG, BEGIN NOW
    ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
    DBLOGIN SOURCEDB sqlite:../target.db
    ADD CHECKPOINTTABLE main.checkpoints
    ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints";

/// Parameters of Extract E1 that select every table.
pub const EXTRACT: &str = "EXTRACT e1\nSOURCEDB sqlite:../source.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n";

/// Parameters of Replicat R1 that map every table to its name.
pub const REPLICAT: &str = "REPLICAT r1\nTARGETDB sqlite:../target.db\nMAP main.*, TARGET main.*;\n";

/// The binary under test, ready for arguments.
pub fn drover() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.env_remove("DROVER_HOME").stdin(Stdio::null());
    command
}

/// Waits until `condition` gives a value.
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder with `source.db`, `target.db` and `home`.
pub struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Both databases with the same tables, and a home with parameter files but without groups.
    pub fn bare(schema: &str) -> Stage {
        let stage = Stage { folder: tempfile::tempdir().expect("a temporary folder") };
        for name in ["source.db", "target.db"] {
            stage.create_database(name, schema);
        }
        let home = stage.home();
        let made = drover().arg("init").arg(&home).output().expect("the binary runs");
        assert!(made.status.success(), "{made:?}");
        stage.parameters("e1", EXTRACT);
        stage.parameters("r1", REPLICAT);
        stage
    }

    /// The same with both groups added.
    pub fn new(schema: &str) -> Stage {
        let stage = Stage::bare(schema);
        stage.console(SET_UP);
        stage
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Makes a database file in WAL mode.
    pub fn create_database(&self, name: &str, schema: &str) {
        let connection = Connection::open(self.path().join(name)).expect("a new database");
        connection.pragma_update(None, "journal_mode", "wal").expect("WAL mode");
        connection.execute_batch(schema).expect("the schema is valid");
    }

    /// A connection to a database of the folder, with foreign keys on.
    pub fn open(&self, name: &str) -> Connection {
        let connection = Connection::open(self.path().join(name)).expect("the database opens");
        connection.busy_timeout(DEADLINE).expect("a busy timeout");
        connection.pragma_update(None, "foreign_keys", true).expect("foreign keys");
        connection
    }

    /// A connection to the source.
    pub fn source(&self) -> Connection {
        self.open("source.db")
    }

    /// A connection to the target.
    pub fn target(&self) -> Connection {
        self.open("target.db")
    }

    /// Writes a parameter file.
    pub fn parameters(&self, group: &str, text: &str) {
        std::fs::write(self.home().join(format!("dirprm/{group}.prm")), text).expect("a parameter file");
    }

    /// Runs console commands that must succeed, and returns what they print.
    pub fn console(&self, commands: &str) -> String {
        let output = self.try_console(commands);
        assert!(output.status.success(), "{commands}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs console commands.
    pub fn try_console(&self, commands: &str) -> Output {
        drover().arg("--home").arg(self.home()).args(["-c", commands]).output().expect("the binary runs")
    }

    /// Runs console commands that must fail with status 1, and returns what they print to standard error.
    pub fn console_refuses(&self, commands: &str) -> String {
        let output = self.try_console(commands);
        assert_eq!(output.status.code(), Some(1), "{commands}: {output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    /// Starts Extract E1.
    pub fn extract(&self) -> Running {
        self.start("extract", "e1")
    }

    /// Starts Replicat R1.
    pub fn replicat(&self) -> Running {
        self.start("replicat", "r1")
    }

    /// Starts a group.
    pub fn start(&self, part: &str, group: &str) -> Running {
        let mut command = drover();
        command.args([part, group, "--home"]).arg(self.home());
        Running::start(command)
    }

    /// Runs both groups until the target holds what the source holds in `tables`, then stops them.
    pub fn replicate(&self, tables: &[&str]) {
        let (extract, replicat) = (self.extract(), self.replicat());
        self.wait_until_equal(tables, &extract, &replicat);
        extract.stop();
        replicat.stop();
    }

    /// Waits until the target holds what the source holds.
    pub fn wait_until_equal(&self, tables: &[&str], extract: &Running, replicat: &Running) {
        let (source, target) = (self.source(), self.target());
        let mut running = [extract, replicat];
        eventually("the target holds what the source holds", || {
            running.iter_mut().for_each(|group| group.assert_running());
            tables.iter().all(|table| rows(&source, table) == rows(&target, table)).then_some(())
        });
    }

    /// Asserts that source and target hold the same rows, value for value and class for class.
    pub fn assert_equal(&self, tables: &[&str]) {
        for table in tables {
            assert_eq!(rows(&self.source(), table), rows(&self.target(), table), "{table}");
        }
    }

    /// The text of a file of the home.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.home().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The event log.
    pub fn event_log(&self) -> String {
        let home = process::Home::open(self.home()).expect("the home opens");
        std::fs::read_to_string(home.event_log()).expect("the event log")
    }

    /// Whether the last file of the trail holds a record in which `text` stands, as `drover trail show` prints it.
    pub fn trail_shows(&self, text: &str) -> bool {
        let Some(last) = self.trail_files().pop() else { return false };
        trail_show(&last).contains(text)
    }

    /// Whether the last file of the trail holds a record of which Logdump prints `text`: also where values can't be read.
    pub fn trail_logs(&self, text: &str) -> bool {
        self.trail_files().pop().is_some_and(|last| logdump(&last).contains(text))
    }

    /// Names of the trail's files, in order.
    pub fn trail_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.home().join("dirdat"))
            .expect("dirdat")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.file_name().is_some_and(|name| name.len() == 11))
            .collect();
        files.sort();
        files
    }
}

/// All rows of a table with exact values, sorted. A float is told apart from every other one, `-0.0` included.
pub fn rows(connection: &Connection, table: &str) -> Vec<Vec<String>> {
    query(connection, &format!("SELECT * FROM {table}"))
}

/// All rows of a query, sorted.
pub fn query(connection: &Connection, sql: &str) -> Vec<Vec<String>> {
    let mut statement = connection.prepare(sql).expect("a query");
    let columns = statement.column_count();
    let mut rows: Vec<Vec<String>> = statement
        .query_map([], |row| (0..columns).map(|column| Ok(exact(row.get_ref(column)?))).collect())
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows");
    rows.sort();
    rows
}

fn exact(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => format!("integer {number}"),
        ValueRef::Real(number) => format!("real {number:?} {:016x}", number.to_bits()),
        // A text need not be UTF-8 in SQLite.
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => format!("text {text:?}"),
            Err(_) => format!("text bytes {text:02x?}"),
        },
        ValueRef::Blob(bytes) => format!("blob {bytes:02x?}"),
    }
}

/// One number from a query.
pub fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A group that runs; killed when dropped.
pub struct Running {
    child: std::cell::RefCell<Option<Child>>,
}

/// How a group ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard error.
    pub stderr: String,
}

impl Running {
    /// Starts a command with its output caught.
    pub fn start(mut command: Command) -> Running {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        Running { child: std::cell::RefCell::new(Some(child)) }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.borrow().as_ref().expect("not ended").id()
    }

    /// Kills it with SIGKILL.
    pub fn kill(self) {
        let mut child = self.child.take().expect("not ended");
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
    }

    /// Sends SIGTERM and expects a clean end.
    pub fn stop(self) -> Ended {
        self.wait_until_it_listens();
        self.signal(rustix::process::Signal::TERM);
        let ended = self.wait();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        ended
    }

    /// Waits until the process has come so far that it handles SIGTERM itself.
    fn wait_until_it_listens(&self) {
        eventually("the process handles SIGTERM", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
            (caught & 1 << (rustix::process::Signal::TERM.as_raw() - 1) != 0).then_some(())
        });
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_raw(self.id() as i32).expect("a process id");
        rustix::process::kill_process(id, signal).expect("the process is there");
    }

    /// Waits for its end.
    pub fn wait(self) -> Ended {
        eventually("the process ends", || {
            self.child.borrow_mut().as_mut().expect("not ended").try_wait().expect("it can be waited for")
        });
        let output = self.child.take().expect("not ended").wait_with_output().expect("its output");
        Ended { status: output.status, stderr: String::from_utf8(output.stderr).expect("UTF-8") }
    }

    /// Waits for its end, which must be a failure, and returns the message.
    pub fn fails(self) -> String {
        let ended = self.wait();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        ended.stderr
    }

    /// Panics with its message when it has ended.
    pub fn assert_running(&self) {
        let ended = self.child.borrow_mut().as_mut().expect("not ended").try_wait().expect("it can be waited for");
        if let Some(status) = ended {
            let output = self.child.take().expect("not ended").wait_with_output().expect("its output");
            panic!("a group ended with {status}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a file of a trail, or a whole one, holds, as `drover trail show` prints it; nothing for what is no such file.
pub fn trail_show(path: &Path) -> String {
    let shown = drover().args(["trail", "show", "--full"]).arg(path).output().expect("the binary runs");
    String::from_utf8_lossy(&shown.stdout).into_owned()
}

/// Every record of a file, as Logdump prints it with everything switched on.
pub fn logdump(path: &Path) -> String {
    let commands = "GHDR ON; DETAIL DATA; GGSTOKEN DETAIL; USERTOKEN DETAIL; FILEHEADER DETAIL; NEXT 1000000";
    let directory = path.parent().expect("a file in a directory");
    let told = crate::logdump::script(directory, &format!("OPEN {}\n{commands}\n", path.display()));
    assert!(told.status.success(), "{told:?}");
    String::from_utf8_lossy(&told.stdout).into_owned()
}
