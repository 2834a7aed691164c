//! Triggers at the target: left out, firing, and asking who writes. PostgreSQL's cases stand in `postgres::from_remote`.

use crate::stage::{REPLICAT, Stage, number, query};

/// A table whose changes a trigger notes in another table, which is replicated too, unless a Replicat writes; and a trigger that
/// counts whoever writes.
const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);
    CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT);
    CREATE TABLE counter (n INTEGER);";

const TRIGGERS: &str = "
    CREATE TRIGGER note AFTER INSERT ON t WHEN NOT (SELECT from_remote FROM drover_from_remote)
        BEGIN INSERT INTO audit (what) VALUES ('insert of ' || NEW.id); END;
    CREATE TRIGGER counts AFTER INSERT ON t BEGIN INSERT INTO counter VALUES (NEW.id); END;";

fn stage(policy: &str) -> Stage {
    let stage = Stage::bare(SCHEMA);
    stage.parameters("e1", &crate::stage::EXTRACT.replace("TABLE main.*;", "TABLE main.t; TABLE main.audit;"));
    stage.parameters("r1", &REPLICAT.replace("MAP", &format!("{policy}\nMAP")));
    // A checkpoint table brings the view that triggers ask.
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; ADD CHECKPOINTTABLE main.unused");
    stage.console(crate::stage::SET_UP);
    for database in [stage.source(), stage.target()] {
        database.execute_batch(TRIGGERS).expect("triggers");
    }
    for id in 1..=7 {
        stage.source().execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("an insert");
    }
    stage.replicate(&["t", "audit"]);
    stage
}

#[test]
fn a_trigger_that_asks_leaves_a_replicats_rows_alone_and_its_own_table_is_replicated() {
    let stage = stage("DBOPTIONS NOSUPPRESSTRIGGERS");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit"), 7);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM counter"), 7, "triggers that do not ask fire");
    // A user at the target is noted; the mark is never seen outside.
    stage.target().execute("INSERT INTO t VALUES (100, 'local')", []).expect("an insert");
    let noted = query(&stage.target(), "SELECT what FROM audit WHERE what LIKE '%100'");
    assert_eq!(noted, [["text \"insert of 100\""]]);
    assert_eq!(number(&stage.target(), "SELECT from_remote FROM drover_from_remote"), 0);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM drover_remote"), 0);
}

#[test]
fn triggers_that_are_left_out_do_not_fire_at_all() {
    let stage = stage("DBOPTIONS SUPPRESSTRIGGERS");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit"), 7);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM counter"), 0);
    stage.target().execute("INSERT INTO t VALUES (100, 'local')", []).expect("an insert");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM counter"), 1, "those of users do");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM audit"), 8);
}
