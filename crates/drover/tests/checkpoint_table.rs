//! The checkpoint table: scripts, commands, alterations, several homes. PostgreSQL's cases stand in `postgres::checkpoint_table`.

use crate::stage::{REPLICAT, Stage, drover, number, query};
use rusqlite::Connection;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";
const LOGIN: &str = "DBLOGIN SOURCEDB sqlite:../target.db;";

/// The tables as the version made them that knew no appliers.
const FIRST_FORM: &str = "
    CREATE TABLE main.\"old\" (
        GROUP_NAME VARCHAR(8) NOT NULL, GROUP_KEY BIGINT NOT NULL, SEQNO INTEGER, RBA BIGINT NOT NULL, AUDIT_TS VARCHAR(29),
        CREATE_TS TIMESTAMP NOT NULL, LAST_UPDATE_TS TIMESTAMP NOT NULL, CURRENT_DIR VARCHAR(255) NOT NULL,
        LOG_BSN VARCHAR(128), LOG_CSN VARCHAR(128), LOG_XID VARCHAR(128), LOG_CMPLT_CSN VARCHAR(128),
        LOG_CMPLT_XIDS VARCHAR(2000), VERSION INTEGER, PRIMARY KEY (GROUP_NAME, GROUP_KEY)
    );
    CREATE TABLE main.\"old_lox\" (
        GROUP_NAME VARCHAR(8) NOT NULL, GROUP_KEY BIGINT NOT NULL, LOG_CMPLT_CSN VARCHAR(128) NOT NULL,
        LOG_CMPLT_XIDS_SEQ INTEGER NOT NULL, LOG_CMPLT_XIDS VARCHAR(2000) NOT NULL,
        PRIMARY KEY (GROUP_NAME, GROUP_KEY, LOG_CMPLT_CSN, LOG_CMPLT_XIDS_SEQ)
    );";

fn insert(stage: &Stage, ids: std::ops::Range<i64>) {
    let source = stage.source();
    for id in ids {
        source.execute("INSERT INTO t VALUES (?1, 'row ' || ?1)", [id]).expect("an insert");
    }
}

#[track_caller]
fn assert_says(message: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(message.contains(word), "{word:?} is not in:\n{message}"));
}

fn columns(connection: &Connection, table: &str) -> Vec<Vec<String>> {
    let columns =
        query(connection, &format!("SELECT cid, name, type, \"notnull\", pk FROM pragma_table_info('{table}')"));
    assert!(!columns.is_empty(), "there is no {table}");
    columns
}

#[test]
fn the_script_of_the_home_makes_what_add_makes() {
    let stage = Stage::bare(SCHEMA);
    let script = stage.text("chkpt_sqlite_create.sql").replace("main.checkpoints", "main.scripted");
    let path = stage.path().join("create.sql");
    std::fs::write(&path, script).expect("a file");
    let made = Command::new("sqlite3")
        .arg(stage.path().join("target.db"))
        .arg(format!(".read {}", path.display()))
        .output()
        .expect("sqlite3 runs");
    assert!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    stage.console(&format!("{LOGIN} ADD CHECKPOINTTABLE main.added"));
    let target = stage.target();
    for end in ["", "_lox", "_grp"] {
        assert_eq!(columns(&target, &format!("scripted{end}")), columns(&target, &format!("added{end}")));
    }
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
         DBLOGIN SOURCEDB sqlite:../target.db; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.scripted",
    );
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    let shown = stage.console(&format!("{LOGIN} INFO CHECKPOINTTABLE main.scripted; INFO CHECKPOINTTABLE main.added"));
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert_eq!(lines[0], "Checkpoint table main.scripted exists.");
    assert!(shown.contains("R1 ") && shown.contains(&stage.home().display().to_string()), "{shown}");
    let today = query(&target, "SELECT date('now')")[0][0].replace("text ", "").replace('"', "");
    assert!(
        lines.last().expect("a line").starts_with(&format!("Checkpoint table main.added exists (created {today}")),
        "{shown}"
    );
    let missing = stage.console(&format!("{LOGIN} INFO CHECKPOINTTABLE main.nosuch"));
    assert_eq!(missing.lines().last(), Some("Checkpoint table main.nosuch does not exist."));
    // A home that was made by an earlier version gets the scripts from another init.
    std::fs::remove_file(stage.home().join("chkpt_sqlite_create.sql")).expect("the script");
    assert!(drover().arg("init").arg(stage.home()).status().expect("the binary runs").success());
    assert!(stage.text("chkpt_sqlite_create.sql").contains("LOG_CMPLT_XIDS"));
}

