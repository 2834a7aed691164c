//! The initial copy: rows that were there before, once, beside the changes that go on.

use super::stage::{Pair, Side, Stage};
use crate::stage::{Running, drover};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Seconds of work and kills.
fn seconds() -> u64 {
    std::env::var("DROVER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn start_copy(stage: &Stage<'_>) -> Running {
    let mut command = drover();
    command.args(["copy", "r1", "--extract", "e1", "--home"]).arg(stage.home());
    Running::start(command)
}

/// Asserts that both databases are equal by `drover compare`, and returns the number of rows.
#[track_caller]
fn assert_equal(stage: &Stage<'_>) -> u64 {
    let output = drover().args(["compare", &stage.source.url(), &stage.target.url(), "--json"]).output();
    let output = output.expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let comparison: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tables = comparison["tables"].as_array().expect("tables").iter();
    tables.map(|table| table["source_rows"].as_u64().expect("a count")).sum()
}

#[track_caller]
fn copy(stage: &Stage<'_>) {
    let ended = start_copy(stage).wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

/// Clients that insert, update and delete rows of `item` and `note`, keys included, until the time is over.
fn writers(side: &Side<'_>, seconds: u64, seed: u64) -> Child {
    let script = "\
\\set id random(1, 20000)
\\set other random(20001, 40000)
BEGIN;
INSERT INTO item VALUES (:other, 'new', :other) ON CONFLICT (id) DO UPDATE SET price = item.price + 1;
UPDATE item SET price = price + 1 WHERE id = :id;
DELETE FROM item WHERE id = :id + 7;
UPDATE note SET text = text || '.' WHERE id = :id;
INSERT INTO history VALUES (DEFAULT, :id);
END;
";
    let file = side.cluster.directory().join(format!("copy_{}.sql", side.database));
    std::fs::write(&file, script).expect("a script");
    let mut command = side.cluster.command("pgbench");
    command
        .args(["-n", "-c", "4", "-R", "300", "-U", "postgres", "-f"])
        .arg(file)
        .arg("-h")
        .arg(side.cluster.directory());
    command.args([&format!("-T{seconds}"), &format!("--random-seed={seed}"), "-p", &side.cluster.port().to_string()]);
    command.arg(&side.database).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench starts")
}

const SCHEMA: &str = "\
    CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2));
    CREATE TABLE note (id int PRIMARY KEY, text text);
    CREATE TABLE history (number bigserial PRIMARY KEY, id int);
    CREATE TABLE still (id int PRIMARY KEY, filler text);";

fn fill(side: &Side<'_>, rows: u32) {
    side.run(&format!(
        "INSERT INTO item SELECT n, 'item ' || n, n FROM generate_series(1, {rows}) AS n; \
         INSERT INTO note SELECT n, repeat('x', n % 200) FROM generate_series(1, {rows}) AS n; \
         INSERT INTO still SELECT n, repeat('y', 100) FROM generate_series(1, {rows}) AS n"
    ));
}

#[test]
fn rows_that_were_there_arrive_with_the_changes_that_go_on() {
    let stage = Stage::bare(SCHEMA);
    fill(&stage.source, 20_000);
    stage.add_groups();
    let mut work = writers(&stage.source, 4, 1);
    let extract = stage.extract();
    copy(&stage);
    let replicat = stage.replicat();
    work.wait().expect("pgbench ends");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(assert_equal(&stage) > 60_000);
    // A copy that is complete has nothing to do.
    copy(&stage);
    let filled =
        "SELECT string_agg(source_table, ',' ORDER BY source_table) FROM public.checkpoints_copy WHERE rows = 20000";
    assert_eq!(stage.target.run(filled), "item,note,still");
    // With the group go its rows, with the checkpoint table theirs.
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; DELETE REPLICAT r1", stage.target.url()));
    assert_eq!(stage.target.run("SELECT count(*) FROM public.checkpoints_copy"), "0");
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.target.url());
    stage.console(&format!("{login}; DELETE CHECKPOINTTABLE public.checkpoints !"));
    assert_eq!(stage.target.run("SELECT to_regclass('public.checkpoints_copy')"), "");
}

#[test]
fn a_value_is_the_same_by_copy_and_by_stream_whatever_the_shapes_of_the_tables() {
    let source = "\
        CREATE SCHEMA \"Weird.Schema\";
        CREATE TYPE mood AS ENUM ('sad', 'it''s');
        CREATE TABLE \"Weird.Schema\".\"a\"\"b; DROP TABLE kinds; --\" (\"Id\" int PRIMARY KEY, \"id\" text, \"select\" text);
        CREATE TABLE kinds (id int PRIMARY KEY, a float8, b bytea, c timestamptz, d interval, e text[], f jsonb, g mood,
          h numeric, i text, j money, k char(5), l int GENERATED ALWAYS AS (id * 2) STORED);
        CREATE TABLE parted (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
        CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (50);
        CREATE TABLE parted_high (v text, id int NOT NULL);
        ALTER TABLE parted ATTACH PARTITION parted_high FOR VALUES FROM (50) TO (100);
        CREATE TABLE narrow (id int PRIMARY KEY, v text);";
    let target = "\
        CREATE SCHEMA \"Weird.Schema\";
        CREATE TYPE mood AS ENUM ('sad', 'it''s');
        CREATE TABLE \"Weird.Schema\".\"a\"\"b; DROP TABLE kinds; --\" (\"select\" text, \"id\" text, \"Id\" int PRIMARY KEY);
        CREATE TABLE kinds (id int PRIMARY KEY, a float8, b bytea, c timestamptz, d interval, e text[], f jsonb, g mood,
          h numeric, i text, j money, k char(5), l int GENERATED ALWAYS AS (id * 2) STORED);
        CREATE TABLE parted (v text, id int PRIMARY KEY);
        CREATE TABLE narrow (id int PRIMARY KEY, v text, more text DEFAULT 'by default');";
    let rows = |from: u32| {
        format!(
            "INSERT INTO \"Weird.Schema\".\"a\"\"b; DROP TABLE kinds; --\" VALUES ({from}, E'\\t\\n\\\\N', NULL);
             INSERT INTO kinds VALUES
               ({from}, '-0', '\\x005c0aff', '0001-01-01 00:00:00.000001 BC', '1 mon -3 days 00:00:01.5',
                ARRAY['a,b', '\"', NULL, ''], '{{\"k\": [1.0, \"\\u00e9\"]}}', 'it''s', 1.000, '', 1.5, 'a'),
               ({from} + 1, 'NaN', '', 'infinity', '00:00:00', '{{}}', 'null', 'sad', 'NaN', E'\\\\.', 0, NULL);
             INSERT INTO parted VALUES ({from} % 50, 'low'), (50 + {from} % 50, 'high');
             INSERT INTO narrow VALUES ({from}, NULL);"
        )
    };
    let stage = Stage::bare("");
    stage.source.run(source);
    stage.target.run(target);
    stage.source.run(&rows(10));
    // The target's settings must not touch values.
    for setting in
        ["datestyle = 'SQL, DMY'", "bytea_output = escape", "extra_float_digits = -3", "timezone = 'Asia/Kolkata'"]
    {
        stage.source.run(&format!("ALTER DATABASE {} SET {setting}", stage.source.database));
        stage.target.run(&format!("ALTER DATABASE {} SET {setting}", stage.target.database));
    }
    stage.add_groups();
    copy(&stage);
    stage.source.run(&rows(30));
    stage.replicate();
    for (table, columns) in [
        ("\"Weird.Schema\".\"a\"\"b; DROP TABLE kinds; --\"", "\"Id\", \"id\", \"select\""),
        ("kinds", "kinds.*"),
        ("parted", "id, v"),
        ("narrow", "id, v"),
    ] {
        let rows = |side: &Side<'_>| {
            side.run(&format!("SELECT ({columns})::text FROM {table} ORDER BY 1").replace("(kinds.*)", "kinds"))
        };
        assert_eq!(rows(&stage.source), rows(&stage.target), "{table}");
        assert!(rows(&stage.source).lines().count() >= 2);
    }
    assert_eq!(stage.target.run("SELECT DISTINCT more FROM narrow"), "by default");
}

#[test]
fn a_replicat_does_not_start_before_the_copy_is_complete_and_the_copy_not_beside_it() {
    let stage = Stage::bare(SCHEMA);
    fill(&stage.source, 100);
    stage.target.run("INSERT INTO note VALUES (1, 'not from the source')");
    stage.add_groups();
    let message = start_copy(&stage).fails();
    assert!(message.contains("can't copy to table public.note: it holds rows"), "{message}");
    // A Replicat connects once there is a trail.
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00709") && message.contains("is not finished"), "{message}");

    stage.target.run("TRUNCATE note");
    let done =
        "SELECT string_agg(source_table, ',' ORDER BY source_table) FROM public.checkpoints_copy WHERE csn IS NOT NULL";
    let before = stage.target.run("SELECT max(finished) FROM public.checkpoints_copy WHERE source_table <> 'note'");
    copy(&stage);
    assert_eq!(stage.target.run(done), "history,item,note,signal,still");
    // What was done before was not done again.
    let after = "SELECT min(finished) FROM public.checkpoints_copy WHERE source_table = 'note'";
    assert!(before < stage.target.run(after) || before.is_empty());
    stage.source.run("UPDATE note SET text = 'changed' WHERE id < 10; DELETE FROM item WHERE id = 3");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    let message = start_copy(&stage).fails();
    assert!(message.contains("DRV-00202"), "{message}");
    extract.stop();
    replicat.stop();
    assert_eq!(assert_equal(&stage), 100 + 100 + 100 - 1 + 1);
}

#[test]
fn a_copy_outlives_timeouts_of_idle_transactions_and_connections_that_are_cut() {
    let stage = Stage::bare(SCHEMA);
    fill(&stage.source, 60_000);
    for side in [&stage.source, &stage.target] {
        side.run(&format!("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '1s'", side.database));
    }
    stage.add_groups();
    let extract = stage.extract();
    // One table is busy for longer than the time-out; the snapshot must be there when it is free.
    let mut busy = stage.target.cluster.command("psql");
    busy.args(["-U", "postgres", "-h"]).arg(stage.target.cluster.directory());
    busy.args(["-p", &stage.target.cluster.port().to_string(), "-c"]);
    busy.arg("BEGIN; LOCK TABLE note; SELECT pg_sleep(3); COMMIT").arg(&stage.target.database).stdout(Stdio::null());
    let mut busy = busy.spawn().expect("psql starts");
    let locked =
        "SELECT FROM pg_locks WHERE relation = 'public.note'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    crate::stage::eventually("the table is busy", || stage.target.holds(locked).then_some(()));
    let copying = start_copy(&stage);
    // A reader is cut off in the middle of a table.
    let readers = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY %' AND state = 'active' \
                   AND pid <> pg_backend_pid()";
    let cut = || stage.source.holds(&format!("SELECT pg_terminate_backend(pid) {readers} LIMIT 1")).then_some(());
    crate::stage::eventually("a reader is at work and is cut off", cut);
    busy.wait().expect("psql ends");
    // A copy that the cut stopped is given again by the operator.
    let ended = copying.wait();
    if ended.status.code() != Some(0) {
        println!("{}", ended.stderr);
        copy(&stage);
    }
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(assert_equal(&stage) > 180_000);
}

#[test]
fn what_can_not_be_copied_is_refused_by_name() {
    let stage = Stage::bare("CREATE TABLE item (id int PRIMARY KEY, v text)");
    let message = start_copy(&stage).fails();
    assert!(message.contains("ADD REPLICAT"), "{message}");
    stage.console(
        &stage
            .set_up()
            .replace("ADD EXTRACT e1, TRANLOG, BEGIN NOW", "")
            .replace("ADD EXTTRAIL ./dirdat/aa, EXTRACT e1", ""),
    );
    let message = start_copy(&stage).fails();
    assert!(
        message.contains("capture of group E1 is not registered") && message.contains("ADD EXTRACT E1"),
        "{message}"
    );
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1",
        stage.source.url()
    ));
    // Created with rows after the Extract was added: its changes are not captured before the operator has said so.
    stage.source.run("CREATE TABLE late AS SELECT 1 AS id; ALTER TABLE late ADD PRIMARY KEY (id)");
    let message = start_copy(&stage).fails();
    assert!(message.contains("public.late") && message.contains("not captured yet"), "{message}");
    stage.extract_parameters("TABLE *.*; TABLEEXCLUDE public.late;");
    stage.target.run("ALTER TABLE item DROP COLUMN v");
    let message = start_copy(&stage).fails();
    assert!(message.contains("the target has no column v"), "{message}");
    stage.target.run("DROP TABLE item");
    let message = start_copy(&stage).fails();
    assert!(message.contains("public.item") && message.contains("no such table"), "{message}");
}

