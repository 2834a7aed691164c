//! Heartbeats through real processes, with PostgreSQL at one end or both.

use super::stage::Stage;
use crate::stage::{Running, drover, eventually};
use rusqlite::Connection;

const DUE: &str = "UPDATE gg_heartbeat_job SET next_run_date = '2001-01-01' WHERE job_name = 'GG_UPDATE_HEARTBEATS'";

fn start(stage: &Stage<'_>, part: &str, group: &str) -> Running {
    let mut command = drover();
    command.args([part, group, "--home"]).arg(stage.home());
    Running::start(command)
}

/// A SQLite database beside the home.
fn sqlite(stage: &Stage<'_>, name: &str) -> Connection {
    let connection = Connection::open(stage.path().join(name)).expect("a new database");
    connection.busy_timeout(crate::stage::DEADLINE).expect("a busy timeout");
    connection.pragma_update(None, "journal_mode", "wal").expect("WAL mode");
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)").expect("a table");
    connection
}

/// What the rows of a heartbeat table say of databases and ways.
const WAYS: &str = "SELECT local_database || ' <- ' || remote_database || ': ' || coalesce(incoming_path, '-') || ' | ' \
                    || coalesce(outgoing_path, '-') FROM gg_lag ORDER BY 1";

fn ways(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare(WAYS).expect("a query");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("rows")
}

fn count(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn postgresql_and_sqlite_tell_each_other_both_lags() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let east = &stage.source;
    let west = sqlite(&stage, "west.db");
    let url = east.url();
    stage.extract_parameters("TABLE public.t;");
    stage.parameters("r1", "REPLICAT r1\nTARGETDB sqlite:../west.db\nMAP public.t, TARGET main.t;\n");
    stage.parameters("e2", "EXTRACT e2\nSOURCEDB sqlite:../west.db\nEXTTRAIL ./dirdat/bb\nTABLE main.t;\n");
    stage.parameters("r2", &format!("REPLICAT r2\nTARGETDB {url}\nMAP main.t, TARGET public.t;\n"));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{url}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
         ADD CHECKPOINTTABLE public.checkpoints; ADD REPLICAT r2, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE public.checkpoints
         ADD HEARTBEATTABLE
         DBLOGIN SOURCEDB sqlite:../west.db; ADD EXTRACT e2, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/bb, EXTRACT e2
         ADD CHECKPOINTTABLE main.checkpoints; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints
         ADD HEARTBEATTABLE, FREQUENCY 1"
    ));
    let groups = || [("extract", "e1"), ("replicat", "r1"), ("extract", "e2"), ("replicat", "r2")];
    let mut running = groups().map(|(part, group)| start(&stage, part, group));
    let database = &east.database;
    let at_west =
        [format!("west.db <- {database}: E1 ==> R1 | -"), format!("west.db <- {database}: E1 ==> R1 | E2 ==> R2")];
    let at_east =
        [format!("{database} <- west.db: E2 ==> R2 | -"), format!("{database} <- west.db: E2 ==> R2 | E1 ==> R1")];
    let settled = |running: &[Running]| {
        eventually("both ends know both ways", || {
            running.iter().for_each(Running::assert_running);
            east.run(DUE);
            let known = east.run(WAYS).lines().map(str::to_owned).collect::<Vec<_>>();
            (known == at_east && ways(&west) == at_west).then_some(())
        });
    };
    settled(&running);
    // Data flows with them, both ways.
    east.run("INSERT INTO t VALUES (1, 'east')");
    west.execute("INSERT INTO t VALUES (2, 'west')", []).expect("an insert");
    eventually("both sides hold both rows", || {
        running.iter().for_each(Running::assert_running);
        (east.run("SELECT count(*) FROM t") == "2" && count(&west, "SELECT count(*) FROM t") == 2).then_some(())
    });
    // After a kill of everybody nothing new has come up, and heartbeats go on in both directions.
    running.into_iter().for_each(Running::kill);
    let history = "SELECT count(*) FROM gg_heartbeat_history WHERE outgoing_extract IS NOT NULL";
    let (east_before, west_before): (i64, i64) = (east.run(history).parse().expect("a number"), count(&west, history));
    running = groups().map(|(part, group)| start(&stage, part, group));
    eventually("heartbeats come back again", || {
        running.iter().for_each(Running::assert_running);
        east.run(DUE);
        let east_now: i64 = east.run(history).parse().expect("a number");
        (east_now > east_before + 2 && count(&west, history) > west_before + 2).then_some(())
    });
    settled(&running);
    running.into_iter().for_each(|group| {
        group.stop();
    });
    // A heartbeat that was applied is not captured: each stamp arrives once. One statement of SQLite gives all its rows the same
    // one, and two of them take the same way back: the one without a way out, and the one with it.
    let more = |most: u32| {
        format!(
            "SELECT count(*) FROM (SELECT incoming_heartbeat_ts, outgoing_extract FROM gg_heartbeat_history \
             GROUP BY 1, 2 HAVING count(*) > {most}) AS more"
        )
    };
    assert_eq!((east.run(&more(2)).as_str(), count(&west, &more(1))), ("0", 0));
    // Lags of the way out that the other end measured came back.
    assert_eq!(
        count(&west, "SELECT count(*) FROM gg_lag WHERE outgoing_lag IS NOT NULL AND outgoing_path IS NOT NULL"),
        1
    );
    assert_eq!(
        east.run("SELECT count(*) FROM gg_lag WHERE outgoing_lag IS NOT NULL AND outgoing_path IS NOT NULL"),
        "1"
    );
}