#[test]
fn columns_that_were_renamed_or_retyped_are_refused_by_name_and_more_columns_are_not() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..5);
    stage.replicate(&["t"]);
    let target = stage.target();
    target.execute_batch("ALTER TABLE checkpoints ADD COLUMN note TEXT").expect("a column more");
    insert(&stage, 5..10);
    stage.replicate(&["t"]);
    target.execute_batch("ALTER TABLE checkpoints RENAME COLUMN LOG_CSN TO high_csn").expect("another name");
    for message in [
        stage.replicat().fails(),
        stage.console_refuses(&format!(
            "{LOGIN} ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"
        )),
        stage.console(&format!("{LOGIN} INFO CHECKPOINTTABLE main.checkpoints")),
    ] {
        assert_says(&message, &["main.checkpoints", "LOG_CSN", "high_csn"]);
    }
    assert_says(&stage.replicat().fails(), &["DRV-00652", "next step"]);
    target.execute_batch("ALTER TABLE checkpoints RENAME COLUMN high_csn TO LOG_CSN").expect("its name");
    // SQLite retypes a column by making the table anew.
    let text = "SELECT sql FROM sqlite_schema WHERE name = 'checkpoints_lox'";
    let text: String = target.query_row(text, [], |row| row.get(0)).expect("its text");
    target
        .execute_batch(&format!("DROP TABLE checkpoints_lox; {}", text.replace("BIGINT", "TEXT")))
        .expect("another type");
    assert_says(&stage.replicat().fails(), &["DRV-00652", "GROUP_KEY", "main.checkpoints_lox", "TEXT", "BIGINT"]);
    target.execute_batch(&format!("DROP TABLE checkpoints_lox; {text}")).expect("its type");
    insert(&stage, 10..15);
    stage.replicate(&["t"]);
}

#[test]
fn a_row_that_was_altered_or_removed_stops_the_group_by_name() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
    let target = stage.target();
    target.execute_batch("CREATE TABLE kept AS SELECT * FROM checkpoints").expect("a copy");
    let put_back = "DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM kept";
    for (alteration, words) in [
        ("DELETE FROM checkpoints", &["DRV-00306", "R1"][..]),
        ("UPDATE checkpoints SET GROUP_KEY = GROUP_KEY + 1024", &["DRV-00306", "R1", "key"]),
        ("UPDATE checkpoints SET GROUP_NAME = 'R2'", &["DRV-00306", "R1"]),
        ("UPDATE checkpoints SET LOG_CMPLT_CSN = LOG_CSN || '9'", &["DRV-00653", "LOG_CSN", "LOG_CMPLT_CSN"]),
        ("UPDATE checkpoints SET LOG_CSN = NULL", &["DRV-00653", "NULL"]),
        (
            "UPDATE checkpoints SET LOG_CSN = '00000000000000000000', LOG_CMPLT_CSN = '00000000000000000000'",
            &["DRV-00653", "checkpoint file"],
        ),
        ("UPDATE checkpoints SET VERSION = 99", &["DRV-00303", "99"]),
        ("UPDATE checkpoints SET RBA = -5", &["DRV-00653", "RBA"]),
        ("UPDATE checkpoints SET LAST_UPDATE_TS = 'yesterday'", &["time stamp"]),
        ("DROP TABLE checkpoints", &["DRV-00307"]),
    ] {
        let before = query(&target, "SELECT LOG_CSN FROM kept");
        target.execute_batch(alteration).expect(alteration);
        let message = stage.replicat().fails();
        assert!(words.iter().all(|word| message.contains(word)), "{alteration}: {words:?} not in {message}");
        assert_eq!(number(&target, "SELECT count(*) FROM t"), 9, "nothing was applied");
        assert_eq!(query(&target, "SELECT LOG_CSN FROM kept"), before);
        if !alteration.starts_with("DROP") {
            target.execute_batch(put_back).expect("the row as it was");
        }
    }
    // A wrong place in the trail does no harm: the right one is found by the CSN.
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
    stage.target().execute_batch("UPDATE checkpoints SET SEQNO = 77, RBA = 99").expect("an update");
    insert(&stage, 10..20);
    stage.replicate(&["t"]);
}