#[test]
fn a_role_that_is_no_superuser_copies_tables_without_triggers() {
    let schema = "CREATE TABLE item (id int PRIMARY KEY, v text); CREATE TABLE watched (id int PRIMARY KEY);";
    let stage = Stage::bare(schema);
    stage.source.run("INSERT INTO item VALUES (1, 'a'); INSERT INTO watched VALUES (1)");
    stage.target.run(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fired'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION public.refuse()",
    );
    stage.add_groups();
    let role = format!("copier_{}", stage.target.database);
    stage.target.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON item, watched, signal TO {role}; \
         GRANT ALL ON public.checkpoints, public.checkpoints_lox TO {role}; GRANT CREATE, USAGE ON SCHEMA public TO {role}"
    ));
    let url = stage.target.url_of(&role);
    stage.parameters("r1", &format!("REPLICAT r1\nTARGETDB {url}\nMAP *.*, TARGET *.*;\n"));
    let message = start_copy(&stage).fails();
    assert!(message.contains("trigger refuse") && message.contains("GRANT SET ON PARAMETER"), "{message}");
    // With the right, the trigger does not fire.
    stage.target.run(&format!("GRANT SET ON PARAMETER session_replication_role TO {role}"));
    copy(&stage);
    assert_eq!(assert_equal(&stage), 2);
}

