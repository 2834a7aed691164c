//! Two servers, a database on each, a home between them.

pub use crate::server::{Cluster, ClusterOptions};
use crate::stage::{Running, drover, eventually};
use db_postgres::wire::{Config, Connection};
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Output;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use tempfile::TempDir;

/// Console commands that add Extract E1 and Replicat R1 with trail `./dirdat/aa`; `SOURCE` and `TARGET` stand for URLs.
const SET_UP: &str = "\
    DBLOGIN SOURCEDB 'SOURCE'
    ADD EXTRACT e1, TRANLOG, BEGIN NOW
    ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
    DBLOGIN SOURCEDB 'TARGET'
    ADD CHECKPOINTTABLE public.checkpoints
    ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE public.checkpoints";

/// Settings under which values read the same wherever they are asked for.
const PLAIN: &str = "-c extra_float_digits=3 -c datestyle=ISO,YMD -c intervalstyle=postgres -c bytea_output=hex \
                     -c timezone=UTC -c search_path=public -c statement_timeout=0 -c lock_timeout=0 -c lc_monetary=C \
                     -c standard_conforming_strings=on -c backslash_quote=safe_encoding -c xmloption=content \
                     -c array_nulls=on -c transform_null_equals=off -c default_transaction_read_only=off \
                     -c default_transaction_isolation=read\\ committed -c idle_session_timeout=0 \
                     -c idle_in_transaction_session_timeout=0";

/// Everybody is trusted but for one role, which needs its password.
const AUTHENTICATION: &str = "\
    local all secretive scram-sha-256\nhost all secretive 127.0.0.1/32 scram-sha-256\n\
    local all all trust\nhost all all 127.0.0.1/32 trust\nlocal replication all trust\n";

/// Two servers.
#[derive(Debug)]
pub struct Pair {
    pub source: Cluster,
    pub target: Cluster,
}

impl Pair {
    /// Starts both servers with the same settings.
    pub fn start(settings: &[(&str, &str)]) -> Pair {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options =
            ClusterOptions { settings, authentication: Some(AUTHENTICATION.to_owned()), ..ClusterOptions::default() };
        Pair { source: Cluster::start(&options), target: Cluster::start(&options) }
    }
}

/// Servers that tests share which neither stop them nor change them. Only the machine's own end could lose what they have
/// not synced.
pub fn shared() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| {
        Pair::start(&[
            ("fsync", "off"),
            ("max_replication_slots", "60"),
            ("max_wal_senders", "60"),
            ("max_prepared_transactions", "5"),
        ])
    })
}

/// A database on each server, and a home with parameter files for Extract E1 and Replicat R1.
pub struct Stage<'a> {
    folder: TempDir,
    pub source: Side<'a>,
    pub target: Side<'a>,
}

/// One of the databases.
pub struct Side<'a> {
    pub cluster: &'a Cluster,
    pub database: String,
    /// For questions that are asked again and again while a test waits.
    waiting: RefCell<Option<Connection>>,
}

impl Stage<'static> {
    /// On the shared servers, with both groups added. `schema` is run on both sides.
    pub fn new(schema: &str) -> Stage<'static> {
        let stage = Stage::bare(schema);
        stage.add_groups();
        stage
    }

    /// The same without groups.
    pub fn bare(schema: &str) -> Stage<'static> {
        Stage::on(&shared().source, &shared().target, schema)
    }
}

