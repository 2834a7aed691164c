//! What the target's own rules do to rows: checks, triggers, foreign keys, columns that are not the source's.

use super::stage::Stage;

#[test]
fn a_row_that_a_check_refuses_is_named_and_the_group_goes_on_once_it_is_mended() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, secret text)");
    // Nothing overtakes the bad row.
    stage.replicat_parameters("COMMIT_SERIALIZATION\nMAP *.*, TARGET *.*;");
    stage.target.run("ALTER TABLE t ADD CONSTRAINT no_evil CHECK (secret <> 'evil-value')");
    stage.source.run("INSERT INTO t VALUES (-1, 'before')");
    stage.source.run(
        "INSERT INTO t SELECT n, CASE n WHEN 500 THEN 'evil-value' ELSE 'good' END FROM generate_series(1, 1000) AS n",
    );
    stage.source.run("INSERT INTO t VALUES (2000, 'after')");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    for word in ["insert", "public.t", "id", "no_evil", "CSN", "next step"] {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(!message.contains("evil-value") && !stage.text("dirrpt/R1.rpt").contains("evil-value"), "{message}");
    // Whole transactions, up to the one with the bad row.
    assert_eq!(stage.target.run("SELECT * FROM t"), "-1|before");
    assert!(stage.console("INFO REPLICAT r1").contains("ABENDED"));
    stage.target.run("ALTER TABLE t DROP CONSTRAINT no_evil");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 1000);
}

#[test]
fn a_row_that_is_missing_or_there_already_stops_the_group_and_nothing_is_made_up() {
    for (at_target, at_source, word) in [
        ("DELETE FROM t WHERE id = 2", "UPDATE t SET a = 'new' WHERE id = 2", "missing"),
        ("DELETE FROM t WHERE id = 2", "DELETE FROM t WHERE id = 2", "missing"),
        ("INSERT INTO t VALUES (3, 'mine')", "INSERT INTO t VALUES (3, 'theirs')", "t_pkey"),
    ] {
        let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'a'), (2, 'b')");
        stage.add_groups();
        stage.target.run(at_target);
        stage.source.run(at_source);
        let extract = stage.extract();
        let message = stage.replicat().fails();
        assert!(message.contains("public.t") && message.contains(word), "{word:?} is not in: {message}");
        extract.stop();
    }
}

#[test]
fn triggers_and_foreign_keys_of_the_target_follow_the_policy() {
    let schema = "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int);";
    let rules = "ALTER TABLE child ADD CONSTRAINT child_of FOREIGN KEY (parent) REFERENCES parent;
                 CREATE TABLE fired (n int);
                 CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.fired VALUES (1); RETURN NEW; END';
                 CREATE TRIGGER noisy AFTER INSERT ON child FOR EACH ROW EXECUTE FUNCTION fire();";
    // By default neither runs: what the source has done is done.
    let stage = Stage::new(schema);
    stage.target.run(rules);
    stage.source.run("INSERT INTO child VALUES (1, 77)");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM child), (SELECT count(*) FROM fired)"), "1|0");

    let stage = Stage::new(schema);
    stage.target.run(rules);
    stage.replicat_parameters("DBOPTIONS NOSUPPRESSTRIGGERS, CHECKFOREIGNKEYS\nMAP *.*, TARGET *.*;");
    stage
        .source
        .run("INSERT INTO child VALUES (1, NULL); INSERT INTO parent VALUES (5); INSERT INTO child VALUES (2, 5)");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM child), (SELECT count(*) FROM fired)"), "2|2");
    stage.source.run("INSERT INTO child VALUES (3, 77)");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("child_of") && message.contains("public.child"), "{message}");
    stage.target.run("INSERT INTO parent VALUES (77)");
    stage.source.run("INSERT INTO parent VALUES (78)");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_eq!(stage.target.run("SELECT count(*) FROM child"), "3");
}

