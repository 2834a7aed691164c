//! Thousands of tables and types: what a start costs must not grow with each of them.

use super::stage::{Cluster, ClusterOptions, Side, Stage, shared};
use crate::stage::{Running, eventually};
use std::time::Instant;

/// A number from the environment, for a run that is larger than the suite has time for.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Tables `t1` and so on, every one with a column of a type of its own as far as there are types.
fn create(side: &Side<'_>, tables: usize, types: usize) {
    let mut script = String::new();
    for first in (1..=tables.max(types)).step_by(100) {
        let last = first + 99;
        script.push_str(&format!(
            "DO $$ BEGIN FOR n IN {first}..{last} LOOP \
               IF n <= {types} THEN EXECUTE format('CREATE TYPE e%s AS ENUM (''a'', ''b'')', n); END IF; \
               IF n <= {tables} THEN EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, a text, e %s)', n, \
                 CASE WHEN n <= {types} THEN 'e' || n ELSE 'text' END); END IF; \
             END LOOP; END $$;\n"
        ));
    }
    side.script(&script);
}

/// Statements that ended in the database so far, those of connections that have ended.
fn statements(side: &Side<'_>) -> u64 {
    let sql = format!("SELECT xact_commit FROM pg_stat_database WHERE datname = '{}'", side.database);
    side.cluster.psql("postgres", &sql).trim().parse().expect("a number")
}

/// Seconds of processor time that a process has used so far.
fn processor_time(process: &str) -> f64 {
    // One that has ended uses no more.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return 0.0 };
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number")).sum();
    ticks / 100.0
}

/// Waits until no connection is left that would be counted later.
fn counted(side: &Side<'_>) -> u64 {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'", side.database);
    eventually("all connections have ended", || (side.cluster.psql("postgres", &sql).trim() == "0").then_some(()));
    statements(side)
}

fn peak_mb(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

impl Stage<'_> {
    fn wait_until_it_answers(&self, extract: &Running) {
        eventually("the Extract reads", || {
            extract.assert_running();
            self.try_ask("SEND EXTRACT e1, STATUS").contains("Recovery complete").then_some(())
        });
    }

    /// Statements that one start of the Extract and one transaction that touches `touched` tables cost the source. The
    /// transaction's own statement and the questions of the console are the same however many tables there are.
    fn cost_of_a_start(&self, touched: usize) -> u64 {
        let before = counted(&self.source);
        let begun = Instant::now();
        let extract = self.extract();
        self.wait_until_it_answers(&extract);
        let started = begun.elapsed();
        let begun = Instant::now();
        if touched > 0 {
            self.source.run(&format!(
                "DO $$ BEGIN FOR n IN 1..{touched} LOOP EXECUTE format('INSERT INTO t%s VALUES (1, ''x'', ''a'') \
                 ON CONFLICT (id) DO UPDATE SET a = t%s.a || ''x''', n, n); END LOOP; END $$"
            ));
            eventually("the rows are written", || {
                extract.assert_running();
                let shown = self.try_ask("STATS EXTRACT e1, TOTAL, TOTALSONLY public.t*");
                let total = shown.lines().find(|line| line.contains("Total operations"))?;
                total.trim().ends_with(&format!(" {touched}.00")).then_some(())
            });
        }
        let (written, peak) = (begun.elapsed(), peak_mb(&extract));
        self.console("STOP EXTRACT e1");
        extract.wait();
        println!("start {started:?}, {touched} tables in one transaction {written:?}, {peak} MB at most");
        counted(&self.source) - before
    }
}

#[test]
fn an_idle_extract_costs_next_to_nothing_however_many_tables_there_are() {
    let tables = number("DROVER_TABLES", 2_000);
    let stage = Stage::on(&shared().source, &shared().target, "SELECT 1");
    create(&stage.source, tables, 0);
    stage.console(&stage.set_up());
    let extract = stage.extract();
    stage.wait_until_it_answers(&extract);
    let processes = stage
        .source
        .cluster
        .psql("postgres", &format!("SELECT pid FROM pg_stat_activity WHERE datname = '{}'", stage.source.database));
    let own = extract.id().to_string();
    let begun = Instant::now();
    let used = || (processor_time(&own), processes.split_whitespace().map(processor_time).sum::<f64>());
    let before = used();
    // What the look for new tables asks last is whether anything has changed: the whole catalog is not read again.
    let sql = format!(
        "SELECT FROM pg_stat_activity WHERE datname = '{}' AND query LIKE '%hashtextextended%' AND state = 'idle'",
        stage.source.database
    );
    eventually("the next look for tables", || stage.source.holds(&sql).then_some(()));
    let (seconds, after) = (begun.elapsed().as_secs_f64(), used());
    let (ours, servers) = ((after.0 - before.0) / seconds * 100.0, (after.1 - before.1) / seconds * 100.0);
    println!("{tables} tables, {seconds:.0} s: {ours:.2} % of a core, and {servers:.2} % by the server's sessions");
    assert!(ours < 0.5, "{ours} % of a core");
    assert!(servers < 1.0, "{servers} % of a core by the server");
    extract.stop();
}

#[test]
fn a_start_asks_as_much_with_thousands_of_tables_and_types_as_with_a_few() {
    let (tables, types) = (number("DROVER_TABLES", 2_000), number("DROVER_TYPES", 2_000));
    let touched = tables / 4;
    let cost = |side_tables: usize, side_types: usize, touched: usize, own: Option<&Cluster>| {
        let source = own.unwrap_or(&shared().source);
        let stage = Stage::on(source, &shared().target, "SELECT 1");
        create(&stage.source, side_tables, side_types);
        let begun = Instant::now();
        stage.console(&stage.set_up());
        println!("{side_tables} tables and {side_types} types: registered in {:?}", begun.elapsed());
        let idle = stage.cost_of_a_start(0);
        let busy = stage.cost_of_a_start(touched);
        println!("statements of a start: {idle}; of a start and a transaction: {busy}");
        (idle, busy)
    };
    let (few_idle, few_busy) = cost(20, 20, 20, None);
    // A transaction that touches thousands of tables needs room for its locks.
    let own = (tables > 4_000).then(|| {
        let settings = [("fsync", "off"), ("max_locks_per_transaction", "2000")];
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Cluster::start(&ClusterOptions { settings, ..ClusterOptions::default() })
    });
    let (many_idle, many_busy) = cost(tables, types, touched, own.as_ref());
    assert!(many_idle <= few_idle + 20, "{many_idle} statements with {tables} tables, {few_idle} with 20");
    // What is told of a table for the first time may cost a question of its own, and no more.
    let more = (touched - 20) as u64;
    assert!(
        many_busy <= few_busy + more + 40,
        "{many_busy} statements with {touched} tables touched, {few_busy} with 20"
    );
}
