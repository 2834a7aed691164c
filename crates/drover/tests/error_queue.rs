//! The error queue of a SQLite target.

use crate::stage::{EXTRACT, REPLICAT, SET_UP, Stage, eventually, number, query, rows};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, n INTEGER) STRICT;
                      CREATE TABLE u (id INTEGER PRIMARY KEY, v, w BLOB);";

fn stage(rules: &str) -> Stage {
    let stage = Stage::bare("");
    stage.source().execute_batch(SCHEMA).expect("tables");
    stage.target().execute_batch(&SCHEMA.replace("n INTEGER)", "n INTEGER, CHECK (n < 500))")).expect("tables");
    stage.parameters("e1", EXTRACT);
    stage.parameters("r1", &REPLICAT.replace("MAP main.*", &format!("{rules}\nMAP main.*")));
    stage.console(SET_UP);
    stage.console("DBLOGIN SOURCEDB sqlite:../target.db; ADD ERRORQUEUE");
    stage
}

fn queue(stage: &Stage, commands: &str) -> String {
    stage.console(&format!("DBLOGIN SOURCEDB sqlite:../target.db\n{commands}"))
}

#[test]
fn a_refused_transaction_is_parked_and_executed_after_it_was_edited() {
    let stage = stage("REPERROR (CONSTRAINT, TRANSQUEUE HOLD)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let source = stage.source();
    let target = stage.target();
    let parked = |count: i64| {
        eventually("the transactions are parked", || {
            extract.assert_running();
            replicat.assert_running();
            (number(&target, "SELECT count(*) FROM drover_deferror") == count).then_some(())
        });
    };
    let transaction: String =
        (1..=1000).map(|n| format!("INSERT INTO t VALUES ({n}, 'r', {});", n.min(500) - n / 501)).collect();
    source
        .execute_batch(&format!(
            "BEGIN; {transaction} INSERT INTO u VALUES (1, 1.5, x'00ff'), (2, 'text', NULL), (3, 7, 'a'); COMMIT"
        ))
        .expect("rows");
    parked(1);
    assert_eq!(number(&target, "SELECT count(*) FROM t") + number(&target, "SELECT count(*) FROM u"), 0);
    assert_eq!(number(&target, "SELECT count(*) FROM drover_defcall"), 1003);
    assert_eq!(number(&target, "SELECT callno FROM drover_deferror"), 499);
    source.execute_batch("UPDATE t SET v = 's' WHERE id = 7").expect("an update");
    parked(2);
    source.execute_batch("INSERT INTO t VALUES (2000, 'free', 1)").expect("an insert");
    eventually("a row that depends on nothing arrives", || {
        (number(&target, "SELECT count(*) FROM t") == 1).then_some(())
    });
    let ids = query(&target, "SELECT deferred_tran_id FROM drover_error_transaction ORDER BY rba").concat();
    let id = ids[0].trim_start_matches("text \"").trim_end_matches('"');
    let shown = queue(&stage, &format!("INFO ERROR {id}"));
    assert!(shown.contains("Call 499 insert main.t   <- refused"), "{shown}");
    let message = stage.console_refuses("DBLOGIN SOURCEDB sqlite:../target.db; EXECUTE ERRORS");
    assert!(message.contains("2 transactions are still in the error queue"), "{message}");
    queue(&stage, &format!("ALTER ERROR {id}, CALL 499, COLUMN n, VALUE 499"));
    let done = queue(&stage, "EXECUTE ERRORS");
    assert!(done.contains("ERRORS executed: 2, left: 0."), "{done}");
    source.execute_batch("UPDATE t SET n = 499 WHERE id = 500").expect("the same at the source");
    eventually("both sides are equal", || {
        (rows(&source, "t") == rows(&target, "t") && rows(&source, "u") == rows(&target, "u")).then_some(())
    });
    extract.stop();
    replicat.stop();
    let report = stage.text("dirrpt/R1.rpt");
    assert!(report.contains("Filtered because in the error queue: 1004") && report.contains("DRV-00900"), "{report}");
    // Ours are no tables of the user's.
    assert!(!stage.console("INFO ALL").is_empty());
    let queue_gone = queue(&stage, "DELETE ERRORQUEUE !");
    assert!(queue_gone.contains("dropped"), "{queue_gone}");
    assert_eq!(
        number(&target, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'drover_err%' OR name LIKE 'drover_def%'"),
        0
    );
}

#[test]
fn an_error_queue_that_is_made_in_a_captured_database_puts_no_table_in_doubt() {
    let stage = stage("REPERROR (CONSTRAINT, TRANSQUEUE)");
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'before', 1)").expect("a row");
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; ADD CHECKPOINTTABLE main.positions; ADD ERRORQUEUE");
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'behind', 2)").expect("a row");
    stage.replicate(&["t", "u"]);
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; DELETE ERRORQUEUE !");
    stage.source().execute_batch("INSERT INTO t VALUES (3, 'last', 3)").expect("a row");
    stage.replicate(&["t", "u"]);
    let log = stage.event_log();
    assert!(!log.contains("sent again"), "{log}");
}
