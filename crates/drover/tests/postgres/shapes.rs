//! Tables that change while they are captured: columns, types, partitions, truncations.

use super::stage::Stage;

/// Runs statements at the source one by one, with both groups killed and started again before each.
fn with_kills(stage: &Stage<'_>, statements: &[&str]) {
    for statement in statements {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.source.run(statement);
        stage.send_signal();
        extract.kill();
        replicat.kill();
    }
}

#[test]
fn a_column_that_comes_and_goes_inside_a_transaction_counts_from_its_place() {
    let schema = "CREATE TABLE t (id int PRIMARY KEY, a text, b int)";
    for kills in [false, true] {
        let stage = Stage::new(schema);
        // The target has the column before it is needed: DDL is not replicated.
        stage.target.run("ALTER TABLE t ADD d int");
        let transaction = "BEGIN; INSERT INTO t VALUES (1, 'x', 1); ALTER TABLE t ADD COLUMN d int DEFAULT 7; INSERT INTO t VALUES (2, 'y', 2, 8); \
             SAVEPOINT s; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (9, 'undone', 9); ROLLBACK TO s; \
             INSERT INTO t VALUES (3, 'z', 3, 9); UPDATE t SET d = d + 1; COMMIT";
        let later = [
            "INSERT INTO t (id, a) VALUES (4, 'later')",
            "ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (5, 'without', 5)",
            "ALTER TABLE t ADD COLUMN b int DEFAULT 1; UPDATE t SET b = 2 WHERE id > 3",
            "ALTER TABLE t ALTER a TYPE varchar(20), ALTER d TYPE bigint; INSERT INTO t VALUES (6, 'wide', 3000000000, 1)",
        ];
        let before = "ALTER TABLE t ALTER d TYPE bigint";
        stage.target.run(before);
        if kills {
            let mut all = vec![transaction];
            all.extend(later);
            with_kills(&stage, &all);
        } else {
            let (extract, replicat) = (stage.extract(), stage.replicat());
            stage.source.run(transaction);
            later.iter().for_each(|statement| drop(stage.source.run(statement)));
            stage.wait_for_signal(&[&extract, &replicat]);
        }
        stage.replicate();
        let rows = "SELECT id, a, d FROM t ORDER BY id";
        // A default that the source's DDL filled in is the DBA's to fill in at the target.
        assert_eq!(stage.source.run(&format!("{rows} OFFSET 1")), stage.target.run(&format!("{rows} OFFSET 1")));
        assert_eq!(stage.target.run("SELECT id, b FROM t WHERE id IN (1, 2, 3) ORDER BY id"), "1|1\n2|2\n3|3");
        assert_eq!(stage.target.run("SELECT count(*), count(*) FILTER (WHERE b = 2) FROM t"), "6|3");
    }
}

#[test]
fn a_column_that_the_target_does_not_have_stops_the_replicat_by_name_and_it_goes_on_once_it_is_there() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY)");
    stage.source.run("INSERT INTO t VALUES (1)");
    stage.source.run("ALTER TABLE t ADD extra text");
    stage.source.run("INSERT INTO t VALUES (2, 'x')");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    for word in ["public.t", "extra", "next step"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(stage.target.run("SELECT * FROM t"), "1");
    stage.target.run("ALTER TABLE t ADD extra text");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();
}

#[test]
fn an_enumeration_that_grows_while_it_is_used_arrives_with_its_new_value() {
    let stage = Stage::new(
        "CREATE TYPE mood AS ENUM ('sad'); CREATE SCHEMA other; CREATE TYPE other.mood AS ENUM ('happy', 'sad');
         CREATE TABLE t (id mood PRIMARY KEY, list mood[], o other.mood)",
    );
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO t VALUES ('sad', '{sad}', 'happy')");
    stage.wait_for_signal(&[&extract, &replicat]);
    for side in [&stage.target, &stage.source] {
        side.run("ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'");
        side.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'");
    }
    stage.source.run("INSERT INTO t VALUES ('new', '{new,blue}', 'sad')");
    stage.source.run("UPDATE t SET o = NULL WHERE id = 'new'; DELETE FROM t WHERE id = 'blue'");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT * FROM t"), "new|{new,blue}|");
}

