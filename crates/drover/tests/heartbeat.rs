//! Heartbeats through real processes, over SQLite.

use crate::stage::{Running, Stage, eventually, number, query, rows};
use rusqlite::Connection;

const ADD: &str = "DBLOGIN SOURCEDB sqlite:../source.db; ADD HEARTBEATTABLE, FREQUENCY 1
                   DBLOGIN SOURCEDB sqlite:../target.db; ADD HEARTBEATTABLE, FREQUENCY 1";

/// Objects of an installation that a database holds.
fn objects(connection: &Connection) -> i64 {
    number(connection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'GG\\_%' ESCAPE '\\'")
}

fn text(connection: &Connection, sql: &str) -> String {
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The database's time, as heartbeat tables write it.
fn now(connection: &Connection) -> String {
    text(connection, "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'")
}

/// Waits until the target has received `count` heartbeats more than `before`.
fn beats(connection: &Connection, groups: &[&Running], count: i64) {
    let before = number(connection, "SELECT count(*) FROM GG_HEARTBEAT_HISTORY");
    eventually("heartbeats arrive", || {
        groups.iter().for_each(|group| group.assert_running());
        (number(connection, "SELECT count(*) FROM GG_HEARTBEAT_HISTORY") >= before + count).then_some(())
    });
}

#[test]
fn a_heartbeat_arrives_with_the_time_of_every_hop_and_the_views_show_what_the_rows_say() {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let added = stage.console(ADD);
    assert!(added.contains("table GG_HEARTBEAT_SEED populated with source.db."), "{added}");
    // Wildcards select no heartbeat table.
    stage.console(crate::stage::SET_UP);
    let (source, target) = (stage.source(), stage.target());
    let before = now(&source);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    source.execute("INSERT INTO t VALUES (1, 'x')", []).expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    beats(&target, &[&extract, &replicat], 3);
    for command in ["LAG EXTRACT e1", "LAG REPLICAT r1"] {
        let told = stage.console(&format!("DBLOGIN SOURCEDB sqlite:../target.db; {command}"));
        let row = told.lines().find(|line| line.ends_with("source.db  target.db  E1 ==> R1"));
        assert!(row.is_some() && told.contains("LAG"), "{told}");
        // Without a login the group answers, and nothing else.
        assert!(!stage.console(command).contains("==>"));
    }
    extract.stop();
    replicat.stop();
    let after = now(&target);

    // One row for the one way, and a line of history for each heartbeat.
    let ways = "SELECT LOCAL_DATABASE, REMOTE_DATABASE, INCOMING_EXTRACT, INCOMING_ROUTING_PATH, INCOMING_REPLICAT, \
                OUTGOING_EXTRACT FROM GG_HEARTBEAT";
    let way = [r#"text "target.db""#, r#"text "source.db""#, r#"text "E1""#, "null", r#"text "R1""#, "null"];
    assert_eq!(query(&target, ways), [way]);
    assert_eq!(rows(&source, "GG_HEARTBEAT").len(), 0, "nothing comes back to the source");
    // The stopwatch: all times lie in order between the test's own. The database's clock tells thousandths.
    let order = format!(
        "SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE '{before}' <= INCOMING_HEARTBEAT_TS \
         AND INCOMING_HEARTBEAT_TS <= INCOMING_EXTRACT_TS AND INCOMING_EXTRACT_TS <= INCOMING_REPLICAT_TS \
         AND INCOMING_REPLICAT_TS <= HEARTBEAT_RECEIVED_TS AND substr(HEARTBEAT_RECEIVED_TS, 1, 23) <= '{after}'"
    );
    let history = number(&target, "SELECT count(*) FROM GG_HEARTBEAT_HISTORY");
    assert_eq!(number(&target, &order), history);
    assert_eq!(number(&target, "SELECT count(DISTINCT INCOMING_HEARTBEAT_TS) FROM GG_HEARTBEAT_HISTORY"), history);
    assert_eq!(
        text(&target, "SELECT HEARTBEAT_RECEIVED_TS FROM GG_HEARTBEAT"),
        text(&target, "SELECT max(HEARTBEAT_RECEIVED_TS) FROM GG_HEARTBEAT_HISTORY"),
    );
    assert_eq!(
        number(&target, "SELECT count(*) FROM GG_HEARTBEAT WHERE INCOMING_EXTRACT_HEARTBEAT_CSN IS NOT NULL"),
        1
    );

    // The views, against plain arithmetic on the rows: microseconds since midnight.
    let micros = |column: &str| {
        format!(
            "((substr({column}, 12, 2) * 60 + substr({column}, 15, 2)) * 60 + substr({column}, 18, 2)) * 1000000 \
             + substr({column}, 21, 6)"
        )
    };
    let lag = format!("{} - ({})", micros("HEARTBEAT_RECEIVED_TS"), micros("INCOMING_HEARTBEAT_TS"));
    let same_day = "substr(HEARTBEAT_RECEIVED_TS, 1, 10) = substr(INCOMING_HEARTBEAT_TS, 1, 10)";
    let shown = "SELECT round(INCOMING_LAG * 1000000) FROM GG_LAG_HISTORY ORDER BY 1";
    let counted = format!("SELECT round({lag} + 0.0) FROM GG_HEARTBEAT_HISTORY ORDER BY 1");
    if number(&target, &format!("SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE {same_day}")) == history {
        assert_eq!(query(&target, shown), query(&target, &counted));
    }
    let view = query(&target, "SELECT INCOMING_PATH, OUTGOING_PATH, OUTGOING_LAG, INCOMING_LAG >= 0 FROM GG_LAG");
    assert_eq!(view, [[r#"text "E1 ==> R1""#, "null", "null", "integer 1"]]);
    let early: f64 =
        target.query_row("SELECT INCOMING_HEARTBEAT_AGE FROM GG_LAG", [], |row| row.get(0)).expect("an age");
    let late: f64 =
        target.query_row("SELECT INCOMING_HEARTBEAT_AGE FROM GG_LAG", [], |row| row.get(0)).expect("an age");
    assert!(0.0 <= early && early <= late, "{early} {late}");

    // Nobody counts them, and compare leaves them out.
    for report in ["dirrpt/E1.rpt", "dirrpt/R1.rpt"] {
        let report = stage.text(report);
        let (_, report) = report.split_once("Run Time Statistics").expect("statistics");
        assert!(report.contains("main.t ") && !report.contains("GG_HEARTBEAT"), "{report}");
    }
    // A row that was stamped by the target's own job would need an Extract there: none stamps a target without one.
    assert_eq!(number(&target, "SELECT count(*) FROM GG_HEARTBEAT WHERE HEARTBEAT_TIMESTAMP IS NOT NULL"), 0);
}

#[test]
fn delete_heartbeattable_leaves_nothing() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let source = stage.source();
    assert_eq!(objects(&source), 0);
    stage.console(ADD);
    assert!(objects(&source) > 0);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    beats(&stage.target(), &[&extract, &replicat], 1);
    replicat.stop();
    // A running Extract goes on without.
    let gone = stage.console("DBLOGIN SOURCEDB sqlite:../source.db; DELETE HEARTBEATTABLE !");
    assert!(gone.contains("table GG_HEARTBEAT dropped") && gone.contains("view GG_LAG dropped"), "{gone}");
    stage.console("DBLOGIN SOURCEDB sqlite:../target.db; DELETE HEARTBEATTABLE gg_heartbeat !");
    assert_eq!((objects(&source), objects(&stage.target())), (0, 0));
    // What is in the trail is of no use to anybody now.
    let replicat = stage.replicat();
    source.execute("INSERT INTO t VALUES (1, 'x')", []).expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    let info = stage.console("DBLOGIN SOURCEDB sqlite:../source.db; INFO HEARTBEATTABLE");
    assert!(info.contains("HEARTBEAT tables do not exist"), "{info}");
}

#[test]
fn info_heartbeattable_tells_why_no_heart_beats() {
    let stage = Stage::bare("");
    let login = "DBLOGIN SOURCEDB sqlite:../source.db;";
    stage.console(&format!("{login} ADD HEARTBEATTABLE"));
    let info = || stage.console(&format!("{login} INFO HEARTBEATTABLE"));
    let told = info();
    for line in [
        "HEARTBEAT table main.GG_HEARTBEAT_SEED exists.",
        "HEARTBEAT view main.GG_LAG_HISTORY exists.",
        "HEARTBEAT database name: source.db",
        "HEARTBEAT frequency: 60 seconds",
        "HEARTBEAT purge frequency: 1 days",
        "HEARTBEAT retention time: 30 days",
        "GG_UPDATE_HEARTBEATS",
        "GG_PURGE_HEARTBEATS",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!told.contains("does not run"), "{told}");
    let source = stage.source();
    source
        .execute(
            "UPDATE GG_HEARTBEAT_JOB SET NEXT_RUN_DATE = '2001-01-01 00:00:00.000000' WHERE JOB_NAME LIKE 'GG_UPDATE%'",
            [],
        )
        .expect("an update");
    assert!(info().contains("GG_UPDATE_HEARTBEATS does not run: its NEXT_RUN_DATE is"), "{}", info());
    source.execute("UPDATE GG_HEARTBEAT_JOB SET JOB_QUEUE_PROCESSES = 0", []).expect("an update");
    let told = info();
    assert!(told.contains("GG_UPDATE_HEARTBEATS does not run: JOB_QUEUE_PROCESSES is 0"), "{told}");
    assert!(told.contains("GG_PURGE_HEARTBEATS does not run: JOB_QUEUE_PROCESSES is 0"), "{told}");

    // Somebody drops something.
    source
        .execute_batch("DROP VIEW GG_LAG; ALTER TABLE GG_HEARTBEAT DROP COLUMN INCOMING_EXTRACT_RESTART_TS")
        .expect("drops");
    let told = info();
    assert!(told.contains("view main.GG_LAG does not exist."), "{told}");
    assert!(told.contains("Column GG_HEARTBEAT.INCOMING_EXTRACT_RESTART_TS is missing."), "{told}");
    stage.console(&format!("{login} ALTER HEARTBEATTABLE, UPGRADE"));
    assert!(!info().contains("not exist") && !info().contains("missing"), "{}", info());
    assert!(stage.console(&format!("{login} UPGRADE HEARTBEATTABLE")).contains("of this version already"));
}

#[test]
fn heartbeattable_takes_its_options_within_their_limits() {
    let stage = Stage::bare("");
    let login = "DBLOGIN SOURCEDB sqlite:../source.db;";
    for wrong in [
        "ADD HEARTBEATTABLE, FREQUENCY 8000",
        "ADD HEARTBEATTABLE, RETENTION_TIME 0",
        "ADD HEARTBEATTABLE, RETENTION_TIME 2147483647",
        "ADD HEARTBEATTABLE, PURGE_FREQUENCY 0",
        "ADD HEARTBEATTABLE, PURGE_FREQUENCY 200",
    ] {
        assert_eq!(stage.try_console(&format!("{login} {wrong}")).status.code(), Some(2), "{wrong}");
    }
    for (wrong, why) in [
        ("ADD HEARTBEATTABLE, PARTITIONED", "can't be partitioned"),
        ("ADD HEARTBEATTABLE, TARGETONLY, NOTARGETONLY", "exclude each other"),
        ("ALTER HEARTBEATTABLE, FREQUENCY 5", "there are no heartbeat tables"),
        ("ALTER HEARTBEATTABLE", "says nothing to alter"),
        ("DELETE HEARTBEATTABLE !", "there are no heartbeat tables"),
        ("UPGRADE HEARTBEATTABLE", "there are no heartbeat tables"),
        ("DELETE HEARTBEATENTRY e1", "there are no heartbeat tables"),
    ] {
        let refused = stage.console_refuses(&format!("{login} {wrong}"));
        assert!(refused.contains(why), "{wrong}: {refused}");
    }
    stage.console(&format!(
        "{login} ADD HEARTBEATTABLE, FREQUENCY 7999, RETENTION_TIME 2147483646, PURGE_FREQUENCY 199, NOPARTITIONED, TARGETONLY"
    ));
    let source = stage.source();
    let jobs = || {
        query(&source, "SELECT JOB_NAME, REPEAT_INTERVAL, RETENTION_TIME, NEXT_RUN_DATE IS NULL FROM GG_HEARTBEAT_JOB")
    };
    let purge = [r#"text "GG_PURGE_HEARTBEATS""#, "integer 17193600", "integer 2147483646", "integer 0"];
    assert_eq!(jobs(), [purge]);
    assert!(stage.console_refuses(&format!("{login} ADD HEARTBEATTABLE")).contains("exists already"));
    stage.console(&format!("{login} ALTER HEARTBEATTABLE, NOTARGETONLY, FREQUENCY 0"));
    let stamp = |interval: &str, paused: &str| {
        [r#"text "GG_UPDATE_HEARTBEATS""#.to_owned(), interval.to_owned(), "null".to_owned(), paused.to_owned()]
    };
    assert_eq!(jobs()[1], stamp("integer 0", "integer 1"));
    stage.console(&format!("{login} ALTER HEARTBEATTABLE, FREQUENCY 5"));
    assert_eq!(jobs()[1], stamp("integer 5", "integer 0"));
    assert_eq!(jobs()[0], purge);
    stage.console(&format!("{login} ALTER HEARTBEATTABLE, TARGETONLY"));
    assert_eq!(jobs().len(), 1);
}

#[test]
fn a_job_that_is_paused_or_may_not_run_stamps_nothing_and_goes_on_when_it_may() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.console(ADD);
    let (source, target) = (stage.source(), stage.target());
    let (extract, replicat) = (stage.extract(), stage.replicat());
    beats(&target, &[&extract, &replicat], 1);
    source.execute("UPDATE GG_HEARTBEAT_JOB SET JOB_QUEUE_PROCESSES = 0", []).expect("an update");
    let stamp = || text(&source, "SELECT HEARTBEAT_TIMESTAMP FROM GG_HEARTBEAT_SEED");
    let frozen = stamp();
    // Other work goes on meanwhile.
    for id in 0..3 {
        source.execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("an insert");
        stage.wait_until_equal(&["t"], &extract, &replicat);
    }
    assert_eq!(stamp(), frozen);
    source.execute("UPDATE GG_HEARTBEAT_JOB SET JOB_QUEUE_PROCESSES = 1", []).expect("an update");
    beats(&target, &[&extract, &replicat], 1);
    assert_ne!(stamp(), frozen);
}

#[test]
fn old_history_is_purged_when_its_job_is_due() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    stage.console(ADD);
    let target = stage.target();
    target
        .execute_batch(
            "INSERT INTO GG_HEARTBEAT_HISTORY (LOCAL_DATABASE, REMOTE_DATABASE, HEARTBEAT_RECEIVED_TS) VALUES
             ('a', 'b', '2001-01-01 00:00:00.000000'), ('a', 'b', strftime('%Y-%m-%d %H:%M:%f', 'now', '-29 days') || '000');
             UPDATE GG_HEARTBEAT_JOB SET NEXT_RUN_DATE = '2001-01-01 00:00:00.000000'",
        )
        .expect("history");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    eventually("the old line goes", || {
        replicat.assert_running();
        let old = "SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE HEARTBEAT_RECEIVED_TS LIKE '2001%'";
        (number(&target, old) == 0).then_some(())
    });
    assert_eq!(number(&target, "SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE LOCAL_DATABASE = 'a'"), 1);
    // The target's stamps are not a Replicat's business.
    assert_eq!(number(&target, "SELECT count(*) FROM GG_HEARTBEAT_JOB WHERE LAST_START_DATE IS NULL"), 1);
    extract.stop();
    replicat.stop();
}

#[test]
fn heartbeats_go_on_after_everything_was_killed() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.console(ADD);
    let (source, target) = (stage.source(), stage.target());
    for round in 0..4 {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        source.execute("INSERT INTO t VALUES (?1, 'x')", [round]).expect("an insert");
        beats(&target, &[&extract, &replicat], 2);
        stage.wait_until_equal(&["t"], &extract, &replicat);
        extract.kill();
        replicat.kill();
    }
    assert_eq!(rows(&target, "GG_HEARTBEAT").len(), 1);
    // None was applied twice.
    let twice = "SELECT count(*) - count(DISTINCT INCOMING_HEARTBEAT_TS) FROM GG_HEARTBEAT_HISTORY";
    assert_eq!(number(&target, twice), 0);
}

#[test]
fn a_heartbeat_commits_with_the_data_around_it() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.console(ADD);
    // While the Replicat is down, heartbeats and rows take turns in the trail. A group of one transaction each would show.
    let extract = stage.extract();
    let source = stage.source();
    for id in 0..3 {
        let before = text(&source, "SELECT HEARTBEAT_TIMESTAMP FROM GG_HEARTBEAT_SEED");
        eventually("the next stamp", || {
            extract.assert_running();
            (text(&source, "SELECT HEARTBEAT_TIMESTAMP FROM GG_HEARTBEAT_SEED") != before).then_some(())
        });
        source.execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("an insert");
    }
    eventually("the trail holds the last row", || stage.trail_shows("main.t").then_some(()));
    extract.stop();
    let target = stage.target();
    // Whoever sees a row sees the heartbeats before it, and the reverse: the target commits them together.
    let replicat = stage.replicat();
    let both = eventually("all is applied", || {
        replicat.assert_running();
        let sql = "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM GG_HEARTBEAT_HISTORY)";
        let both: (i64, i64) = target.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("two numbers");
        // One snapshot: either nothing at all, or rows with the heartbeats that came before them.
        assert!(both == (0, 0) || (both.0 > 0 && both.1 + 1 >= both.0), "{both:?}");
        (both.0 == 3).then_some(both)
    });
    // The first stamp may have come before the seed had joined.
    assert!(both.1 >= 2);
    replicat.stop();
}

#[test]
fn lag_shows_each_hop_history_by_day_and_a_plot() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let login = "DBLOGIN SOURCEDB sqlite:../target.db;";
    let lag = |command: &str| stage.console(&format!("{login} {command}"));
    assert!(lag("LAG REPLICAT r1, GLOBAL").contains("There are no heartbeat tables"), "nothing yet");
    stage.console("DBLOGIN SOURCEDB sqlite:../target.db; ADD HEARTBEATTABLE, TARGETONLY");
    assert!(lag("LAG REPLICAT r1, GLOBAL").contains("No heartbeat has come this way."), "nothing yet");
    // Rows as they would be after a heartbeat of 1.5, 2, 3 and 4 seconds a hop, stamped now, and old ones.
    let target = stage.target();
    let times = "strftime('%Y-%m-%d %H:%M:%f', 'now', '-10.5 seconds') || '000', strftime('%Y-%m-%d %H:%M:%f', 'now', '-9 seconds') || '000', \
                 strftime('%Y-%m-%d %H:%M:%f', 'now', '-7 seconds') || '000', strftime('%Y-%m-%d %H:%M:%f', 'now', '-4 seconds') || '000', \
                 strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'";
    let columns = "LOCAL_DATABASE, REMOTE_DATABASE, INCOMING_EXTRACT, INCOMING_ROUTING_PATH, INCOMING_REPLICAT, \
                   INCOMING_HEARTBEAT_TS, INCOMING_EXTRACT_TS, INCOMING_ROUTING_TS, INCOMING_REPLICAT_TS, HEARTBEAT_RECEIVED_TS";
    let day = |day: &str, seconds: &str| {
        format!(
            "INSERT INTO GG_HEARTBEAT_HISTORY ({columns}) SELECT 'target.db', 'source.db', 'E1', 'P1', 'R1', '{day} 00:00:00.000000', \
             NULL, NULL, NULL, '{day} 00:00:{seconds}0000';"
        )
    };
    target
        .execute_batch(&format!(
            "INSERT INTO GG_HEARTBEAT ({columns}, WAY_KEY) SELECT 'target.db', 'source.db', 'E1', 'P1', 'R1', {times}, 'a';
             INSERT INTO GG_HEARTBEAT ({columns}, WAY_KEY) VALUES ('target.db', 'far', 'E9', NULL, 'R9', '2001-01-01 00:00:05.000000',
               '2001-01-01 00:00:06.000000', NULL, '2001-01-01 00:00:03.000000', '2001-01-01 00:00:04.000000', 'b');
             {} {} {}",
            day("2024-02-29", "01.00"),
            day("2024-02-29", "02.50"),
            day("2024-03-01", "04.00")
        ))
        .expect("rows");
    let told = lag("LAG REPLICAT r1, GLOBAL");
    let row = told.lines().find(|line| line.contains("E1 ==> P1 ==> R1")).unwrap_or_else(|| panic!("{told}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[0], "10.50s", "{told}");
    assert_eq!(words[2..8], ["1.50s", "2.00s", "3.00s", "4.00s", "source.db", "target.db"], "{told}");
    // Clocks that disagree, and a heartbeat that has stayed away for years.
    assert!(told.contains("-1.00s"), "{told}");
    assert!(told.contains("WARNING: E9 ==> R9 from far: the Replicat's clock is behind that of who wrote its trail by at least 3.000000 s."), "{told}");
    assert!(told.contains("WARNING: E9 ==> R9 from far: the last heartbeat is"), "{told}");
    // By day.
    let told = lag("LAG REPLICAT r1, HISTORY");
    let days: Vec<Vec<&str>> = told
        .lines()
        .filter(|line| line.starts_with("2024"))
        .map(|line| line.split_whitespace().take(5).collect())
        .collect();
    assert_eq!(
        days,
        [["2024-02-29", "2", "1.00s", "1.75s", "2.50s"], ["2024-03-01", "1", "4.00s", "4.00s", "4.00s"]],
        "{told}"
    );
    // As a plot.
    let told = lag("LAG REPLICAT r1, PLOT lag.svg");
    assert!(told.contains("3 heartbeats of 1 ways plotted into"), "{told}");
    let svg = stage.text("lag.svg");
    assert!(svg.starts_with("<svg ") && svg.contains("source.db: E1 ==&gt; P1 ==&gt; R1"), "{svg}");
    assert!(stage.console_refuses(&format!("{login} LAG REPLICAT r7, PLOT lag.svg")).contains("nothing to plot"));
    // Entries of a group that is gone go away.
    assert!(lag("DELETE HEARTBEATENTRY p1").contains("1 rows deleted"));
    assert!(!lag("LAG REPLICAT r1, GLOBAL").contains("P1"));
}

#[test]
fn the_steps_of_the_heartbeat_guide_work_as_written() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/heartbeat.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once("\n## A complete example\n").expect("the guide has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    crate::readme::run(example);
}