#[test]
fn a_chain_of_databases_passes_heartbeats_on_and_the_views_show_what_the_rows_say() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let west = sqlite(&stage, "west.db");
    let middle = stage.target.url();
    stage.parameters("e2", &format!("EXTRACT e2\nSOURCEDB {middle}\nEXTTRAIL ./dirdat/bb\nTABLE public.t;\n"));
    stage.parameters("r2", "REPLICAT r2\nTARGETDB sqlite:../west.db\nMAP public.t, TARGET main.t;\n");
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{}'; ADD HEARTBEATTABLE, FREQUENCY 60
         DBLOGIN SOURCEDB '{middle}'; ADD HEARTBEATTABLE; ADD EXTRACT e2, TRANLOG, BEGIN NOW
         ADD EXTTRAIL ./dirdat/bb, EXTRACT e2
         DBLOGIN SOURCEDB sqlite:../west.db; ADD HEARTBEATTABLE, TARGETONLY; ADD CHECKPOINTTABLE main.checkpoints
         ADD REPLICAT r2, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE main.checkpoints",
        stage.source.url()
    ));
    let before = stage.source.run("SELECT clock_timestamp() AT TIME ZONE 'UTC'");
    let running = [("extract", "e1"), ("replicat", "r1"), ("extract", "e2"), ("replicat", "r2")]
        .map(|(part, group)| start(&stage, part, group));
    let (a, b) = (&stage.source, &stage.target);
    let expected = [
        format!("{} <- {}: E2 ==> R2 | E1 ==> R1", a.database, b.database),
        format!("west.db <- {}: E2 ==> R2 | -", b.database),
    ];
    eventually("the last one knows its neighbour and the way before it", || {
        running.iter().for_each(Running::assert_running);
        a.run(DUE);
        b.run(DUE);
        (ways(&west) == expected).then_some(())
    });
    stage.wait_for_signal(&[]);
    running.into_iter().for_each(|group| {
        group.stop();
    });
    let after = b.run("SELECT clock_timestamp() AT TIME ZONE 'UTC'");
    let history = b.run("SELECT count(*) FROM gg_heartbeat_history");
    assert_ne!(history, "0");
    // The stopwatch on the rows themselves: servers and groups share the machine's clock.
    let order = format!(
        "SELECT count(*) FROM gg_heartbeat_history WHERE '{before}' <= incoming_heartbeat_ts \
         AND incoming_heartbeat_ts <= incoming_extract_ts AND incoming_extract_ts <= incoming_replicat_ts \
         AND incoming_replicat_ts <= heartbeat_received_ts AND heartbeat_received_ts <= '{after}'"
    );
    assert_eq!(b.run(&order), history);
    let lags = "SELECT count(*) FROM gg_lag_history l JOIN gg_heartbeat_history h USING (heartbeat_received_ts) \
                WHERE l.incoming_lag * interval '1 second' = h.heartbeat_received_ts - h.incoming_heartbeat_ts";
    assert_eq!(b.run(lags), history);
    let view = b.run(
        "SELECT incoming_path, outgoing_path IS NULL, incoming_lag >= 0, incoming_heartbeat_age >= incoming_lag, \
         current_local_ts <= clock_timestamp() AT TIME ZONE 'UTC', remote_extract_restart_csn IS NOT NULL FROM gg_lag",
    );
    assert_eq!(view, "E1 ==> R1|t|t|t|t|t");
    // Nobody counts heartbeats, and comparing leaves them out.
    for report in ["dirrpt/E1.rpt", "dirrpt/R1.rpt", "dirrpt/R2.rpt"] {
        let report = stage.text(report);
        let (_, report) = report.split_once("Run Time Statistics").expect("statistics");
        assert!(!report.to_lowercase().contains("heartbeat"), "{report}");
    }
    let compared = drover().args(["compare", &a.url(), &b.url()]).output().expect("the binary runs");
    assert!(!String::from_utf8_lossy(&compared.stdout).contains("heartbeat"), "{compared:?}");
}

