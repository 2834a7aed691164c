//! The error queue of a PostgreSQL target: transactions parked whole, held back, looked at, edited, executed.

use super::stage::Stage;
use crate::stage::{Running, eventually};

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric); ALTER TABLE t REPLICA IDENTITY FULL; \
                      CREATE TABLE u (id int PRIMARY KEY, v text);";

/// Both groups with these rules for table `t`, and an error queue at the target, whose table `t` takes no 500.
fn stage(rules: &str) -> Stage<'static> {
    let stage = Stage::bare(SCHEMA);
    stage.target.run("ALTER TABLE t ADD CONSTRAINT few CHECK (n < 500)");
    stage.extract_parameters("TABLE public.*;");
    stage.replicat_parameters(&format!("{rules}\nMAP public.*, TARGET public.*;"));
    stage.add_groups();
    queue(&stage, "ADD ERRORQUEUE");
    stage
}

/// Runs console commands on the target.
fn queue(stage: &Stage<'_>, commands: &str) -> String {
    stage.console(&format!("DBLOGIN SOURCEDB '{}'\n{commands}", stage.target.url()))
}

fn refused(stage: &Stage<'_>, commands: &str) -> String {
    stage.console_refuses(&format!("DBLOGIN SOURCEDB '{}'\n{commands}", stage.target.url()))
}