#[test]
fn two_homes_may_have_one_group_name_in_one_table() {
    let stage = Stage::new(SCHEMA);
    let other = stage.path().join("other");
    assert!(drover().arg("init").arg(&other).status().expect("the binary runs").success());
    let trail = stage.home().join("dirdat/aa");
    let console = |commands: &str| {
        let output = drover().arg("--home").arg(&other).args(["-c", commands]).output().expect("the binary runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let add = format!("{LOGIN} ADD REPLICAT r1, EXTTRAIL '{}', CHECKPOINTTABLE main.checkpoints", trail.display());
    let (done, text) = console(&add);
    assert!(done, "{text}");
    std::fs::write(other.join("dirprm/r1.prm"), REPLICAT.replace("TARGET main.*", "TARGET main.copy_*"))
        .expect("parameters");
    stage.target().execute_batch("CREATE TABLE copy_t (id INTEGER PRIMARY KEY, a TEXT)").expect("a table");
    insert(&stage, 1..30);
    stage.replicate(&["t"]);
    let start = || {
        let mut command = drover();
        command.args(["replicat", "r1", "--home"]).arg(&other);
        crate::stage::Running::start(command)
    };
    let replicat = start();
    crate::stage::eventually("the other home has applied all", || {
        replicat.assert_running();
        (number(&stage.target(), "SELECT count(*) FROM copy_t") == 29).then_some(())
    });
    replicat.stop();
    let shown = stage.console(&format!("{LOGIN} INFO CHECKPOINTTABLE main.checkpoints"));
    assert_eq!(shown.lines().filter(|line| line.starts_with("R1 ")).count(), 2, "{shown}");
    let refused =
        stage.console_refuses(&format!("{LOGIN} DELETE REPLICAT r1; DELETE CHECKPOINTTABLE main.checkpoints !"));
    assert_says(&refused, &["main.checkpoints", "R1", &other.display().to_string()]);

    // What a group of this home left is cleaned up; the other home's row stays, and so do rows of groups that exist.
    stage.console(&format!("{LOGIN} ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"));
    stage.console(&format!("{LOGIN} ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"));
    stage.console("DELETE REPLICAT r1 !");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM checkpoints"), 3);
    let cleaned = stage.console(&format!("{LOGIN} CLEANUP CHECKPOINTTABLE main.checkpoints"));
    assert_says(&cleaned, &["Row of R1", "1 groups removed", "1 groups of other homes"]);
    let left = query(&stage.target(), "SELECT GROUP_NAME, CURRENT_DIR FROM checkpoints");
    let text = |path: &Path| format!("text {:?}", path.display().to_string());
    let expected = [["text \"R1\"".to_owned(), text(&other)], ["text \"R2\"".to_owned(), text(&stage.home())]];
    assert_eq!(left, expected);
    let cleaned = stage.console(&format!("{LOGIN} CLEANUP CHECKPOINTTABLE main.checkpoints"));
    assert_says(&cleaned, &["0 groups removed"]);
    insert(&stage, 30..40);
    let (extract, replicat) = (stage.extract(), start());
    crate::stage::eventually("the other home goes on", || {
        replicat.assert_running();
        (number(&stage.target(), "SELECT count(*) FROM copy_t") == 39).then_some(())
    });
    extract.stop();
    replicat.stop();
}

#[test]
fn a_table_of_the_first_form_is_upgraded_while_its_group_goes_on() {
    let stage = Stage::bare(SCHEMA);
    stage.target().execute_batch(FIRST_FORM).expect("the tables of the first form");
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
         DBLOGIN SOURCEDB sqlite:../target.db; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.old",
    );
    stage.target().execute_batch("UPDATE old SET VERSION = 1").expect("a row of the first form");
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
    let shown = stage.console(&format!("{LOGIN} INFO CHECKPOINTTABLE main.old"));
    assert_says(&shown, &["main.old exists.", "main.old_grp is missing", "UPGRADE CHECKPOINTTABLE main.old", "R1 "]);
    let upgraded =
        stage.console(&format!("{LOGIN} UPGRADE CHECKPOINTTABLE main.old; UPGRADE CHECKPOINTTABLE main.old"));
    let (_, upgraded) = upgraded.split_once('\n').expect("the line about the login");
    assert_eq!(
        upgraded,
        "CHECKPOINTTABLE main.old upgraded: table main.old_grp created.\n\
         CHECKPOINTTABLE main.old is of this version already.\n"
    );
    stage.console(&format!("{LOGIN} ADD CHECKPOINTTABLE main.new"));
    for end in ["", "_lox", "_grp"] {
        assert_eq!(columns(&stage.target(), &format!("old{end}")), columns(&stage.target(), &format!("new{end}")));
    }
    insert(&stage, 10..20);
    stage.replicate(&["t"]);
    assert_says(
        &stage.console_refuses(&format!("{LOGIN} UPGRADE CHECKPOINTTABLE main.t")),
        &["there is no checkpoint table main.t"],
    );
    stage.console(&format!("{LOGIN} DELETE REPLICAT r1; DELETE CHECKPOINTTABLE main.old !"));
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'old%'"), 0);
}

/// Starts R1 with options and runs it until the trail has nothing more for it.
fn replicat_with(stage: &Stage, options: &[&str], wanted: i64) {
    let mut command = drover();
    command.args(["replicat", "r1", "--home"]).arg(stage.home()).args(options);
    let replicat = crate::stage::Running::start(command);
    crate::stage::eventually("the rows are there", || {
        replicat.assert_running();
        (number(&stage.target(), "SELECT count(*) FROM t WHERE id > 0") == wanted).then_some(())
    });
    replicat.stop();
}

#[test]
fn a_replicat_starts_where_its_options_say() {
    let stage = Stage::new(SCHEMA);
    let capture = |ids: std::ops::Range<i64>| {
        let extract = stage.extract();
        for id in ids {
            insert(&stage, id..id + 1);
            extract_has(&stage, id);
        }
        extract.stop();
    };
    capture(1..5);
    stage.replicate(&["t"]);
    // The CSN that INFO shows is that of row 4.
    let shown = stage.console("INFO REPLICAT r1");
    let csn = |shown: &str| {
        let line = shown.lines().find(|line| line.starts_with("Last applied")).expect("the last applied transaction");
        line.split("CSN ").nth(1).and_then(|rest| rest.split(',').next()).expect("its CSN").to_owned()
    };
    let fourth = csn(&shown);
    // Another group of the same trail has applied nothing yet.
    stage.target().execute_batch("DELETE FROM t").expect("an empty table");
    stage.console(&format!(
        "{LOGIN} DELETE REPLICAT r1; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"
    ));
    let wrong = {
        let mut command = drover();
        command.args(["replicat", "r1", "--home"]).arg(stage.home()).args(["ATCSN", "77"]);
        crate::stage::Running::start(command).fails()
    };
    assert_says(&wrong, &["DRV-00654", "77", "digits"]);
    replicat_with(&stage, &["atcsn", &fourth, "nofilterduptransactions"], 1);
    assert_eq!(query(&stage.target(), "SELECT id FROM t"), [["integer 4"]]);
    let report = stage.text("dirrpt/R1.rpt");
    assert_says(
        &report,
        &[&format!("CSN {fourth}"), "left out before it, as asked for: 3", "left out at the start: 3"],
    );
    capture(5..8);
    replicat_with(&stage, &["SKIPTRANSACTION"], 3);
    assert_eq!(query(&stage.target(), "SELECT id FROM t"), [["integer 4"], ["integer 6"], ["integer 7"]]);
    let output = drover().args(["replicat", "r1", "--home"]).arg(stage.home()).arg("SKIP").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_says(&String::from_utf8_lossy(&output.stderr), &["SKIP", "SKIPTRANSACTION"]);
}

/// Waits until the trail holds row `id`.
fn extract_has(stage: &Stage, id: i64) {
    crate::stage::eventually("the trail holds the row", || stage.trail_shows(&format!("row {id}")).then_some(()));
}
