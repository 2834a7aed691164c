//! The backlogs: tables, first rows, the work that is to be replicated.

use super::cluster::Cluster;
use crate::program::{self, Outcome};
use std::fs;
use std::path::Path;

/// Sessions that write a backlog at once.
const CLIENTS: u64 = 16;

/// What both databases of every workload have.
const COMMON: &str = "CREATE EXTENSION pg_prewarm;
    CREATE TABLE bench_marker (id int PRIMARY KEY);
    CREATE TABLE bench_heartbeat (id bigint PRIMARY KEY, at timestamptz);";

/// The table of large transactions.
const LARGE: &str = "CREATE TABLE large (id bigint PRIMARY KEY, k int, a text, at timestamptz, amount numeric(12,2));";

/// A workload.
pub struct Workload {
    /// Short name, for databases and for the choice of parts.
    pub name: &'static str,
    /// For the page.
    pub title: &'static str,
    /// What is asked for.
    pub bars: Bars,
    kind: Kind,
}

/// What is asked for of a workload.
#[derive(Clone, Copy)]
pub struct Bars {
    /// Least share of native's rate of capture, trail and apply at once; 0 where none is asked for.
    pub catch_up: f64,
    /// Rows a second of a Replicat by itself, at least.
    pub alone: Option<f64>,
    /// CPU microseconds a row of an Extract, at most.
    pub cpu: Option<f64>,
}

enum Kind {
    /// pgbench's own, at a scale.
    Small { scale: u64, transactions: u64 },
    /// One transaction of so many rows.
    Large { rows: u64 },
    /// Updates of one row each, of a table with so many.
    Random { rows: u64, updates: u64 },
    /// Inserts of 8 kB, and half as many updates that leave the long value alone.
    Wide { rows: u64 },
    /// Transactions that all update one row.
    Hot { updates: u64 },
    /// One transaction of so many subtransactions of one row, half of them rolled back.
    Savepoints { subtransactions: u64 },
    /// The tables of small transactions beside that of a large one; nothing is written beforehand.
    Open { scale: u64 },
}

/// All of them; `quick` ones are a small part.
pub fn all(quick: bool) -> [Workload; 4] {
    let cut = |number: u64| if quick { number / 20 } else { number };
    let make = |name, title, bars, kind| Workload { name, title, bars, kind };
    let asked = |catch_up, alone, cpu| Bars { catch_up, alone, cpu };
    let small = Kind::Small { scale: cut(40).max(2), transactions: cut(200_000) };
    let random = Kind::Random { rows: cut(1_000_000), updates: cut(200_000) };
    [
        // A small transaction has four rows.
        make("a", "small transactions", asked(1.5, Some(160_000.0), Some(1.5)), small),
        make("b", "one large insert", asked(1.2, Some(400_000.0), Some(1.0)), Kind::Large { rows: cut(2_000_000) }),
        make("c", "random updates", asked(1.5, Some(60_000.0), Some(3.0)), random),
        make("d", "wide rows", asked(0.8, None, None), Kind::Wide { rows: cut(40_000) }),
    ]
}

impl Workload {
    fn by_itself(name: &'static str, title: &'static str, kind: Kind) -> Workload {
        Workload { name, title, bars: Bars { catch_up: 0.0, alone: None, cpu: None }, kind }
    }

    /// Small transactions, as many as a subscription with durable commits applies in about half a minute.
    pub fn durable(quick: bool) -> Workload {
        let (scale, transactions) = if quick { (2, 2_000) } else { (40, 200_000) };
        Workload::by_itself("durable", "small transactions, durable", Kind::Small { scale, transactions })
    }

    /// The table of a large transaction, which is written by whoever measures it.
    pub fn large() -> Workload {
        Workload::by_itself("large", "a large transaction", Kind::Large { rows: 0 })
    }

    /// Updates of one row.
    pub fn hot(quick: bool) -> Workload {
        let updates = if quick { 5_000 } else { 400_000 };
        Workload::by_itself("hot", "a hot row", Kind::Hot { updates })
    }

    /// One transaction with savepoints.
    pub fn savepoints(quick: bool) -> Workload {
        let subtransactions = if quick { 2_000 } else { 50_000 };
        Workload::by_itself("savepoints", "savepoints, half rolled back", Kind::Savepoints { subtransactions })
    }