#[test]
fn an_outside_scheduler_may_run_the_jobs_of_postgresql() {
    let stage = Stage::bare("");
    let source = &stage.source;
    let login = format!("DBLOGIN SOURCEDB '{}';", source.url());
    for (wrong, why) in [
        ("ADD HEARTBEATTABLE, FREQUENCY 59", "FREQUENCY 59 is below 60 seconds"),
        ("ADD HEARTBEATTABLE, FREQUENCY 0", "FREQUENCY 0 is below 60 seconds"),
        ("ADD HEARTBEATTABLE, PARTITIONED", "can't be partitioned"),
    ] {
        let refused = stage.console_refuses(&format!("{login} {wrong}"));
        assert!(refused.contains(why), "{refused}");
    }
    let added = stage.console(&format!("{login} ADD HEARTBEATTABLE"));
    for line in ["table GG_HEARTBEAT created", "view GG_LAG_HISTORY created", "function GG_HB_JOB_RUN created"] {
        assert!(added.contains(line), "{added}");
    }
    let stamp = || source.run("SELECT heartbeat_timestamp FROM gg_heartbeat_seed");
    let first = stamp();
    source.run("SELECT gg_hb_job_run()");
    let second = stamp();
    assert_ne!(second, first, "it was due at once");
    source.run("SELECT gg_hb_job_run()");
    assert_eq!(stamp(), second, "however often it is called, it acts when it is due");
    source.run(DUE);
    let info = stage.console(&format!("{login} INFO HEARTBEATTABLE"));
    assert!(info.contains("GG_UPDATE_HEARTBEATS does not run: its NEXT_RUN_DATE is"), "{info}");
    source.run("SELECT gg_hb_job_run()");
    let info = stage.console(&format!("{login} INFO HEARTBEATTABLE"));
    assert!(info.contains("HEARTBEAT frequency: 60 seconds") && !info.contains("does not run"), "{info}");
    source.run("UPDATE gg_heartbeat_job SET job_queue_processes = 0");
    assert!(stage.console(&format!("{login} INFO HEARTBEATTABLE")).contains("JOB_QUEUE_PROCESSES is 0"));

    // Purging goes by the retention.
    source.run(
        "INSERT INTO gg_heartbeat_history (local_database, remote_database, heartbeat_received_ts) VALUES \
         ('a', 'b', '2001-01-01'), ('a', 'b', now() AT TIME ZONE 'UTC' - interval '29 days'); SELECT gg_purge_hb_tab()",
    );
    assert_eq!(source.run("SELECT count(*) FROM gg_heartbeat_history"), "1");

    // An installation that lost something is put in order.
    source.run("DROP VIEW gg_lag; ALTER TABLE gg_heartbeat DROP COLUMN incoming_extract_restart_ts");
    let info = stage.console(&format!("{login} INFO HEARTBEATTABLE"));
    assert!(info.contains("Column GG_HEARTBEAT.INCOMING_EXTRACT_RESTART_TS is missing."), "{info}");
    stage.console(&format!("{login} UPGRADE HEARTBEATTABLE"));
    assert!(stage.console(&format!("{login} UPGRADE HEARTBEATTABLE")).contains("of this version already"));
    stage.console(&format!("{login} DELETE HEARTBEATTABLE !"));
    let left = "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'gg\\_%') \
                + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'gg\\_%')";
    assert_eq!(source.run(left), "0");
}