#[test]
fn references_in_circles_and_to_the_own_table_arrive_where_they_are_checked_too() {
    let schema = "
        CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree);
        CREATE TABLE husband (id int PRIMARY KEY, wife int); CREATE TABLE wife (id int PRIMARY KEY, husband int);
        ALTER TABLE husband ADD FOREIGN KEY (wife) REFERENCES wife DEFERRABLE INITIALLY DEFERRED;
        ALTER TABLE wife ADD FOREIGN KEY (husband) REFERENCES husband DEFERRABLE INITIALLY DEFERRED;";
    let stage = Stage::new(schema);
    stage.replicat_parameters("DBOPTIONS CHECKFOREIGNKEYS\nMAP *.*, TARGET *.*;");
    stage.source.run("INSERT INTO tree SELECT n, nullif(n / 2, 0) FROM generate_series(1, 200) AS n");
    stage.source.run("INSERT INTO husband SELECT n, n FROM generate_series(1, 50) AS n; INSERT INTO wife SELECT n, n FROM generate_series(1, 50) AS n");
    stage.source.run("DELETE FROM tree WHERE id > 100; UPDATE tree SET parent = 1 WHERE id > 50; DELETE FROM husband WHERE id = 7; DELETE FROM wife WHERE id = 7");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn columns_that_are_not_the_sources_are_filled_left_or_refused_by_name() {
    let stage = Stage::bare("");
    stage.source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int, total int GENERATED ALWAYS AS (b * 2) STORED);
         CREATE TABLE numbered (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text);
         CREATE TABLE only_numbers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         CREATE TABLE strict (id int PRIMARY KEY)",
    );
    stage.target.run(
        "CREATE TABLE t (total int GENERATED ALWAYS AS (b * 3) STORED, more text DEFAULT 'filled', b bigint, id bigint PRIMARY KEY, A varchar(10));
         CREATE TABLE numbered (a text, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         CREATE TABLE only_numbers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         CREATE TABLE strict (id int PRIMARY KEY, must text NOT NULL)",
    );
    stage.add_groups();
    stage.source.run("INSERT INTO t VALUES (1, 'x', 5), (2, 'y', 6); UPDATE t SET b = 7 WHERE id = 2");
    stage.source.run("INSERT INTO numbered (a) SELECT 'n' FROM generate_series(1, 20); UPDATE numbered SET a = 'm' WHERE id > 10; DELETE FROM numbered WHERE id = 3");
    stage.source.run("INSERT INTO only_numbers DEFAULT VALUES");
    stage.source.run("INSERT INTO only_numbers DEFAULT VALUES; DELETE FROM only_numbers WHERE id = 1");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT id, a, b, total, more FROM t ORDER BY id"), "1|x|5|15|filled\n2|y|7|21|filled");
    let numbered = "SELECT id, a FROM numbered ORDER BY id";
    assert_eq!(stage.target.run(numbered), stage.source.run(numbered));
    assert_eq!(stage.target.run("SELECT * FROM only_numbers"), "2");
    stage.source.run("INSERT INTO strict VALUES (1)");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("public.strict"), "{message}");
    stage.target.run("ALTER TABLE strict ALTER must SET DEFAULT ''");
    // A value that does not fit is refused, never cut.
    let replicat = stage.replicat();
    stage.source.run("UPDATE t SET a = 'far too long for it' WHERE id = 1");
    let message = replicat.fails();
    assert!(message.contains("public.t") && message.contains("update"), "{message}");
    assert_eq!(stage.target.run("SELECT a FROM t WHERE id = 1"), "x");
    extract.stop();
}

#[test]
fn a_target_that_was_put_back_is_noticed_and_gets_everything_again() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let insert = |from: i32| {
        for id in from..from + 10 {
            stage.source.run(&format!("INSERT INTO t VALUES ({id}, 'row')"));
        }
    };
    let (extract, replicat) = (stage.extract(), stage.replicat());
    insert(0);
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE TABLE was_t AS SELECT * FROM t; CREATE TABLE was_signal AS SELECT * FROM signal; \
         CREATE TABLE was_checkpoints AS SELECT * FROM checkpoints; COMMIT",
    );
    insert(10);
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run(
        "LOCK TABLE checkpoints IN EXCLUSIVE MODE; TRUNCATE t, signal; INSERT INTO t SELECT * FROM was_t; \
         INSERT INTO signal SELECT * FROM was_signal; DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM was_checkpoints; \
         DROP TABLE was_t, was_signal, was_checkpoints",
    );
    insert(20);
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_eq!(stage.assert_equal(), 33);
    let home = process::Home::open(stage.home()).expect("the home opens");
    let events = std::fs::read_to_string(home.event_log()).expect("the event log");
    assert!(events.contains("the target was put back"), "{events}");
}