const PARTED: &str = "
    CREATE TABLE p (id int, region text NOT NULL, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
    CREATE TABLE p_north PARTITION OF p FOR VALUES IN ('n');
    CREATE TABLE p_rest PARTITION OF p DEFAULT PARTITION BY RANGE (id);
    CREATE TABLE p_rest_low PARTITION OF p_rest FOR VALUES FROM (MINVALUE) TO (100);
    CREATE TABLE p_rest_high PARTITION OF p_rest FOR VALUES FROM (100) TO (MAXVALUE);";

const FLAT: &str = "CREATE TABLE p (v text, id int, region text NOT NULL, PRIMARY KEY (id, region));";

/// What is done to the partitioned table, or to a flat one of its name.
const WORK: &[&str] = &[
    "INSERT INTO p (id, region, v) SELECT n, (ARRAY['n', 's', 'w'])[n % 3 + 1], 'v' || n FROM generate_series(1, 300) AS n",
    "UPDATE p SET region = 's' WHERE region = 'n' AND id % 2 = 0",
    "UPDATE p SET id = id + 1000 WHERE region = 'w' AND id < 60",
    "UPDATE p SET v = 'new' WHERE id % 7 = 0; DELETE FROM p WHERE id % 11 = 0",
];

#[test]
fn partitions_arrive_under_their_root_whatever_the_target_looks_like() {
    let tables = "SELECT id, region, v FROM p ORDER BY id, region";
    for (source, target) in [(PARTED, PARTED), (PARTED, FLAT), (FLAT, PARTED)] {
        let stage = Stage::bare("");
        stage.source.run(source);
        stage.target.run(target);
        stage.add_groups();
        WORK.iter().for_each(|sql| drop(stage.source.run(sql)));
        if source == PARTED {
            // One with its columns in another order, with columns that were dropped before, and with rows of its own.
            let attached = "CREATE TABLE p_west (gone int, v text, region text NOT NULL, away text, id int NOT NULL, PRIMARY KEY (id, region));
                            ALTER TABLE p_west DROP gone, DROP away;";
            stage.source.run(attached);
            stage
                .source
                .run("DELETE FROM p WHERE region = 'e'; ALTER TABLE p ATTACH PARTITION p_west FOR VALUES IN ('e')");
            if target == PARTED {
                stage.target.run(attached);
                stage.target.run("ALTER TABLE p ATTACH PARTITION p_west FOR VALUES IN ('e')");
            }
        }
        stage.source.run("INSERT INTO p (id, region, v) SELECT n, 'e', 'east' FROM generate_series(2001, 2030) AS n");
        stage.source.run("UPDATE p SET region = 'e', v = 'moved' WHERE region = 'n'; UPDATE p SET region = 'n' WHERE v = 'east' AND id < 2009");
        stage.replicate();
        assert_eq!(stage.source.run(tables), stage.target.run(tables));
        if source == PARTED {
            // What is detached is a table by itself from then on; its rows leave the root without a word.
            stage.source.run("ALTER TABLE p DETACH PARTITION p_north");
            stage.target.run("DELETE FROM p WHERE region = 'n'");
            stage.source.run("INSERT INTO p (id, region, v) VALUES (5000, 's', 'after')");
            let message = stage.extract().fails();
            assert!(message.contains("p_north") && message.contains("exclude it"), "{message}");
            stage.extract_parameters("TABLE *.*;\nTABLEEXCLUDE public.p_north;");
            stage.replicate();
            assert_eq!(stage.source.run(tables), stage.target.run(tables));
        }
    }
}

#[test]
fn partitions_arrive_under_their_own_names_where_the_root_is_excluded() {
    let stage = Stage::bare("");
    stage.source.run(PARTED);
    // Leaf for leaf the same tables, but none of them a partition of anything.
    let flat =
        |table: &str| format!("CREATE TABLE {table} (v text, region text NOT NULL, id int, PRIMARY KEY (id, region));");
    for table in ["p_north", "p_rest_low", "p_rest_high", "p_west", "p_later"] {
        stage.target.run(&flat(table));
    }
    stage.extract_parameters("TABLE public.*;\nTABLEEXCLUDE public.p;\nTABLEEXCLUDE public.p_rest;");
    stage.add_groups();
    WORK.iter().for_each(|sql| drop(stage.source.run(sql)));
    stage.source.run(
        "CREATE TABLE p_west (gone int, v text, region text NOT NULL, id int NOT NULL, PRIMARY KEY (id, region)); ALTER TABLE p_west DROP gone; \
         INSERT INTO p_west VALUES ('before', 'e', 7); ALTER TABLE p ATTACH PARTITION p_west FOR VALUES IN ('e')",
    );
    stage.source.run("INSERT INTO p (id, region, v) SELECT n, 'e', 'east' FROM generate_series(2001, 2030) AS n");
    stage.source.run("UPDATE p SET region = 'e', v = 'moved' WHERE region = 'n' AND id < 200; UPDATE p SET id = -id WHERE region = 's' AND id BETWEEN 100 AND 110");
    stage.source.run("BEGIN; CREATE TABLE p_later PARTITION OF p FOR VALUES IN ('l'); INSERT INTO p VALUES (1, 'l', 'later'); COMMIT");
    let leaves = ["p_north", "p_rest_low", "p_rest_high", "p_west", "p_later"];
    let assert_equal = || {
        for table in leaves {
            let rows = format!("SELECT id, region, v FROM {table} ORDER BY id, region");
            assert_eq!(stage.source.run(&rows), stage.target.run(&rows), "{table}");
        }
    };
    stage.replicate();
    assert_equal();
    // What is told by leaf is told also when one partition alone is emptied, and goes on when one is detached.
    stage.source.run(
        "TRUNCATE p_rest_high; ALTER TABLE p DETACH PARTITION p_north; INSERT INTO p_north VALUES (9999, 'x', 'alone')",
    );
    stage.replicate();
    assert_equal();
    assert_eq!(stage.target.run("SELECT count(*) FROM p_rest_high"), "0");
    stage.source.run("TRUNCATE p");
    stage.replicate();
    assert_equal();
}

#[test]
fn a_truncation_of_one_partition_is_not_told_under_its_root() {
    let stage = Stage::new(PARTED);
    stage.source.run(WORK[0]);
    stage.replicate();
    stage.source.run("TRUNCATE p_north");
    stage.replicate();
    // As the guide says; rows that are deleted are told.
    assert_eq!(stage.target.run("SELECT count(*) > 0 FROM p_north"), "t");
    stage.target.run("TRUNCATE p_north");
    stage.source.run("DELETE FROM p_rest_low");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn truncations_arrive_in_every_form() {
    let schema = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);
                  CREATE TABLE c (id serial PRIMARY KEY, v int); CREATE TABLE kept (id int PRIMARY KEY);
                  CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
                  CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);";
    let stage = Stage::new(schema);
    let fill = "INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1, 1), (2, 2); INSERT INTO c (v) VALUES (1), (2); \
                INSERT INTO kept VALUES (1) ON CONFLICT DO NOTHING; INSERT INTO p VALUES (1), (11)";
    let step = |sql: &str, left: &str| {
        stage.source.run(fill);
        stage.source.run(sql);
        stage.replicate();
        stage.assert_equal();
        assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c), (SELECT count(*) FROM p)"), left, "{sql}");
        stage.source.run("TRUNCATE a, b, c, p");
    };
    step("TRUNCATE a, b", "0|0|2|2");
    step("TRUNCATE a CASCADE", "0|0|2|2");
    step("TRUNCATE c RESTART IDENTITY", "2|2|0|2");
    step("TRUNCATE p", "2|2|2|0");
    step("INSERT INTO c (v) VALUES (9); TRUNCATE c; INSERT INTO c (v) VALUES (10)", "2|2|1|2");
    step("BEGIN; TRUNCATE a, b; ROLLBACK", "2|2|2|2");
    assert_eq!(stage.target.run("SELECT * FROM kept"), "1");
}