#[test]
fn copied_rows_are_not_captured_at_the_target() {
    let stage = Stage::bare("CREATE TABLE item (id int PRIMARY KEY, v text)");
    stage.source.run("INSERT INTO item SELECT n, 'a' FROM generate_series(1, 50) AS n");
    stage.add_groups();
    // An Extract that captures the target, as in a two-way set-up.
    stage.parameters("e2", &format!("EXTRACT e2\nSOURCEDB {}\nEXTTRAIL ./dirdat/bb\nTABLE *.*;\n", stage.target.url()));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{}'; ADD EXTRACT e2, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/bb, EXTRACT e2",
        stage.target.url()
    ));
    copy(&stage);
    stage.target.run("INSERT INTO item VALUES (1000, 'by a user')");
    let mut command = drover();
    command.args(["extract", "e2", "--home"]).arg(stage.home());
    let extract = Running::start(command);
    let records = || {
        let file = stage.home().join("dirdat/bb000000000");
        let text = crate::stage::trail_show(&file);
        text.contains("by a user").then_some(text)
    };
    let text = crate::stage::eventually("the user's row is captured", records);
    let inserts: Vec<&str> = text.lines().filter(|line| line.contains(" INSERT ")).collect();
    assert_eq!(inserts.len(), 1, "the copied rows are left out: {inserts:#?}");
    extract.stop();
    stage.target.run(&format!(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{}'",
        stage.target.database
    ));
}