    /// The tables of small transactions and of a large one.
    pub fn open(quick: bool) -> Workload {
        Workload::by_itself("open", "an open transaction", Kind::Open { scale: if quick { 2 } else { 10 } })
    }
}

/// The tables of the steady load at which latency is measured.
pub fn steady() -> Workload {
    Workload::by_itself("steady", "steady load", Kind::Small { scale: 10, transactions: 0 })
}

impl Workload {
    /// Tables whose pages are read before each run.
    fn tables(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Small { .. } => &["pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history"],
            Kind::Large { .. } | Kind::Savepoints { .. } => &["large"],
            Kind::Random { .. } | Kind::Hot { .. } => &["ten"],
            Kind::Open { .. } => {
                &["large", "pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history"]
            }
            Kind::Wide { .. } => &["wide"],
        }
    }

    /// Makes `database` with the rows that are there before the backlog.
    pub fn create(&self, cluster: &Cluster<'_>, database: &str) -> Outcome {
        cluster.run("postgres", &format!("CREATE DATABASE {database}"))?;
        cluster.run(database, COMMON)?;
        let sql = match self.kind {
            Kind::Small { scale, .. } | Kind::Open { scale } => {
                let mut pgbench = cluster.client("pgbench", database);
                // It tells its progress as errors.
                pgbench.args(["-i", "-q", "-s", &scale.to_string()]).stderr(std::process::Stdio::null());
                let status = pgbench.status().map_err(|cause| format!("could not start pgbench: {cause}"))?;
                if !status.success() {
                    return Err(format!("`{}` ended with {status}", program::shown(&pgbench)));
                }
                let large = if matches!(self.kind, Kind::Open { .. }) { LARGE } else { "" };
                format!("ALTER TABLE pgbench_history ADD COLUMN number bigserial PRIMARY KEY; {large}")
            }
            Kind::Large { .. } | Kind::Savepoints { .. } => LARGE.to_owned(),
            Kind::Hot { .. } => "CREATE TABLE ten (id bigint PRIMARY KEY, c1 int, c2 bigint, c4 timestamptz, c5 text);
                 INSERT INTO ten SELECT g, 0, 0, timestamptz '2026-01-01', md5(g::text) FROM generate_series(1, 1000) AS g"
                .to_owned(),
            Kind::Random { rows, .. } => format!(
                "CREATE TABLE ten (id bigint PRIMARY KEY, c1 int, c2 bigint, c3 numeric(12,2), c4 timestamptz, c5 text, c6 text,
                     c7 boolean, c8 date, c9 float8);
                 INSERT INTO ten SELECT g, g % 1000, g * 7, g % 9999 + 0.25, timestamptz '2026-01-01' + g * interval '1 s',
                     md5(g::text), md5((g + 1)::text), g % 2 = 0, date '2026-01-01' + (g % 365)::int, g * 0.5
                     FROM generate_series(1, {rows}) AS g"
            ),
            Kind::Wide { .. } => "CREATE TABLE wide (id bigserial PRIMARY KEY, v text, body text);
                 ALTER TABLE wide ALTER body SET STORAGE EXTERNAL"
                .to_owned(),
        };
        cluster.run(database, &sql)?;
        cluster.run(database, "VACUUM ANALYZE")?;
        Ok(())
    }

    /// Writes the backlog, the marker last, and returns its number of rows. Scripts go to `folder`.
    pub fn write(&self, cluster: &Cluster<'_>, database: &str, folder: &Path) -> Result<u64, String> {
        let rows = match self.kind {
            Kind::Small { transactions, .. } => 4 * pgbench(cluster, database, None, transactions)?,
            Kind::Large { rows } => {
                cluster.run(database, &fill_large(rows))?;
                rows
            }
            Kind::Hot { updates } => {
                let sql = format!(
                    "SET synchronous_commit = off;
                     DO $$ BEGIN
                         FOR number IN 1..{updates} LOOP
                             UPDATE ten SET c1 = number, c4 = clock_timestamp() WHERE id = 500;
                             COMMIT;
                         END LOOP;
                     END $$"
                );
                let mut psql = cluster.client("psql", database);
                // As a statement each: a transaction can't end inside of several that are sent as one.
                let (setting, work) = sql.split_once(";\n").unwrap_or_default();
                psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", setting, "-c", work]);
                program::output(&mut psql)?;
                updates
            }
            Kind::Savepoints { subtransactions } => {
                let sql = format!(
                    "DO $$ BEGIN
                         FOR number IN 1..{subtransactions} LOOP
                             BEGIN
                                 INSERT INTO large VALUES (number, number % 1000, md5(number::text), now(), 0.5);
                                 IF number % 2 = 0 THEN RAISE 'back'; END IF;
                             EXCEPTION WHEN raise_exception THEN
                             END;
                         END LOOP;
                     END $$"
                );
                cluster.run(database, &sql)?;
                subtransactions
            }
            Kind::Open { .. } => 0,
            Kind::Random { rows, updates } => {
                let script = format!(
                    "\\set id random(1, {rows})\n\\set v random(1, 1000000)\n\
                     UPDATE ten SET c1 = :v, c3 = :v % 9999 + 0.5, c4 = clock_timestamp(), c5 = md5(:v::text), c7 = NOT c7 \
                     WHERE id = :id;\n"
                );
                pgbench(cluster, database, Some(&script_file(folder, &script)?), updates)?
            }
            Kind::Wide { rows } => {
                let insert = "INSERT INTO wide (v, body) SELECT md5(random()::text), string_agg(md5(random()::text), '') \
                              FROM generate_series(1, 256);\n";
                let update =
                    format!("\\set id random(1, {rows})\nUPDATE wide SET v = md5(random()::text) WHERE id = :id;\n");
                pgbench(cluster, database, Some(&script_file(folder, insert)?), rows)?
                    + pgbench(cluster, database, Some(&script_file(folder, &update)?), rows / 2)?
            }
        };
        mark(cluster, database, 1)?;
        Ok(rows)
    }

    /// Reads the tables and their indexes into the server's memory.
    pub fn warm(&self, cluster: &Cluster<'_>, database: &str) -> Outcome {
        for table in self.tables() {
            let sql = format!(
                "SELECT sum(pg_prewarm(oid)) FROM (SELECT '{table}'::regclass AS oid UNION ALL
                     SELECT indexrelid FROM pg_index WHERE indrelid = '{table}'::regclass) AS parts"
            );
            cluster.run(database, &sql)?;
        }
        cluster.run("postgres", "CHECKPOINT").map(drop)
    }

    /// Number and hash of all rows, in all columns, of all tables.
    pub fn checksum(&self, cluster: &Cluster<'_>, database: &str) -> Result<String, String> {
        let sum =
            |table: &&str| format!("SELECT '{table}', count(*), sum(hashtextextended(t::text, 0)) FROM {table} AS t");
        let tables = self.tables().iter().chain(&["bench_heartbeat"]);
        let sums = tables.map(sum).collect::<Vec<_>>().join(" UNION ALL ");
        cluster.run(database, &format!("{sums} ORDER BY 1"))
    }
}