#[test]
fn a_truncation_restarts_sequences_where_it_was_told_to() {
    let schema = "CREATE TABLE s (id serial PRIMARY KEY, v int);
                  CREATE TABLE i (id int GENERATED BY DEFAULT AS IDENTITY (START 100 INCREMENT 5) PRIMARY KEY, v int);
                  CREATE TABLE child (id serial PRIMARY KEY, s int REFERENCES s);
                  CREATE TABLE flat (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v int)";
    let stage = Stage::bare(schema);
    // The target has a table more, which refers to a captured one, and another form of one of them.
    stage.target.run(
        "CREATE TABLE only_here (s int REFERENCES s); DROP TABLE flat;
         CREATE TABLE flat (id int GENERATED BY DEFAULT AS IDENTITY, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
         CREATE TABLE flat_1 PARTITION OF flat FOR VALUES FROM (0) TO (1000)",
    );
    stage.add_groups();
    let run_on =
        "SELECT setval('s_id_seq', 77), setval('i_id_seq', 777), setval('child_id_seq', 7), setval('flat_id_seq', 70)";
    let next = "SELECT (SELECT last_value::text || is_called FROM s_id_seq), (SELECT last_value::text || is_called FROM i_id_seq), \
                (SELECT last_value::text || is_called FROM child_id_seq), (SELECT last_value::text || is_called FROM flat_id_seq)";
    let fill = "INSERT INTO s (v) VALUES (1), (2); INSERT INTO i (v) VALUES (1); INSERT INTO child (s) SELECT id FROM s; \
                INSERT INTO flat (v) VALUES (3)";
    let step = |sql: &str, restarted: &str| {
        stage.source.run(fill);
        stage.target.run(run_on);
        stage.source.run(sql);
        stage.replicate();
        stage.assert_equal_but(&["public.only_here"]);
        assert_eq!(stage.target.run(next), restarted, "{sql}");
    };
    step("TRUNCATE s, child, i, flat", "77true|777true|7true|70true");
    // What only the target has refers to one of the tables, so the server does not truncate it.
    step("TRUNCATE s, child, i, flat RESTART IDENTITY", "1false|100false|1false|1false");
    step("TRUNCATE i, flat RESTART IDENTITY; TRUNCATE s CASCADE", "77true|100false|7true|1false");
    step("TRUNCATE s RESTART IDENTITY CASCADE", "1false|777true|1false|70true");
    step("BEGIN; TRUNCATE i RESTART IDENTITY; ROLLBACK", "77true|777true|7true|70true");
    // CASCADE is a foreign key's action: where keys are checked, it reaches what only the target has.
    stage.source.run("TRUNCATE s, child, i, flat");
    stage.replicate();
    stage.replicat_parameters("DBOPTIONS NOSUPPRESSTRIGGERS, CHECKFOREIGNKEYS\nMAP *.*, TARGET *.*;");
    stage.source.run("INSERT INTO s VALUES (2, 2)");
    stage.replicate();
    stage.target.run("INSERT INTO only_here VALUES (2)");
    stage.source.run("TRUNCATE s CASCADE");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM only_here)"), "0|0");
    stage.source.run("TRUNCATE s, child");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("can't truncate") && message.contains("foreign key"), "{message}");
    extract.stop();
}

#[test]
fn refreshed_materialized_views_are_nobodys_changes() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, v int)");
    stage
        .source
        .run("CREATE MATERIALIZED VIEW sums AS SELECT v, count(*) FROM t GROUP BY v; CREATE UNIQUE INDEX ON sums (v)");
    stage.add_groups();
    stage.source.run("INSERT INTO t SELECT n, n % 3 FROM generate_series(1, 30) AS n");
    stage.source.run("REFRESH MATERIALIZED VIEW sums");
    stage.source.run("DELETE FROM t WHERE v = 1");
    stage.source.run("REFRESH MATERIALIZED VIEW CONCURRENTLY sums");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT to_regclass('sums') IS NULL"), "t");
}
