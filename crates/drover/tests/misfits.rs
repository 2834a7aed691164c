//! Rows that do not fit, at a SQLite target: each rule takes effect, and nothing is lost from the counters.

use crate::stage::{EXTRACT, REPLICAT, SET_UP, Stage, eventually, number, query};

const SCHEMA: &str = "\
    CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL, n INTEGER) STRICT;
    CREATE TABLE done (id INTEGER PRIMARY KEY) STRICT;";

/// Applies `changes` to the source under these MAP statements, over a target where `given` was run, and returns the stage
/// when everything is applied.
fn applied(rules: &str, given: &str, before: &str, changes: &str) -> Stage {
    let stage = Stage::bare(SCHEMA);
    stage
        .target()
        .execute_batch("CREATE TABLE refused (id INTEGER, v TEXT, n INTEGER, code TEXT, what TEXT)")
        .expect("it");
    stage.source().execute_batch(before).expect("rows that were there");
    stage.parameters("e1", &EXTRACT.replace("TABLE main.*;", "TABLE main.t;\nTABLE main.done;"));
    stage.parameters("r1", &REPLICAT.replace("MAP main.*, TARGET main.*;", rules));
    stage.console(SET_UP);
    stage.target().execute_batch(given).expect("rows of the target");
    let source = stage.source();
    source.execute_batch(&format!("BEGIN; {changes}; COMMIT")).expect("changes");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    // Neighbouring transactions of SQLite may be told as one: the signal waits until the changes are in the trail.
    eventually("the changes are in the trail", || stage.trail_shows("main.t").then_some(()));
    source.execute_batch("INSERT INTO done VALUES (1)").expect("the signal");
    let target = stage.target();
    eventually("the last transaction arrives", || {
        extract.assert_running();
        replicat.assert_running();
        (number(&target, "SELECT count(*) FROM done") == 1).then_some(())
    });
    extract.stop();
    replicat.stop();
    stage
}

const REST: &str = "MAP main.*, TARGET main.*;";