/// The statement that fills the table of a large transaction.
pub fn fill_large(rows: u64) -> String {
    format!(
        "INSERT INTO large SELECT g, g % 1000, md5(g::text), now(), (g % 100000) + 0.11 FROM generate_series(1, {rows}) AS g"
    )
}

/// Writes the row by whose arrival the end is known.
pub fn mark(cluster: &Cluster<'_>, database: &str, number: u64) -> Outcome {
    cluster.run(database, &format!("INSERT INTO bench_marker VALUES ({number})")).map(drop)
}

/// Runs about `transactions` of pgbench's own transactions.
pub fn run_small(cluster: &Cluster<'_>, database: &str, transactions: u64) -> Outcome {
    pgbench(cluster, database, None, transactions).map(drop)
}

fn script_file(folder: &Path, text: &str) -> Result<String, String> {
    let path = folder.join("script.sql");
    fs::write(&path, text).map_err(|cause| format!("could not write {}: {cause}", path.display()))?;
    Ok(path.display().to_string())
}

/// Runs about `transactions` transactions and returns how many they were.
fn pgbench(cluster: &Cluster<'_>, database: &str, script: Option<&str>, transactions: u64) -> Result<u64, String> {
    let each = transactions / CLIENTS;
    let mut pgbench = cluster.client("pgbench", database);
    pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &CLIENTS.to_string(), "-t", &each.to_string()]);
    if let Some(script) = script {
        pgbench.args(["-f", script]);
    }
    program::output(&mut pgbench)?;
    Ok(each * CLIENTS)
}
