//! Two databases that both write, with a home and processes at each side: conflicts, kills, a line that is cut.

use super::stage::{Cluster, Side, Stage};
use crate::stage::{Running, drover, eventually};
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// One of the two databases.
pub(super) enum Site<'a> {
    Postgres(&'a Side<'a>),
    Sqlite(PathBuf),
}

impl Site<'_> {
    fn url(&self) -> String {
        match self {
            Site::Postgres(side) => side.url(),
            Site::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    fn schema(&self) -> &'static str {
        if matches!(self, Site::Postgres(_)) { "public" } else { "main" }
    }

    fn run(&self, sql: &str) {
        match self {
            Site::Postgres(side) => _ = side.script(&for_postgres(sql)),
            Site::Sqlite(_) => {
                let version =
                    "max(version / 10 + 1, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)) * 10 + 2";
                let sql =
                    sql.replace("/*version*/", &format!(", version = {version}")).replace("BEGIN;", "BEGIN IMMEDIATE;");
                let sql = sql.replace("LARGE(", "substr(hex(zeroblob(3000)), 1, ");
                let sql = sql.replace("/*new*/ 0", &version.replace("version / 10 + 1", "0"));
                self.sqlite().execute_batch(&sql).expect("a transaction");
            }
        }
    }

    /// Runs a workload in a thread of its own.
    fn writer(&self, script: String) -> Box<dyn FnOnce() + Send + '_> {
        match self {
            Site::Postgres(side) => {
                let (cluster, database): (&Cluster, String) = (side.cluster, side.database.clone());
                Box::new(move || {
                    script.lines().for_each(|line| commit_like_an_application(cluster, &database, &for_postgres(line)));
                })
            }
            Site::Sqlite(path) => {
                let path = path.clone();
                Box::new(move || {
                    let site = Site::Sqlite(path);
                    script.lines().for_each(|line| site.run(line));
                })
            }
        }
    }

    fn sqlite(&self) -> Connection {
        let Site::Sqlite(path) = self else { panic!("not SQLite") };
        let connection = Connection::open(path).expect("the database");
        connection.busy_timeout(Duration::from_secs(30)).expect("patience");
        connection
    }

    fn number(&self, sql: &str) -> i64 {
        match self {
            Site::Postgres(side) => side.run(sql).parse().expect("a number"),
            Site::Sqlite(_) => self.sqlite().query_row(sql, [], |row| row.get(0)).expect("a number"),
        }
    }

    fn rows(&self) -> Vec<String> {
        let sql =
            "SELECT id || ' ' || coalesce(a, '-') || ' ' || coalesce(b, '-') || ' ' || version FROM item ORDER BY id";
        match self {
            Site::Postgres(side) => side.run(sql).lines().map(str::to_owned).collect(),
            Site::Sqlite(_) => {
                let connection = self.sqlite();
                let mut statement = connection.prepare(sql).expect("a query");
                let rows = statement.query_map([], |row| row.get(0)).expect("rows");
                rows.collect::<Result<_, _>>().expect("rows")
            }
        }
    }
}

/// One transaction, again when the server chose it to end a deadlock. A Replicat applies several transactions of the source
/// in one, so its locks have no order that an application could keep to.
fn commit_like_an_application(cluster: &Cluster, database: &str, transaction: &str) {
    while let Err(error) = cluster.try_psql(database, transaction) {
        assert!(error.contains("deadlock detected"), "psql failed: {error}\n{transaction}");
    }
}

fn for_postgres(sql: &str) -> String {
    sql.replace("LARGE(", "repeat('x', ")
}

/// Versions as the guide makes them, by a clock that is wrong by some seconds.
fn versions(site: u8, clock_wrong_by: i64) -> String {
    format!(
        "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE item ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL;
         CREATE FUNCTION set_version() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
           now bigint := ((extract(epoch FROM clock_timestamp()) + {clock_wrong_by}) * 1000000)::bigint;
           before bigint := CASE WHEN TG_OP = 'UPDATE' THEN OLD.version / 10 ELSE 0 END;
         BEGIN NEW.version := greatest(now, before + 1) * 10 + {site}; RETURN NEW; END $$;
         CREATE TRIGGER version BEFORE INSERT OR UPDATE ON item FOR EACH ROW EXECUTE FUNCTION set_version()"
    )
}

pub(super) const TABLE: &str = "CREATE TABLE item (id bigint PRIMARY KEY, a text, b text, version bigint NOT NULL)";

