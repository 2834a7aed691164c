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

/// A workload.
pub struct Workload {
    /// Short name, for databases and for the choice of parts.
    pub name: &'static str,
    /// For the page.
    pub title: &'static str,
    /// Least share of native's rate that is asked for.
    pub bar: f64,
    kind: Kind,
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
}

/// All of them; `quick` ones are a small part.
pub fn all(quick: bool) -> [Workload; 4] {
    let cut = |number: u64| if quick { number / 20 } else { number };
    let make = |name, title, bar, kind| Workload { name, title, bar, kind };
    [
        make("a", "small transactions", 0.8, Kind::Small { scale: cut(40).max(2), transactions: cut(200_000) }),
        make("b", "one large insert", 0.8, Kind::Large { rows: cut(2_000_000) }),
        make("c", "random updates", 0.8, Kind::Random { rows: cut(1_000_000), updates: cut(200_000) }),
        make("d", "wide rows", 0.6, Kind::Wide { rows: cut(40_000) }),
    ]
}

/// The tables of the steady load at which latency is measured.
pub fn steady() -> Workload {
    Workload { name: "steady", title: "steady load", bar: 0.0, kind: Kind::Small { scale: 10, transactions: 0 } }
}

impl Workload {
    /// Tables whose pages are read before each run.
    fn tables(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Small { .. } => &["pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history"],
            Kind::Large { .. } => &["large"],
            Kind::Random { .. } => &["ten"],
            Kind::Wide { .. } => &["wide"],
        }
    }

    /// Makes `database` with the rows that are there before the backlog.
    pub fn create(&self, cluster: &Cluster<'_>, database: &str) -> Outcome {
        cluster.run("postgres", &format!("CREATE DATABASE {database}"))?;
        cluster.run(database, COMMON)?;
        let sql = match self.kind {
            Kind::Small { scale, .. } => {
                let mut pgbench = cluster.client("pgbench", database);
                // It tells its progress as errors.
                pgbench.args(["-i", "-q", "-s", &scale.to_string()]).stderr(std::process::Stdio::null());
                let status = pgbench.status().map_err(|cause| format!("could not start pgbench: {cause}"))?;
                if !status.success() {
                    return Err(format!("`{}` ended with {status}", program::shown(&pgbench)));
                }
                "ALTER TABLE pgbench_history ADD COLUMN number bigserial PRIMARY KEY".to_owned()
            }
            Kind::Large { .. } => {
                "CREATE TABLE large (id bigint PRIMARY KEY, k int, a text, at timestamptz, amount numeric(12,2))".to_owned()
            }
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
                cluster.run(
                    database,
                    &format!(
                        "INSERT INTO large SELECT g, g % 1000, md5(g::text), now(), (g % 100000) + 0.11
                             FROM generate_series(1, {rows}) AS g"
                    ),
                )?;
                rows
            }
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
        mark(cluster, database)?;
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
        cluster.run(database, &tables.map(sum).collect::<Vec<_>>().join(" UNION ALL "))
    }
}

/// Writes the row by whose arrival the end is known.
pub fn mark(cluster: &Cluster<'_>, database: &str) -> Outcome {
    cluster.run(database, "INSERT INTO bench_marker VALUES (1)").map(drop)
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