impl<'a> Stage<'a> {
    /// On these servers, without groups. `schema` is run on both sides.
    pub fn on(source: &'a Cluster, target: &'a Cluster, schema: &str) -> Stage<'a> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let database = format!("stage_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let side = |cluster| Side { cluster, database: database.clone(), waiting: RefCell::new(None) };
        let stage = Stage {
            folder: tempfile::tempdir().expect("a temporary folder"),
            source: side(source),
            target: side(target),
        };
        for side in [&stage.source, &stage.target] {
            side.cluster.psql("postgres", &format!("CREATE DATABASE {database}"));
            side.run(&format!("CREATE TABLE public.signal (number int PRIMARY KEY); {schema}"));
        }
        let made = drover().arg("init").arg(stage.home()).output().expect("the binary runs");
        assert!(made.status.success(), "{made:?}");
        stage.extract_parameters("TABLE *.*;");
        stage.replicat_parameters("MAP *.*, TARGET *.*;");
        stage
    }

    /// Adds both groups.
    pub fn add_groups(&self) {
        self.console(&self.set_up());
    }

    /// The console commands that add both groups.
    pub fn set_up(&self) -> String {
        SET_UP
            .replace("SOURCE'", &format!("{}'", self.source.url()))
            .replace("TARGET'", &format!("{}'", self.target.url()))
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder that holds the home.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Writes the Extract's parameter file with these statements after the usual ones.
    pub fn extract_parameters(&self, statements: &str) {
        let url = self.source.url();
        self.parameters("e1", &format!("EXTRACT e1\nSOURCEDB {url}\nEXTTRAIL ./dirdat/aa\n{statements}\n"));
    }

    /// Writes the Replicat's parameter file with these statements after the usual ones.
    pub fn replicat_parameters(&self, statements: &str) {
        let url = self.target.url();
        self.parameters("r1", &format!("REPLICAT r1\nTARGETDB {url}\n{statements}\n"));
    }

    /// Writes a parameter file.
    pub fn parameters(&self, group: &str, text: &str) {
        std::fs::write(self.home().join(format!("dirprm/{group}.prm")), text).expect("a parameter file");
    }

    /// Runs console commands that must succeed, and returns what they print.
    #[track_caller]
    pub fn console(&self, commands: &str) -> String {
        let output = self.try_console(commands);
        assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs console commands that must fail with status 1, and returns what they print to standard error.
    #[track_caller]
    pub fn console_refuses(&self, commands: &str) -> String {
        let output = self.try_console(commands);
        assert_eq!(output.status.code(), Some(1), "{commands}: {output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    }

    /// Runs console commands that may fail, and returns what they print.
    pub fn try_ask(&self, commands: &str) -> String {
        String::from_utf8_lossy(&self.try_console(commands).stdout).into_owned()
    }

    fn try_console(&self, commands: &str) -> Output {
        drover().arg("--home").arg(self.home()).args(["-c", commands]).output().expect("the binary runs")
    }

    /// Starts Extract E1.
    pub fn extract(&self) -> Running {
        self.start("extract", "e1")
    }

    /// Starts Replicat R1.
    pub fn replicat(&self) -> Running {
        self.start("replicat", "r1")
    }

    fn start(&self, part: &str, group: &str) -> Running {
        let mut command = drover();
        command.args([part, group, "--home"]).arg(self.home());
        Running::start(command)
    }

    /// Runs both groups until everything that was committed at the source so far is at the target, then stops them.
    #[track_caller]
    pub fn replicate(&self) {
        let (extract, replicat) = (self.extract(), self.replicat());
        self.wait_for_signal(&[&extract, &replicat]);
        extract.stop();
        replicat.stop();
    }

    /// Waits until everything that was committed at the source so far is at the target.
    #[track_caller]
    pub fn wait_for_signal(&self, running: &[&Running]) {
        let number = self.send_signal();
        self.await_signal(number, running);
    }

    /// Commits a row that [`await_signal`](Stage::await_signal) waits for.
    pub fn send_signal(&self) -> i32 {
        static NUMBER: AtomicI32 = AtomicI32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.source.run(&format!("INSERT INTO public.signal VALUES ({number})"));
        number
    }

    /// Waits until the target has the row.
    #[track_caller]
    pub fn await_signal(&self, number: i32, running: &[&Running]) {
        eventually("the target has what the source has committed", || {
            running.iter().for_each(|group| group.assert_running());
            self.target.holds(&format!("SELECT FROM public.signal WHERE number = {number}")).then_some(())
        });
    }

    /// Asserts that table `history` holds at the target what it holds at the source, that the entries of each row arrived in
    /// the order of their numbers, and that there are enough of them to tell.
    #[track_caller]
    pub fn assert_history_in_order(&self) {
        let told = "SELECT id, number FROM history ORDER BY id, number";
        assert_eq!(self.source.run(told), self.target.run(told));
        let swapped = "SELECT count(*) FROM (SELECT number, lag(number) OVER (PARTITION BY id ORDER BY arrival) AS before \
                       FROM history) AS h WHERE before >= number";
        assert_eq!(self.target.run(swapped), "0");
        let written: u32 = self.source.run("SELECT count(*) FROM history").parse().expect("a number");
        assert!(written > 50, "there was work: {written}");
    }

    /// Asserts that both sides hold the same rows in every table, by the servers' own text of them. Returns the number of
    /// rows.
    #[track_caller]
    pub fn assert_equal(&self) -> u64 {
        self.assert_equal_but(&[])
    }

    /// The same without some tables.
    #[track_caller]
    pub fn assert_equal_but(&self, others: &[&str]) -> u64 {
        let tables = |side: &Side<'_>| {
            side.tables().into_iter().filter(|table| !others.contains(&table.as_str())).collect::<Vec<_>>()
        };
        let (tables, at_target) = (tables(&self.source), tables(&self.target));
        assert_eq!(tables, at_target, "tables");
        let (source, target) = (self.source.sums(&tables), self.target.sums(&tables));
        for (table, (source, target)) in tables.iter().zip(source.iter().zip(&target)) {
            if source != target {
                let (source, target) = (self.source.rows(table), self.target.rows(table));
                let only = |one: &[String], other: &[String]| {
                    one.iter().filter(|row| !other.contains(row)).take(5).cloned().collect::<Vec<_>>()
                };
                panic!(
                    "{table} differs: {} rows at the source, {} at the target\nonly at the source: {:#?}\nonly at the target: {:#?}",
                    source.len(),
                    target.len(),
                    only(&source, &target),
                    only(&target, &source)
                );
            }
        }
        let count = |sum: &String| sum.split('|').next().and_then(|count| count.parse::<u64>().ok()).expect("a count");
        source.iter().map(count).sum()
    }

    /// Whether the trail `./dirdat/aa` holds the signal's row.
    pub fn trail_holds(&self, number: i32) -> bool {
        let files = std::fs::read_dir(self.home().join("dirdat")).expect("a folder");
        files.filter_map(Result::ok).any(|file| {
            let text = crate::stage::trail_show(&file.path());
            let (name, value) = (" public.signal ", format!("{number}"));
            text.contains(name) && text.contains(&value)
        })
    }

    /// The text of a file of the home.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.home().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Leaves no slot behind on a shared server, where their number is limited.
impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if !std::ptr::eq(self.source.cluster, &raw const shared().source) {
            return;
        }
        let sql = format!(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '{0}' AND active; \
             SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{0}' AND NOT active",
            self.source.database
        );
        let remove = || self.source.psql("postgres", &sql).output().expect("psql starts");
        remove();
        // A walsender takes a moment to end.
        let left = format!("SELECT slot_name FROM pg_replication_slots WHERE database = '{}'", self.source.database);
        if !self.source.cluster.psql("postgres", &left).is_empty() {
            remove();
        }
    }
}

impl<'a> Side<'a> {
    /// URL for the superuser.
    pub fn url(&self) -> String {
        self.cluster.url(&self.database)
    }

    /// URL for `user`.
    pub fn url_of(&self, user: &str) -> String {
        self.cluster.url_of(user, &self.database)
    }

    fn psql(&self, database: &str, sql: &str) -> std::process::Command {
        let mut command = self.cluster.command("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        command.arg(self.cluster.directory()).args(["-p", &self.cluster.port().to_string(), "-d", database, "-c", sql]);
        command.env("PGOPTIONS", PLAIN).env("PGCLIENTENCODING", "UTF8");
        command
    }

    /// Runs SQL by psql, all of it in one transaction, and returns what it prints.
    #[track_caller]
    pub fn run(&self, sql: &str) -> String {
        let output = self.psql(&self.database, sql).output().expect("psql starts");
        assert!(output.status.success(), "psql failed: {}\n{sql}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end_matches('\n').to_owned()
    }

    /// Runs a script by psql: each statement by itself, with psql's own commands.
    #[track_caller]
    pub fn script(&self, text: &str) -> String {
        let mut command = self.psql(&self.database, "");
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        // What stands after -c is an empty command; the script comes by standard input.
        command.args(["-f", "-"]);
        let mut child = command.spawn().expect("psql starts");
        // A psql that ends early says why.
        let _ = std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), text.as_bytes());
        let output = child.wait_with_output().expect("psql ends");
        assert!(output.status.success(), "psql failed: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end_matches('\n').to_owned()
    }

    /// Whether a query finds a row; false also while the server does not answer.
    pub fn holds(&self, query: &str) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let mut ask = || {
            if waiting.is_none() {
                let mut connection = Connection::connect(&Config::parse(&self.url()).expect("a URL")).ok()?;
                // Our own sessions look names up in the server's schema only.
                connection.run("SET search_path = public, pg_catalog").ok()?;
                *waiting = Some(connection);
            }
            waiting.as_mut()?.simple_query(query).ok()
        };
        match ask() {
            Some(results) => results.last().is_some_and(|result| !result.rows.is_empty()),
            None => {
                *waiting = None;
                false
            }
        }
    }

    /// Names of all tables of users, quoted.
    fn tables(&self) -> Vec<String> {
        let list = self.run(
            "SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
             AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'Drover %' \
             ORDER BY n.nspname COLLATE \"C\", c.relname COLLATE \"C\"",
        );
        list.lines().map(str::to_owned).collect()
    }

    /// Number and checksum of the rows of each table.
    fn sums(&self, tables: &[String]) -> Vec<String> {
        let sum = |(place, table)| {
            format!(
                "SELECT {place} AS place, count(*), md5(string_agg((x.*)::text, E'\\n' ORDER BY (x.*)::text COLLATE \"C\")) FROM {table} AS x"
            )
        };
        let sums: Vec<String> = tables.iter().enumerate().map(sum).collect();
        let sums = self.run(&format!("SELECT count, md5 FROM ({}) AS s ORDER BY place", sums.join(" UNION ALL ")));
        sums.lines().map(str::to_owned).collect()
    }

    /// The rows of a table, as the server writes them, sorted.
    pub fn rows(&self, table: &str) -> Vec<String> {
        let rows = self.run(&format!("SELECT (x.*)::text FROM {table} AS x ORDER BY (x.*)::text COLLATE \"C\""));
        rows.lines().map(str::to_owned).collect()
    }
}
