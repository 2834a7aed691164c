//! What parameter files say about tables, transactions, triggers and foreign keys takes effect.

use crate::stage::{EXTRACT, REPLICAT, Stage, eventually, number, query};

#[test]
fn wildcards_and_exclusions_choose_tables_and_map_renames_them() {
    let schema = "
        CREATE TABLE sale_one (id INTEGER PRIMARY KEY, a); CREATE TABLE sale_two (id INTEGER PRIMARY KEY, a);
        CREATE TABLE sale_secret (id INTEGER PRIMARY KEY, a); CREATE TABLE Other (id INTEGER PRIMARY KEY, a);
        CREATE TABLE private (id INTEGER PRIMARY KEY, a);";
    let stage = Stage::bare(schema);
    stage
        .target()
        .execute_batch(
            "CREATE TABLE copy_one (id INTEGER PRIMARY KEY, a); CREATE TABLE copy_two (id INTEGER PRIMARY KEY, a);
             CREATE TABLE elsewhere (id INTEGER PRIMARY KEY, a);",
        )
        .expect("tables");
    stage.parameters(
        "e1",
        &EXTRACT.replace(
            "TABLE main.*;",
            "TABLEEXCLUDE main.private;\nTABLE main.sale_*;\nTABLE main.other;\nTABLE main.p*;",
        ),
    );
    stage.parameters(
        "r1",
        &REPLICAT.replace(
            "MAP main.*, TARGET main.*;",
            "MAPEXCLUDE main.sale_secret;\nMAP main.sale_*, TARGET main.copy_*;\nMAP MAIN.OTHER, TARGET main.elsewhere;",
        ),
    );
    stage.console(crate::stage::SET_UP);
    let source = stage.source();
    for table in ["sale_one", "sale_two", "sale_secret", "private", "Other"] {
        source.execute(&format!("INSERT INTO {table} VALUES (1, '{table}')"), []).expect("an insert");
    }
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let target = stage.target();
    eventually("the last row arrives", || {
        extract.assert_running();
        replicat.assert_running();
        (number(&target, "SELECT count(*) FROM elsewhere") == 1).then_some(())
    });
    extract.stop();
    replicat.stop();
    let names = "SELECT a FROM copy_one UNION ALL SELECT a FROM copy_two UNION ALL SELECT a FROM elsewhere";
    assert_eq!(query(&target, names), [["text \"Other\""], ["text \"sale_one\""], ["text \"sale_two\""]]);
    for table in ["sale_one", "sale_two", "sale_secret", "private", "Other"] {
        assert_eq!(number(&target, &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    // An excluded table is not even captured.
    let report = stage.text("dirrpt/E1.rpt");
    let (_, counts) = report.split_once("Run Time Statistics").expect("statistics");
    assert!(counts.contains("main.sale_secret") && !counts.contains("main.private"), "{report}");
}

#[test]
fn key_columns_of_the_operators_choice_find_rows() {
    let stage = Stage::bare("CREATE TABLE t (code TEXT UNIQUE, a)");
    stage.parameters("e1", &EXTRACT.replace("TABLE main.*;", "TABLE main.t, KEYCOLS (code);"));
    stage.parameters(
        "r1",
        &REPLICAT.replace("MAP main.*, TARGET main.*;", "MAP main.t, TARGET main.t, KEYCOLS (code);"),
    );
    stage.console(crate::stage::SET_UP);
    let source = stage.source();
    source.execute_batch("INSERT INTO t VALUES ('x', 1), ('y', 2)").expect("inserts");
    stage.replicate(&["t"]);
    // The target's own column does not hinder finding the row by its key.
    stage.target().execute_batch("UPDATE t SET a = 'local' WHERE code = 'x'").expect("an update");
    source.execute_batch("UPDATE t SET a = 3 WHERE code = 'x'; DELETE FROM t WHERE code = 'y'").expect("changes");
    stage.replicate(&["t"]);
}

/// Source transactions of the test for GROUPTRANSOPS, of one insert each.
const SMALL: i64 = 60;

/// Commits at the target that it takes to apply them.
fn target_commits(parameters: &str) -> i64 {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.parameters("r1", &REPLICAT.replace("MAP", &format!("DBOPTIONS NOSUPPRESSTRIGGERS\n{parameters}\nMAP")));
    stage.console(crate::stage::SET_UP);
    // Each commit changes the checkpoint row once: counting its updates counts commits.
    stage
        .target()
        .execute_batch(
            "CREATE TABLE commits (n INTEGER PRIMARY KEY);
             CREATE TRIGGER count_commits AFTER UPDATE ON checkpoints WHEN old.rba <> new.rba OR old.seqno <> new.seqno
             BEGIN INSERT INTO commits VALUES (NULL); END;",
        )
        .expect("a trigger");
    // The whole backlog is in the trail before the Replicat starts, so that it is never short of work. Capture may merge
    // transactions that it finds together, so each is awaited.
    let (extract, source) = (stage.extract(), stage.source());
    let written =
        || -> u64 { stage.trail_files().iter().map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum() };
    for id in 0..SMALL {
        let before = written();
        source.execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("an insert");
        eventually("the transaction is in the trail", || {
            extract.assert_running();
            (written() > before + 50).then_some(())
        });
    }
    extract.stop();
    let replicat = stage.replicat();
    let target = stage.target();
    eventually("the rows arrive", || {
        replicat.assert_running();
        (number(&target, "SELECT count(*) FROM t") == SMALL).then_some(())
    });
    replicat.stop();
    number(&target, "SELECT count(*) FROM commits")
}

#[test]
fn small_transactions_are_grouped_as_the_parameter_says() {
    let commits = ["GROUPTRANSOPS 1", "GROUPTRANSOPS 20", ""].map(target_commits);
    // A group ends early only where the trail does: at the end of a file, or of what there is.
    assert!((SMALL - 5..=SMALL + 2).contains(&commits[0]), "{commits:?}");
    assert!((3..=6).contains(&commits[1]), "{commits:?}");
    assert!((1..=3).contains(&commits[2]), "{commits:?}");
}

const AUDIT: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE audit (n INTEGER PRIMARY KEY, what);
    CREATE TRIGGER audit_t AFTER INSERT ON t BEGIN INSERT INTO audit (what) VALUES ('insert ' || new.id); END;";

#[test]
fn triggers_at_the_target_are_silent_unless_they_are_wanted() {
    let stage = Stage::new(AUDIT);
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x'), (2, 'y')").expect("inserts");
    // The audit rows arrive as changes of their own; a trigger that fired again would get in their way.
    stage.replicate(&["t", "audit"]);
    // The target's triggers are as they were: its own users still fire them.
    stage.target().execute_batch("INSERT INTO t VALUES (100, 'local')").expect("an insert");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit WHERE what = 'insert 100'"), 1);

    let stage = Stage::bare(AUDIT);
    stage.parameters("e1", &EXTRACT.replace("main.*", "main.t"));
    stage.parameters("r1", &REPLICAT.replace("MAP", "DBOPTIONS NOSUPPRESSTRIGGERS\nMAP"));
    stage.console(crate::stage::SET_UP);
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x'), (2, 'y')").expect("inserts");
    stage.replicate(&["t"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit"), 2);
}

#[test]
fn triggers_stay_silent_after_a_kill_and_come_back_with_a_clean_stop() {
    let stage = Stage::new(AUDIT);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.wait_until_equal(&["t", "audit"], &extract, &replicat);
    replicat.kill();
    // What apply does to silence triggers must not outlive it: the target's own users are not its business.
    stage.target().execute_batch("INSERT INTO t VALUES (100, 'local')").expect("an insert");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit WHERE what = 'insert 100'"), 1);
    stage
        .target()
        .execute_batch("DELETE FROM audit WHERE what = 'insert 100'; DELETE FROM t WHERE id = 100")
        .expect("a delete");
    let replicat = stage.replicat();
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'y')").expect("an insert");
    stage.wait_until_equal(&["t", "audit"], &extract, &replicat);
}

const FAMILY: &str = "
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent ON DELETE CASCADE);";

#[test]
fn foreign_keys_at_the_target_are_checked_only_when_they_are_wanted() {
    // Children only: their parents are not replicated.
    let run = |parameters: &str| {
        let stage = Stage::bare(FAMILY);
        stage.parameters("e1", &EXTRACT.replace("main.*", "main.child"));
        stage.parameters("r1", &REPLICAT.replace("MAP", &format!("{parameters}MAP")));
        stage.console(crate::stage::SET_UP);
        let orphan = "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)";
        stage.source().execute_batch(orphan).expect("inserts");
        stage
    };
    run("").replicate(&["child"]);

    let stage = run("DBOPTIONS CHECKFOREIGNKEYS\n");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("foreign key") && message.contains("DRV-"), "{message}");
    stage.target().execute_batch("INSERT INTO parent VALUES (1)").expect("an insert");
    let replicat = stage.replicat();
    stage.wait_until_equal(&["child"], &extract, &replicat);
}

#[test]
fn cascades_of_the_source_do_not_run_twice_at_the_target() {
    let stage = Stage::new(FAMILY);
    let source = stage.source();
    source
        .execute_batch(
            "INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 1), (3, 2);
             DELETE FROM parent WHERE id = 1;",
        )
        .expect("changes");
    stage.replicate(&["parent", "child"]);
    // Repaired by hand after foreign keys were off: the target follows the rows, not the rule.
    source.pragma_update(None, "foreign_keys", false).expect("foreign keys off");
    source.execute_batch("DELETE FROM parent WHERE id = 2").expect("a delete");
    stage.replicate(&["parent", "child"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM child"), 1);
}