/// The rules of the guide: the larger version stays, and a delete wins over any update.
const MAXIMUM: &str = "COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
                       RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (version))), \
                       RESOLVECONFLICT (UPDATEROWEXISTS, (DEFAULT, USEMAX (version))), \
                       RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, IGNORE)), \
                       RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, OVERWRITE)), \
                       RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, IGNORE))";

/// The four processes, by part, group and home.
const PROCESSES: [(&str, &str, usize); 4] =
    [("extract", "e1", 0), ("extract", "e2", 1), ("replicat", "r1", 1), ("replicat", "r2", 0)];

pub(super) struct TwoWay<'a> {
    folder: TempDir,
    sites: [Site<'a>; 2],
    running: [Option<Running>; 4],
}

impl<'a> TwoWay<'a> {
    fn new(sites: [Site<'a>; 2]) -> TwoWay<'a> {
        TwoWay::with_rules(sites, MAXIMUM)
    }

    /// With these options of the MAP.
    pub(super) fn with_rules(sites: [Site<'a>; 2], options: &str) -> TwoWay<'a> {
        let mut two_way =
            TwoWay { folder: tempfile::tempdir().expect("a folder"), sites, running: [const { None }; 4] };
        for home in ["east", "west"] {
            let made = drover().arg("init").arg(two_way.folder.path().join(home)).output().expect("the binary runs");
            assert!(made.status.success(), "{made:?}");
        }
        for (site, group) in [(0, "e1"), (1, "e2")] {
            let at = &two_way.sites[site];
            let trail = ["ea", "we"][site];
            two_way.parameters(
                site,
                group,
                &format!(
                    "EXTRACT {group}\nSOURCEDB {}\nEXTTRAIL ./dirdat/{trail}\nTABLE {}.item;\n",
                    at.url(),
                    at.schema()
                ),
            );
            two_way.console(
                site,
                &format!(
                    "DBLOGIN SOURCEDB '{}'\nADD EXTRACT {group}, TRANLOG, BEGIN NOW\nADD EXTTRAIL ./dirdat/{trail}, EXTRACT {group}\n\
                     ADD CHECKPOINTTABLE {}.checkpoints\nADD ERRORQUEUE",
                    at.url(),
                    at.schema()
                ),
            );
        }
        for (site, group) in [(1, "r1"), (0, "r2")] {
            let (at, other) = (&two_way.sites[site], &two_way.sites[1 - site]);
            let trail = ["../west/dirdat/we", "../east/dirdat/ea"][site];
            let rules = format!(
                "REPERROR (DEFAULT, TRANSQUEUE HOLD)\nMAP {}.item, TARGET {}.item, {options};\n",
                other.schema(),
                at.schema()
            );
            two_way.parameters(site, group, &format!("REPLICAT {group}\nTARGETDB {}\n{rules}", at.url()));
            two_way.console(
                site,
                &format!(
                    "DBLOGIN SOURCEDB '{}'\nADD REPLICAT {group}, EXTTRAIL {trail}, CHECKPOINTTABLE {}.checkpoints",
                    at.url(),
                    at.schema()
                ),
            );
        }
        (0..4).for_each(|number| two_way.start(number));
        two_way
    }

    fn home(&self, site: usize) -> PathBuf {
        self.folder.path().join(["east", "west"][site])
    }

    fn parameters(&self, site: usize, group: &str, text: &str) {
        std::fs::write(self.home(site).join(format!("dirprm/{group}.prm")), text).expect("a parameter file");
    }

    pub(super) fn console(&self, site: usize, commands: &str) {
        let output =
            drover().arg("--home").arg(self.home(site)).args(["-c", commands]).output().expect("the binary runs");
        assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(super) fn start(&mut self, number: usize) {
        let (part, group, site) = PROCESSES[number];
        let mut command = drover();
        command.args([part, group, "--home"]).arg(self.home(site));
        self.running[number] = Some(Running::start(command));
    }

    pub(super) fn kill(&mut self, number: usize) {
        if let Some(running) = self.running[number].take() {
            running.kill();
        }
    }

    /// Cuts the line between the sites: neither hears of the other.
    pub(super) fn cut(&mut self) {
        self.kill(2);
        self.kill(3);
    }

    pub(super) fn join(&mut self) {
        self.start(2);
        self.start(3);
    }

    /// The site with number `first` hears of the other before the other hears of it.
    pub(super) fn join_one_after_the_other(&mut self, first: usize) {
        let [first_to_hear, second] = if first == 1 { [2, 3] } else { [3, 2] };
        let conflicts = |two_way: &TwoWay<'_>| two_way.conflicts_at(&two_way.sites[first]);
        let before = conflicts(self);
        self.start(first_to_hear);
        eventually("one site has heard of the other", || (conflicts(self) != before).then_some(()));
        self.start(second);
    }

    /// Waits until both sites hold the same rows and nothing is on its way.
    #[track_caller]
    pub(super) fn settle(&self) -> Vec<String> {
        let [east, west] = &self.sites;
        // A row of each site comes after all that it wrote before.
        let round = east.number("SELECT count(*) FROM item WHERE id >= 1000000") + 1;
        east.run(&format!("INSERT INTO item VALUES ({}, 'end', NULL, /*new*/ 0)", 1_000_000 + 2 * round));
        west.run(&format!("INSERT INTO item VALUES ({}, 'end', NULL, /*new*/ 0)", 1_000_001 + 2 * round));
        let ends =
            format!("SELECT count(*) FROM item WHERE id IN ({}, {})", 1_000_000 + 2 * round, 1_000_001 + 2 * round);
        eventually("what was written has come to the other site", || {
            self.running.iter().flatten().for_each(Running::assert_running);
            for site in &self.sites {
                let queue = if site.schema() == "public" { "drover.deferror" } else { "drover_deferror" };
                let parked = site.number(&format!("SELECT count(*) FROM {queue}"));
                assert_eq!(parked, 0, "{}{}", self.report(0), self.report(1));
            }
            self.sites.iter().all(|site| site.number(&ends) == 2).then_some(())
        });
        let (at_east, at_west) = (east.rows(), west.rows());
        let short = |row: &String| format!("{}…{}", &row[..row.len().min(30)], &row[row.len().saturating_sub(20)..]);
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|row| !other.contains(row)).map(short).collect()
        };
        assert!(
            at_east == at_west,
            "the sites differ\nonly east {:#?}\nonly west {:#?}",
            only(&at_east, &at_west),
            only(&at_west, &at_east)
        );
        at_east
    }

    /// The messages of the site's Replicat.
    fn report(&self, site: usize) -> String {
        let report = self.home(site).join(format!("dirrpt/{}.rpt", ["R2", "R1"][site]));
        std::fs::read_to_string(report).unwrap_or_default()
    }

    pub(super) fn conflicts(&self) -> i64 {
        self.sites.iter().map(|site| self.conflicts_at(site)).sum()
    }

    fn conflicts_at(&self, site: &Site<'_>) -> i64 {
        let log = if site.schema() == "public" { "drover.conflict" } else { "drover_conflict" };
        site.number(&format!("SELECT count(*) FROM {log}"))
    }

    pub(super) fn stop(self) {
        self.running.into_iter().flatten().for_each(|running| _ = running.stop());
    }
}

/// Transactions on few rows, so that both sites meet. Keys of new rows are those of the site, and are not used again.
pub(super) fn workload(random: &mut fastrand::Rng, transactions: usize, site: u32, newest: &mut u32) -> String {
    let mut script = String::new();
    for _ in 0..transactions {
        script.push_str("BEGIN;");
        let mut ids: Vec<u32> =
            (0..random.usize(1..4)).map(|_| random.u32(newest.saturating_sub(16)..=*newest)).collect();
        // Rows are locked in one order, so that deadlocks with what is applied are rare.
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let large = format!("LARGE({})", random.usize(1..4) * 1500);
            let value = random.u32(..);
            script.push_str(&match random.u32(0..10) {
                0..5 => format!("UPDATE item SET a = '{value}' || {large}/*version*/ WHERE id = {id};"),
                5..8 => format!("UPDATE item SET b = '{value}' || {large}/*version*/ WHERE id = {id};"),
                8 => format!("UPDATE item SET b = NULL, a = '{value}'/*version*/ WHERE id = {id};"),
                _ => format!("DELETE FROM item WHERE id = {id};"),
            });
        }
        if random.bool() {
            *newest += 2;
            let id = *newest / 2 * 2 + site;
            script.push_str(&format!("INSERT INTO item VALUES ({id}, 'new', LARGE(3000), /*new*/ 0);"));
        }
        script.push_str("COMMIT;\n");
    }
    script
}

/// Both write at once while processes are killed and the line is cut; both end equal.
pub(super) fn endures(mut two_way: TwoWay<'_>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut newest = 0;
    for round in 0..6 {
        let mut at_west = newest;
        let scripts = [workload(&mut random, 12, 1, &mut newest), workload(&mut random, 12, 2, &mut at_west)];
        newest = newest.max(at_west);
        let partition = round % 3 == 2;
        if partition {
            // Nothing is carried while both go on writing.
            two_way.cut();
        }
        let victim = round % 4;
        let writers = two_way.sites.iter().zip(&scripts).map(|(site, script)| site.writer(script.clone()));
        let writers: Vec<_> = writers.collect();
        std::thread::scope(|scope| {
            for write in writers {
                scope.spawn(write);
            }
        });
        if partition {
            two_way.join();
        }
        two_way.kill(victim);
        two_way.start(victim);
        two_way.settle();
    }
    assert!(two_way.conflicts() > 0, "there were conflicts");
    two_way.stop();
}

#[test]
fn two_postgresql_databases_that_both_write_end_equal_whatever_is_killed() {
    let stage = Stage::bare(TABLE);
    // The clock of one is an hour ahead.
    stage.source.run(&versions(1, 3600));
    stage.target.run(&versions(2, 0));
    let urls = [stage.source.url(), stage.target.url()];
    endures(TwoWay::new([Site::Postgres(&stage.source), Site::Postgres(&stage.target)]), 11);
    let compared = drover().args(["compare", &urls[0], &urls[1], "--tables", "public.item"]).output().expect("it runs");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}

#[test]
fn postgresql_and_sqlite_that_both_write_end_equal_whatever_is_killed() {
    let stage = Stage::bare(TABLE);
    stage.source.run(&versions(1, -3600));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("west.db");
    let sqlite = Connection::open(&path).expect("a database");
    sqlite
        .execute_batch("CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, b TEXT, version INTEGER NOT NULL) STRICT")
        .expect("a table");
    drop(sqlite);
    endures(TwoWay::new([Site::Postgres(&stage.source), Site::Sqlite(path)]), 12);
}

#[test]
fn large_values_that_two_sites_change_at_once_end_as_one_site_has_them() {
    let stage = Stage::bare(TABLE);
    stage.source.run(&versions(1, 0));
    stage.target.run(&versions(2, 0));
    let mut two_way = TwoWay::new([Site::Postgres(&stage.source), Site::Postgres(&stage.target)]);
    stage.source.run("INSERT INTO item VALUES (1, repeat('a', 20000), repeat('b', 20000), 0)");
    two_way.settle();
    two_way.cut();
    stage.source.run("UPDATE item SET a = repeat('c', 20000) WHERE id = 1");
    stage.target.run("UPDATE item SET b = repeat('d', 20000) WHERE id = 1");
    two_way.join();
    two_way.settle();
    // The later one wins whole, with the large value that it did not change.
    let told = stage.source.run("SELECT left(a, 1), length(a), left(b, 1), length(b) FROM item WHERE id = 1");
    assert_eq!(told, "a|20000|d|20000");
    two_way.stop();
}

#[test]
fn a_delete_wins_over_an_update_of_the_same_row_at_both_sites_whichever_was_first() {
    let stage = Stage::bare(TABLE);
    stage.source.run(&versions(1, 0));
    stage.target.run(&versions(2, 0));
    let mut two_way = TwoWay::new([Site::Postgres(&stage.source), Site::Postgres(&stage.target)]);
    let (update, delete) = ("UPDATE item SET b = 'new' WHERE id = 1", "DELETE FROM item WHERE id = 1");
    for (number, (at_east, at_west)) in
        (1..).zip([(update, delete), (delete, update), (update, delete), (delete, update)])
    {
        let of = |statement: &str| statement.replace("= 1", &format!("= {number}"));
        stage.source.run(&format!("INSERT INTO item VALUES ({number}, repeat('a', 20000), 'b', 0)"));
        two_way.settle();
        two_way.cut();
        stage.source.run(&of(at_east));
        stage.target.run(&of(at_west));
        two_way.join_one_after_the_other(if number <= 2 { 1 } else { 0 });
        let rows = two_way.settle();
        assert!(!rows.iter().any(|row| row.starts_with(&format!("{number} "))), "the row is deleted");
    }
    two_way.stop();
}