fn parked(stage: &Stage<'_>) -> Vec<String> {
    let ids =
        stage.target.run("SELECT string_agg(deferred_tran_id, ',' ORDER BY rba, seqno) FROM drover.error_transaction");
    ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

fn wait_for_parked(stage: &Stage<'_>, number: usize, running: &[&Running]) {
    eventually("the transactions are parked", || {
        running.iter().for_each(|group| group.assert_running());
        (parked(stage).len() >= number).then_some(())
    });
}

#[test]
fn a_transaction_that_violates_a_check_is_parked_and_executed_once_its_cause_is_gone() {
    let stage = stage("REPERROR (CONSTRAINT, TRANSQUEUE)");
    let script: String =
        (1..=1000).map(|n| format!("INSERT INTO t VALUES ({n}, 'r', {});", n % 1000 / 500 * n % 501)).collect();
    // Row 500 has 500, all others less.
    assert_eq!((1..=1000).filter(|n| n % 1000 / 500 * n % 501 >= 500).count(), 1);
    stage.source.script(&script);
    stage.replicate();
    assert_eq!(stage.target.run("SELECT count(*), count(*) FILTER (WHERE id = 500) FROM t"), "999|0");
    let report = stage.text("dirrpt/R1.rpt");
    assert!(report.contains("Filtered because in the error queue: 1"), "{report}");
    assert!(report.contains("DRV-00900") && report.contains("23514"), "{report}");
    assert_eq!(stage.target.run("SELECT errcount, destination FROM drover.deferrcount"), "1|R1");
    let id = &parked(&stage)[0];
    let told = stage.target.run("SELECT deferred_tran_id, callno, error_number, origin_tran_db FROM drover.deferror");
    assert_eq!(told, format!("{id}|0|23514|{}", stage.source.database));
    assert_eq!(
        stage.target.run("SELECT callno, schemaname, packagename, procname, new_values FROM drover.defcall"),
        "0|public|t|insert|{\"id\": \"500\", \"v\": \"r\", \"n\": \"500\"}"
    );
    assert!(queue(&stage, "INFO ERRORS").contains(id), "{id}");
    let shown = queue(&stage, &format!("INFO ERROR {id}"));
    assert!(shown.contains("Call 0 insert public.t   <- refused") && shown.contains("23514"), "{shown}");
    assert!(queue(&stage, "INFO ERRORQUEUE").contains("R1"));

    let message = refused(&stage, &format!("EXECUTE ERROR {id}"));
    assert!(message.contains("few") && message.contains("nothing was changed"), "{message}");
    assert_eq!(parked(&stage).len(), 1);
    stage.target.run("ALTER TABLE t DROP CONSTRAINT few");
    let trial = queue(&stage, &format!("EXECUTE ERROR {id}, TRIAL"));
    assert!(trial.contains("before   no row") && trial.contains("\"n\": \"500\""), "{trial}");
    assert_eq!((parked(&stage).len(), stage.target.run("SELECT count(*) FROM t").as_str()), (1, "999"));
    let done = queue(&stage, &format!("EXECUTE ERROR {id}"));
    assert!(done.contains("executed: 1 calls written"), "{done}");
    assert!(parked(&stage).is_empty());
    assert_eq!(stage.target.run("SELECT count(*) FROM drover.error_call"), "0");
    assert_eq!(stage.target.run("SELECT count(*) FROM drover.error_key"), "0");
    stage.assert_equal();
}

#[test]
fn a_transaction_is_parked_whole_with_old_new_and_current_values() {
    let stage = stage("REPERROR (DEFAULT, TRANSQUEUE)");
    stage.source.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run("UPDATE t SET v = 'mine' WHERE id = 1");
    stage.source.run(
        "BEGIN; UPDATE t SET v = 'new' WHERE id = 1; DELETE FROM t WHERE id = 3; INSERT INTO u VALUES (1, E'q\"\\n'); \
         INSERT INTO t VALUES (4, 'd', 600); COMMIT",
    );
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_eq!(
        stage.target.run("SELECT string_agg(id || coalesce(v, '-'), ',' ORDER BY id) FROM t"),
        "1mine,2b,3-",
        "nothing of it is applied"
    );
    assert_eq!(stage.target.run("SELECT count(*) FROM u"), "0");
    let calls = stage.target.run(
        "SELECT string_agg(concat_ws(' ', callno, procname, packagename, old_values ->> 'v', new_values ->> 'v', \
         current_values ->> 'v'), ';' ORDER BY callno) FROM drover.defcall",
    );
    assert_eq!(calls, "0 update t a new mine;1 delete t;2 insert u q\"\n;3 insert t d");
    assert_eq!(stage.target.run("SELECT callno FROM drover.deferror"), "3", "the call that was refused");

    // Edited, it goes in; the row that was changed at the target is found by its key.
    let id = &parked(&stage)[0];
    queue(&stage, &format!("ALTER ERROR {id}, CALL 3, COLUMN n, VALUE 60\nALTER ERROR {id}, CALL 0, COLUMN v, NULL"));
    assert!(refused(&stage, &format!("ALTER ERROR {id}, CALL 9, COLUMN n, VALUE 1")).contains("no call 9"));
    assert!(refused(&stage, &format!("ALTER ERROR {id}, CALL 3, COLUMN x, VALUE 1")).contains("no column x"));
    queue(&stage, "EXECUTE ERRORS, REPLICAT r1");
    assert_eq!(stage.target.run("SELECT string_agg(concat(id, v, n), ',' ORDER BY id) FROM t"), "11,2b2,4d60");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
}

/// A chain: a refused insert, an update of its row, and one of another row.
const CHAIN: [&str; 3] =
    ["INSERT INTO t VALUES (1, 'a', 600)", "UPDATE t SET v = 'b' WHERE id = 1", "INSERT INTO t VALUES (2, 'c', 2)"];

#[test]
fn transactions_that_depend_on_a_parked_one_are_held_back_behind_it_where_hold_says_so() {
    let stage = stage("REPERROR (CONSTRAINT, TRANSQUEUE HOLD)");
    CHAIN.iter().for_each(|statement| _ = stage.source.run(statement));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    // Without HOLD the update would have stopped the group: its row is missing.
    assert_eq!(stage.target.run("SELECT string_agg(id::text, ',') FROM t"), "2");
    let ids = parked(&stage);
    assert_eq!(
        stage.target.run("SELECT string_agg(error_number || ' ' || coalesce(held_behind, '-'), ',' ORDER BY rba) FROM drover.deferror"),
        format!("23514 -,HELD {}", ids[0])
    );
    // A restart knows what is parked, and a running group learns what was executed.
    extract.stop();
    replicat.stop();
    stage.source.run("UPDATE t SET v = 'd', n = 5 WHERE id = 1");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    let ids = parked(&stage);
    assert_eq!(ids.len(), 3);
    let message = refused(&stage, &format!("EXECUTE ERROR {}", ids[1]));
    assert!(message.contains(&format!("the older transaction {}", ids[0])), "{message}");
    let message = refused(&stage, "EXECUTE ERRORS");
    assert!(message.contains("3 transactions are still in the error queue"), "{message}");
    stage.target.run("ALTER TABLE t DROP CONSTRAINT few");
    let done = queue(&stage, "EXECUTE ERRORS");
    assert!(done.contains("ERRORS executed: 3, left: 0."), "{done}");
    stage.source.run("UPDATE t SET v = 'e' WHERE id = 1");
    stage.wait_for_signal(&[&extract, &replicat]);
    assert!(parked(&stage).is_empty());
    stage.assert_equal();
    extract.stop();
    replicat.stop();
}

#[test]
fn one_that_depends_on_a_refused_one_is_left_and_the_others_go_on() {
    let stage = stage("REPERROR (CONSTRAINT, TRANSQUEUE HOLD)");
    stage.source.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)");
    for change in ["n = 600 WHERE id = 1", "n = 5 WHERE id = 1", "n = 700 WHERE id = 2"] {
        stage.source.run(&format!("UPDATE t SET {change}"));
    }
    stage.replicate();
    let ids = parked(&stage);
    assert_eq!(ids.len(), 3);
    queue(&stage, &format!("ALTER ERROR {}, CALL 0, COLUMN n, VALUE 7", ids[2]));
    // The second would go in by itself, and the first after it: the row would end with an old value.
    let message = refused(&stage, "EXECUTE ERRORS");
    assert!(message.contains("2 transactions are still in the error queue"), "{message}");
    assert_eq!(parked(&stage), ids[..2]);
    assert_eq!(stage.target.run("SELECT string_agg(n::text, ',' ORDER BY id) FROM t"), "1,7");
    stage.target.run("ALTER TABLE t DROP CONSTRAINT few");
    queue(&stage, "EXECUTE ERRORS");
    assert_eq!(stage.target.run("SELECT string_agg(n::text, ',' ORDER BY id) FROM t"), "5,7");
}