#[test]
fn a_copy_ends_equal_whatever_is_killed_meanwhile() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pair = Pair::start(&[]);
    let more: String = (0..8).map(|n| format!("CREATE TABLE more_{n} (id int PRIMARY KEY, filler text);")).collect();
    let stage = Stage::on(&pair.source, &pair.target, &format!("{SCHEMA}{more}"));
    fill(&stage.source, 60_000);
    for n in 0..8 {
        stage
            .source
            .run(&format!("INSERT INTO more_{n} SELECT n, repeat('z', 50) FROM generate_series(1, 60000) AS n"));
    }
    stage.add_groups();
    let start = Instant::now();
    let left = || seconds().saturating_sub(start.elapsed().as_secs());
    let mut work = writers(&stage.source, left().max(1), seed);
    let (mut extract, mut copying) = (stage.extract(), start_copy(&stage));
    let mut kills = [0; 4];
    let complete = |stage: &Stage<'_>| {
        stage.target.holds("SELECT FROM public.checkpoints_copy HAVING count(*) > 0 AND count(*) = count(csn)")
    };
    while left() > 0 && !complete(&stage) {
        // The moment of a kill is the test's input.
        std::thread::sleep(Duration::from_millis(random.u64(0..900)));
        let victim = [0, 0, 0, 0, 1, 2, 3][random.usize(0..7)];
        kills[victim] += 1;
        match victim {
            0 => {
                copying.kill();
                copying = start_copy(&stage);
            }
            1 => {
                extract.kill();
                extract = stage.extract();
            }
            2 => {
                stage.source.cluster.kill();
                stage.source.cluster.start_again();
            }
            _ => {
                stage.target.cluster.kill();
                stage.target.cluster.start_again();
            }
        }
        if work.try_wait().expect("its status").is_some() && left() > 0 {
            work = writers(&stage.source, left(), random.u64(..1_000_000));
        }
    }
    println!("killed: copy {}, Extract {}, source {}, target {}", kills[0], kills[1], kills[2], kills[3]);
    let ended = copying.wait();
    // One that was killed in the middle of its last answer is told by the next.
    if ended.status.code() != Some(0) {
        println!("{}", ended.stderr);
        copy(&stage);
    }
    let replicat = stage.replicat();
    work.wait().expect("pgbench ends");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(assert_equal(&stage) > 400_000);
    let moments = stage.target.run("SELECT count(DISTINCT csn) FROM public.checkpoints_copy");
    println!("tables stem from {moments} moments");
    // No slot but the Extract's is left at the source.
    assert_eq!(stage.source.run("SELECT count(*) FROM pg_replication_slots"), "1");
}