/// The row of the report's statistics for all operations: read, applied, filtered.
fn total(stage: &Stage) -> Vec<u64> {
    let report = stage.text("dirrpt/R1.rpt");
    let line = report.lines().rev().find(|line| line.starts_with("Total")).expect("a total");
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn rows(stage: &Stage) -> Vec<String> {
    query(&stage.target(), "SELECT id || ' ' || v || ' ' || n FROM t ORDER BY id").concat()
}

#[test]
fn a_refused_row_goes_where_its_error_is_sent() {
    let changes = "INSERT INTO t VALUES (1, 'theirs', 1), (2, 'theirs', 1)";
    // SQLite's own code of a violated primary key.
    for (response, discarded, excepted) in [
        ("REPERROR (1555, DISCARD)", 1, 0),
        ("REPERROR (DUPLICATE, EXCEPTION)", 0, 1),
        ("REPERROR (DEFAULT, IGNORE)", 0, 0),
        ("REPERROR (DUPLICATE, TRANSDISCARD)", 2, 0),
        ("REPERROR (DUPLICATE, TRANSEXCEPTION)", 0, 2),
    ] {
        let exceptions = "MAPEXCEPTION (TARGET main.refused, INSERTALLRECORDS, COLMAP (USEDEFAULTS, code = @GETENV \
                          ('LASTERR', 'DBERRNUM'), what = @GETENV ('LASTERR', 'OPTYPE')))";
        let rules = format!("{response}\nMAP main.t, TARGET main.t, {exceptions};\nMAP main.done, TARGET main.done;");
        let stage = applied(&rules, "INSERT INTO t VALUES (1, 'mine', 0)", "", changes);
        let whole = response.contains("TRANS");
        let expected: &[&str] =
            if whole { &["text \"1 mine 0\""] } else { &["text \"1 mine 0\"", "text \"2 theirs 1\""] };
        assert_eq!(rows(&stage), expected, "{response}");
        let file = std::fs::read_to_string(stage.home().join("dirrpt/R1.dsc")).unwrap_or_default();
        assert_eq!(file.matches("insert of main.t to main.t").count(), discarded, "{response}: {file}");
        assert_eq!(number(&stage.target(), "SELECT count(*) FROM refused"), excepted, "{response}");
        let coded = "SELECT count(*) FROM refused WHERE code = '1555' AND what = 'INSERT' AND v = 'theirs'";
        assert_eq!(number(&stage.target(), coded), excepted, "{response}");
        let dropped = if whole { 2 } else { 1 };
        assert_eq!(total(&stage), [3, 3 - dropped, dropped], "{response}");
    }
}

#[test]
fn collisions_and_conversions_take_effect() {
    for (rules, given, before, changes, expected) in [
        ("HANDLECOLLISIONS", "INSERT INTO t VALUES (1, 'old', 0)", "", "INSERT INTO t VALUES (1, 'new', 1)", "1 new 1"),
        ("HANDLECOLLISIONS", "", "INSERT INTO t VALUES (1, 'a', 0)", "UPDATE t SET id = 2", "2 a 0"),
        ("OVERRIDEDUPS", "INSERT INTO t VALUES (1, 'old', 0)", "", "INSERT INTO t VALUES (1, 'new', 1)", "1 new 1"),
        ("INSERTMISSINGUPDATES", "", "INSERT INTO t VALUES (1, 'a', 0)", "UPDATE t SET n = 5", "1 a 5"),
        ("INSERTUPDATES", "", "INSERT INTO t VALUES (1, 'a', 0)", "UPDATE t SET n = 5", "1 a 5"),
        ("INSERTDELETES", "", "INSERT INTO t VALUES (1, 'a', 7)", "DELETE FROM t", "1 a 7"),
        ("UPDATEINSERTS", "INSERT INTO t VALUES (1, 'old', 0)", "", "INSERT INTO t VALUES (1, 'new', 1)", "1 new 1"),
        (
            "UPDATEDELETES",
            "INSERT INTO t VALUES (1, 'old', 0)",
            "INSERT INTO t VALUES (1, 'a', 7)",
            "DELETE FROM t",
            "1 a 7",
        ),
    ] {
        let off = if rules == "UPDATEINSERTS" { "NOUPDATEINSERTS\n" } else { "" };
        let maps = format!("{rules}\nMAP main.t, TARGET main.t;\n{off}MAP main.done, TARGET main.done;");
        let stage = applied(&maps, given, before, changes);
        assert_eq!(rows(&stage), [format!("text \"{expected}\"")], "{rules}");
        let [read, written, filtered] = total(&stage)[..] else { panic!("a total") };
        assert_eq!(read, written + filtered, "{rules}");
    }
}

#[test]
fn conflicts_are_settled_as_the_map_says() {
    let rules = "MAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
                 RESOLVECONFLICT (UPDATEROWEXISTS, (d, USEDELTA, COLS (n)), (DEFAULT, OVERWRITE)), \
                 RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (n))), \
                 RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, OVERWRITE)), \
                 RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, IGNORE)), \
                 RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, IGNORE));\nMAP main.done, TARGET main.done;";
    let before = "INSERT INTO t VALUES (1, 'a', 10), (2, 'a', 10), (3, 'a', 10), (4, 'a', 10)";
    let given = "INSERT INTO t VALUES (1, 'mine', 20), (3, 'mine', 10), (5, 'mine', 1), (6, 'mine', 9)";
    let changes = "UPDATE t SET v = 'b', n = 15 WHERE id = 1; UPDATE t SET v = 'b' WHERE id = 2; DELETE FROM t WHERE id > 2; \
                   INSERT INTO t VALUES (5, 'theirs', 5), (6, 'theirs', 5)";
    let stage = applied(rules, given, before, changes);
    let expected = ["1 b 25", "2 b 10", "3 mine 10", "5 theirs 5", "6 mine 9"];
    assert_eq!(rows(&stage), expected.map(|row| format!("text \"{row}\"")));
    let report = stage.text("dirrpt/R1.rpt");
    for line in [
        "INSERTROWEXISTS conflicts of main.t: 2 resolved, 0 failed",
        "UPDATEROWMISSING conflicts of main.t: 1 resolved",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn a_discard_file_that_is_full_stops_the_group() {
    let stage = Stage::bare(SCHEMA);
    let rules = format!("DISCARDFILE ./dirrpt/small.dsc, PURGE, MEGABYTES 1\nREPERROR (DUPLICATE, DISCARD)\n{REST}");
    stage.parameters("r1", &REPLICAT.replace(REST, &rules));
    stage.console(SET_UP);
    stage.target().execute_batch("INSERT INTO t VALUES (1, 'mine', 0)").expect("a row");
    stage.source().execute_batch("INSERT INTO t VALUES (1, printf('%.*c', 1100000, 'x'), 1)").expect("a large row");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let message = replicat.fails();
    assert!(message.contains("DRV-00720") && message.contains("small.dsc"), "{message}");
    extract.stop();
    assert_eq!(query(&stage.target(), "SELECT v FROM t"), [["text \"mine\""]]);
}
