//! Sequences whose values a target can go on from.

use super::stage;
use crate::postgres::stage::Stage;

const SCHEMA: &str = "
    CREATE TABLE t (id bigserial PRIMARY KEY, v text);
    CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY (INCREMENT 10) PRIMARY KEY, v int);
    CREATE SEQUENCE downward INCREMENT -1 MAXVALUE 1000 START 1000;
    CREATE SEQUENCE round MAXVALUE 5 CYCLE; CREATE SEQUENCE cached CACHE 100; CREATE SEQUENCE other;
    CREATE TABLE d (id int PRIMARY KEY, c int, r int)";

#[test]
fn a_target_that_takes_over_goes_on_behind_every_number_that_it_has() {
    let stage = Stage::bare(SCHEMA);
    stage.extract_parameters("SEQUENCE public.*;\nSEQUENCE pg_temp.nothing;\nTABLE *.*;");
    stage.replicat_parameters("MAP *.*, TARGET *.*;\nMAPEXCLUDE public.other;");
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    for round in 0..5 {
        stage.source.script(&format!(
            "INSERT INTO t (v) SELECT 'x' FROM generate_series(1, 50); INSERT INTO i (v) VALUES ({round});
             BEGIN; INSERT INTO t (v) VALUES ('back'); ROLLBACK; SELECT nextval('other');
             INSERT INTO d VALUES (nextval('downward'), nextval('cached'), nextval('round'));"
        ));
        stage.wait_for_signal(&[&extract, &replicat]);
        // With the groups at work, as after a failure of the source at any moment.
        let behind = "SELECT (SELECT last_value FROM t_id_seq) >= (SELECT max(id) FROM t), (SELECT last_value FROM i_id_seq) >= (SELECT max(id) FROM i), \
                      (SELECT last_value FROM downward) <= (SELECT min(id) FROM d), (SELECT last_value FROM cached) >= (SELECT max(c) FROM d)";
        assert_eq!(stage.target.run(behind), "t|t|t|t");
    }
    extract.kill();
    replicat.kill();
    stage.target.script(
        "INSERT INTO t (v) SELECT 'ours' FROM generate_series(1, 10); INSERT INTO i (v) VALUES (0);
         INSERT INTO d VALUES (nextval('downward'), nextval('cached'), nextval('round'));",
    );
    assert_eq!(stage.target.run("SELECT count(*), min(id) > 250 FROM t WHERE v = 'ours'"), "10|t");
    assert_eq!(stage.target.run("SELECT max(id) FROM i"), "51");
    assert_eq!(stage.target.run("SELECT last_value, is_called FROM other"), "1|f");
    assert_eq!(stage.target.run("SELECT count(DISTINCT r) <= 5, count(*) FROM d"), "t|6");
}

#[test]
fn sequences_never_go_back_and_travel_with_large_transactions_too() {
    let stage = Stage::bare("CREATE TABLE t (id bigserial PRIMARY KEY, v text)");
    stage.source.run(&format!("ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'", stage.source.database));
    stage.extract_parameters("SEQUENCE *.*;\nTABLE *.*;");
    stage.add_groups();
    stage.target.run("SELECT setval('t_id_seq', 5000)");
    stage.source.run("INSERT INTO t (v) VALUES ('a')");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT last_value FROM t_id_seq"), "5000");
    stage.source.run("INSERT INTO t (v) SELECT repeat('x', 50) FROM generate_series(1, 20000)");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT last_value FROM t_id_seq"), "20001");
    // One that the target does not have is named.
    stage.source.run("CREATE SEQUENCE alone; SELECT nextval('alone'); INSERT INTO t (v) VALUES ('b')");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00756") && message.contains("public.alone"), "{message}");
    stage.target.run("CREATE SEQUENCE alone");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
}

#[test]
fn a_sequence_that_a_statement_makes_is_there_when_its_value_comes() {
    let stage = stage("", "DDL\nSEQUENCE *.*;");
    stage.source.script("CREATE TABLE made (id serial PRIMARY KEY, v int); INSERT INTO made (v) SELECT n FROM generate_series(1, 30) AS n;");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("INSERT INTO made (v) VALUES (0) RETURNING id"), "31");
}

#[test]
fn a_sequence_of_a_later_transaction_is_seen_early_and_told_again_behind_its_statement() {
    let stage = stage("", "DDL\nSEQUENCE *.*;");
    // The first of these commits is read when the sequence of the last is there already, and has been used.
    stage.source.script(
        "CREATE TYPE state AS ENUM ('new'); CREATE TABLE first (id int PRIMARY KEY); INSERT INTO first VALUES (1);",
    );
    stage.source.script("CREATE TABLE made (id bigserial PRIMARY KEY, v int); INSERT INTO made (v) SELECT n FROM generate_series(1, 30) AS n;");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT last_value, is_called FROM made_id_seq"), "30|t");
    assert_eq!(stage.target.run("INSERT INTO made (v) VALUES (0) RETURNING id"), "31");
}