#[test]
fn transactions_that_depend_on_a_parked_one_fail_after_it_where_nothing_else_is_said() {
    let stage = stage("REPERROR (DEFAULT, TRANSQUEUE)");
    CHAIN.iter().for_each(|statement| _ = stage.source.run(statement));
    stage.replicate();
    assert_eq!(
        stage.target.run("SELECT string_agg(error_number || ' ' || coalesce(held_behind, '-'), ',' ORDER BY rba) FROM drover.deferror"),
        "23514 -,MISSING -"
    );
    stage.target.run("ALTER TABLE t DROP CONSTRAINT few");
    queue(&stage, "EXECUTE ERRORS");
    stage.assert_equal();
}

#[test]
fn a_violation_that_is_found_at_commit_is_answered_for_the_whole_transaction() {
    for (response, kept, parked_number, discarded) in
        [("TRANSQUEUE", "1,3", 1, 0), ("TRANSDISCARD", "1,3", 0, 2), ("TRANSABORT MAXRETRIES 1", "1", 0, 0)]
    {
        let stage = stage(&format!("DBOPTIONS CHECKFOREIGNKEYS\nREPERROR (FOREIGNKEY, {response})"));
        stage.target.run("ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t DEFERRABLE INITIALLY DEFERRED");
        stage.source.run("INSERT INTO t VALUES (1, 'a', 1)");
        stage.source.run("BEGIN; INSERT INTO t VALUES (2, 'b', 2); INSERT INTO u VALUES (9, 'no parent'); COMMIT");
        stage.source.run("INSERT INTO t VALUES (3, 'c', 3)");
        if response.starts_with("TRANSABORT") {
            let (extract, replicat) = (stage.extract(), stage.replicat());
            let message = replicat.fails();
            assert!(message.contains("DRV-00703"), "{message}");
            extract.stop();
        } else {
            stage.replicate();
        }
        assert_eq!(stage.target.run("SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), kept, "{response}");
        assert_eq!(parked(&stage).len(), parked_number, "{response}");
        let file = std::fs::read_to_string(stage.home().join("dirrpt/R1.dsc")).unwrap_or_default();
        assert_eq!(file.matches(" to public.").count(), discarded, "{response}: {file}");
        if parked_number == 1 {
            stage.target.run("INSERT INTO t VALUES (9, 'parent', 9)");
            queue(&stage, "EXECUTE ERRORS");
            assert_eq!(stage.target.run("SELECT count(*) FROM u"), "1");
        }
    }
}

#[test]
fn a_transaction_is_parked_in_the_target_transaction_that_moves_the_position() {
    let stage = stage("REPERROR (DEFAULT, TRANSQUEUE)");
    stage.source.run("INSERT INTO t VALUES (1, 'a', 600)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    wait_for_parked(&stage, 1, &[&extract, &replicat]);
    assert_eq!(
        stage.target.run(
            "WITH rows AS (SELECT xmin FROM drover.error_transaction UNION ALL SELECT xmin FROM drover.error_call \
                           UNION ALL SELECT xmin FROM drover.error_key) \
             SELECT count(DISTINCT xmin::text), count(DISTINCT xmin::text) FILTER (WHERE xmin::text IN \
                    (SELECT xmin::text FROM public.checkpoints WHERE group_name = 'R1')) FROM rows"
        ),
        "1|1"
    );
    // Whatever is killed, each transaction is either parked once or applied.
    let rows = |from: i32| -> String {
        (from..from + 300)
            .map(|n| format!("INSERT INTO t VALUES ({n}, 'r', {});", if n % 10 == 0 { 600 } else { 1 }))
            .collect()
    };
    stage.source.script(&rows(1001));
    let replicat = {
        replicat.kill();
        stage.replicat()
    };
    stage.source.script(&rows(2001));
    let extract = {
        extract.kill();
        stage.extract()
    };
    wait_for_parked(&stage, 20, &[&extract, &replicat]);
    replicat.kill();
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_eq!(parked(&stage).len(), 61);
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "540");
    extract.stop();
    replicat.stop();
}

#[test]
fn a_group_that_parks_does_not_start_without_an_error_queue() {
    let stage = stage("REPERROR (DEFAULT, TRANSQUEUE)");
    stage.source.run("INSERT INTO t VALUES (1, 'a', 600)");
    stage.replicate();
    assert!(refused(&stage, "DELETE ERRORQUEUE").contains("holds 1 transactions"));
    let deleted = queue(&stage, "DELETE ERRORS !\nDELETE ERRORQUEUE !");
    assert!(deleted.contains("deleted.") && deleted.contains("ERRORQUEUE dropped"), "{deleted}");
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00901") && message.contains("ADD ERRORQUEUE"), "{message}");
    assert!(refused(&stage, "INFO ERRORS").contains("there is no error queue"));
}

#[test]
fn a_conflict_stays_in_the_log_when_its_transaction_is_rolled_back() {
    let rules = "MAP public.t, TARGET public.t, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
                 RESOLVECONFLICT (UPDATEROWEXISTS, (d, USEDELTA, COLS (n)), (DEFAULT, USEMAX (n)));";
    let stage = stage(&format!("REPERROR (MISSING, ABEND)\n{rules}"));
    stage.source.run("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run("UPDATE t SET v = 'mine', n = 20; DELETE FROM t WHERE id = 2");
    stage.source.run("UPDATE t SET n = 15 WHERE id = 1");
    stage.wait_for_signal(&[&extract, &replicat]);
    let settled = "SELECT string_agg(concat_ws(' ', conflict_type, reference_name, method_name, resolution, old_values ->> 'n', \
                   new_values ->> 'n', current_values ->> 'n', primary_key_value), ';' ORDER BY reference_name) FROM drover.conflict";
    let told = stage.target.run(settled);
    assert!(told.contains("UPDATEROWEXISTS d USEDELTA merged 10 15 20 {\"id\": \"1\"}"), "{told}");
    assert_eq!(
        stage.target.run("SELECT oname, method_name FROM drover.represolution_statistics WHERE reference_name = 'd'"),
        "t|USEDELTA"
    );
    stage.source.run("UPDATE t SET n = 16 WHERE id = 2");
    let message = replicat.fails();
    assert!(message.contains("UPDATEROWMISSING") || message.contains("DRV-00701"), "{message}");
    assert_eq!(
        stage.target.run(
            "SELECT conflict_type, resolution, new_values ->> 'n' FROM drover.conflict WHERE resolution = 'unresolved'"
        ),
        "UPDATEROWMISSING|unresolved|16"
    );
    extract.stop();
}
