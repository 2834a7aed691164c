//! Tables that are made while their database is captured.

use super::stage::Stage;
use db_postgres::wire::{Config, Connection};

/// Makes the same tables at the target, empty.
fn at_target(stage: &Stage<'_>, tables: &str) {
    stage.target.run(tables);
}

#[test]
fn a_new_table_joins_inside_the_transaction_that_makes_it() {
    let stage = Stage::new("CREATE SCHEMA hostile; CREATE SCHEMA \"We%rd_\\.S\"; CREATE ROLE plain_maker NOLOGIN");
    let tables = "CREATE TABLE plain (id int PRIMARY KEY, v text); CREATE TABLE full_one (a int, b text);
                  CREATE TABLE \"We%rd_\\.S\".\"x'\"\"; DROP TABLE plain; --\" (id int PRIMARY KEY);
                  CREATE TABLE late_key (a int NOT NULL); CREATE TABLE theirs (id int PRIMARY KEY);
                  CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
                  CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (100);
                  CREATE TABLE root_2 PARTITION OF root FOR VALUES FROM (100) TO (200);
                  CREATE SCHEMA made CREATE TABLE inside (id int PRIMARY KEY)";
    at_target(&stage, tables);
    stage.target.run("ALTER TABLE full_one REPLICA IDENTITY FULL");
    // No Extract runs: nobody looks.
    stage.source.script(
        "BEGIN; CREATE TABLE plain (id int PRIMARY KEY, v text); INSERT INTO plain VALUES (1, 'in its own transaction');
           SAVEPOINT s; CREATE TABLE never (id int PRIMARY KEY); INSERT INTO never VALUES (1); ROLLBACK TO s;
           UPDATE plain SET v = 'changed'; COMMIT;
         BEGIN; CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1); ROLLBACK;
         SET search_path = hostile;
         CREATE FUNCTION hostile.obj_description(oid, text) RETURNS text LANGUAGE sql AS $$ SELECT 1 / 0 || '' $$;
         CREATE FUNCTION hostile.format(text, name, text, name, name) RETURNS text LANGUAGE sql AS $$ SELECT 'DROP TABLE public.plain' $$;
         BEGIN; CREATE TABLE \"We%rd_\\.S\".\"x'\"\"; DROP TABLE plain; --\" (id int PRIMARY KEY);
           INSERT INTO \"We%rd_\\.S\".\"x'\"\"; DROP TABLE plain; --\" VALUES (1), (2); COMMIT;
         RESET search_path;
         BEGIN; CREATE TABLE full_one (a int, b text); ALTER TABLE full_one REPLICA IDENTITY FULL;
           INSERT INTO full_one VALUES (1, 'a'), (1, 'a'); DELETE FROM full_one WHERE ctid = '(0,1)'; COMMIT;
         CREATE TABLE late_key (a int NOT NULL); ALTER TABLE late_key ADD PRIMARY KEY (a); INSERT INTO late_key VALUES (7);
         BEGIN; CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
           CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (100); INSERT INTO root VALUES (1, 'a'); COMMIT;
         BEGIN; CREATE TABLE root_2 PARTITION OF root FOR VALUES FROM (100) TO (200); INSERT INTO root_2 VALUES (100, 'b'), (101, 'c');
           UPDATE root SET v = 'd' WHERE id = 101; COMMIT;
         CREATE SCHEMA made CREATE TABLE inside (id int PRIMARY KEY); INSERT INTO made.inside VALUES (1);
         GRANT CREATE ON SCHEMA public TO plain_maker; SET ROLE plain_maker;
         BEGIN; CREATE TABLE theirs (id int PRIMARY KEY); INSERT INTO theirs VALUES (1); COMMIT; RESET ROLE;
         CREATE TEMP TABLE passing (id int PRIMARY KEY); INSERT INTO passing VALUES (1); UPDATE passing SET id = 2;",
    );
    stage.replicate();
    assert_eq!(stage.assert_equal(), 11);
    // Our own tables are nobody's data, and tables that can't tell their rows are left to their users.
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; ADD CHECKPOINTTABLE public.others", stage.source.url()));
    stage.source.run("CREATE UNLOGGED TABLE unlogged_one (id int PRIMARY KEY)");
    let members = "SELECT string_agg(prrelid::regclass::text, ' ' ORDER BY prrelid::regclass::text) FROM pg_publication_rel \
                   WHERE prrelid::regclass::text ~ 'other|unlogged|root|never|gone'";
    assert_eq!(stage.source.run(members), "root");
    stage.source.run("DROP TABLE unlogged_one; CREATE TABLE keyless (a int); INSERT INTO keyless VALUES (1); UPDATE keyless SET a = 2; DELETE FROM keyless");
    let message = stage.extract().fails();
    assert!(message.contains("public.keyless") && message.contains("REPLICA IDENTITY FULL"), "{message}");
    stage.source.run("ALTER TABLE keyless REPLICA IDENTITY FULL; INSERT INTO keyless VALUES (3)");
    stage.target.run("CREATE TABLE keyless (a int); ALTER TABLE keyless REPLICA IDENTITY FULL");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn a_new_partition_of_a_table_that_is_found_by_whole_rows_can_be_updated() {
    let stage = Stage::bare("");
    stage
        .source
        .run("CREATE TABLE whole (a int, b text) PARTITION BY RANGE (a); ALTER TABLE whole REPLICA IDENTITY FULL");
    stage.target.run("CREATE TABLE whole (b text, a int); ALTER TABLE whole REPLICA IDENTITY FULL");
    stage.add_groups();
    stage.source.script(
        "BEGIN; CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10); INSERT INTO whole VALUES (1, 'a'), (2, 'b');
           UPDATE whole SET b = 'c' WHERE a = 2; COMMIT;
         CREATE TABLE whole_2 (a int, b text) PARTITION BY RANGE (a); CREATE TABLE whole_2_1 PARTITION OF whole_2 FOR VALUES FROM (10) TO (20);
         ALTER TABLE whole ATTACH PARTITION whole_2 FOR VALUES FROM (10) TO (20);
         INSERT INTO whole VALUES (11, 'd'), (12, 'e'); UPDATE whole SET b = 'f' WHERE a > 2; DELETE FROM whole WHERE a IN (1, 12);",
    );
    stage.replicate();
    let rows = "SELECT a, b FROM whole ORDER BY a";
    assert_eq!(stage.source.run(rows), "2|c\n11|f");
    assert_eq!(stage.target.run(rows), "2|c\n11|f");
}

#[test]
fn a_table_that_is_made_with_rows_is_named_and_not_taken_for_whole() {
    let stage = Stage::new("");
    stage.source.run("CREATE TABLE filled AS SELECT 1 AS a");
    let message = stage.extract().fails();
    assert!(message.contains("public.filled"), "{message}");
    stage.source.run("ALTER TABLE filled ADD PRIMARY KEY (a)");
    let message = stage.extract().fails();
    assert!(message.contains("public.filled") && message.contains("holds rows"), "{message}");
    stage.source.run("DROP TABLE filled");
    // Without rows it joins with the command that gives it a key.
    stage.source.run("CREATE TABLE filled AS SELECT 1 AS a WITH NO DATA; ALTER TABLE filled ADD PRIMARY KEY (a); INSERT INTO filled VALUES (1)");
    stage.target.run("CREATE TABLE filled (a int PRIMARY KEY)");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn new_tables_join_by_the_rules_of_the_parameter_file() {
    let stage = Stage::bare("");
    stage.extract_parameters("TABLE public.s*;\nTABLE public.t_*;\nTABLEEXCLUDE public.t_x*;");
    stage.add_groups();
    let members = || {
        stage.source.run(
            "SELECT string_agg(prrelid::regclass::text, ' ' ORDER BY prrelid::regclass::text) FROM pg_publication_rel",
        )
    };
    for table in ["t_1", "ta1", "t_x1", "other"] {
        stage.source.run(&format!("CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES (1)"));
    }
    stage.target.run("CREATE TABLE t_1 (id int PRIMARY KEY)");
    assert_eq!(members(), "signal t_1");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT * FROM t_1"), "1");
    // The rules of the last start count.
    stage.extract_parameters("TABLE public.s*;\nTABLE public.t_*;\nTABLE public.new*;\nTABLEEXCLUDE public.t_x*;");
    stage.target.run("CREATE TABLE newer (id int PRIMARY KEY)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.source.run("CREATE TABLE newer (id int PRIMARY KEY); INSERT INTO newer VALUES (5)");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_eq!(stage.target.run("SELECT * FROM newer"), "5");
}

#[test]
fn what_lets_tables_join_goes_with_the_group_and_does_no_harm_alone() {
    let stage = Stage::new("");
    let left = "SELECT (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'drover%'), \
                (SELECT count(*) FROM pg_publication)";
    assert_eq!(stage.source.run(left), "1|1|1");
    stage
        .source
        .run("DROP PUBLICATION drover_e1; CREATE TABLE unseen (id int PRIMARY KEY); INSERT INTO unseen VALUES (1)");
    let delete = format!("DBLOGIN SOURCEDB '{}'; DELETE EXTRACT e1 !", stage.source.url());
    stage.console(&delete);
    assert_eq!(stage.source.run(left), "0|0|0");
    let add = format!(
        "DBLOGIN SOURCEDB '{}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/ab, EXTRACT e1",
        stage.source.url()
    );
    stage.console(&add);
    // A user who drops what is ours by hand gets the look at times instead.
    stage.source.run("DROP SCHEMA drover_e1 CASCADE; CREATE TABLE later (id int PRIMARY KEY)");
    assert_eq!(stage.source.run(left), "0|0|1");
    stage.console(&delete);
    // Somebody else's schema of that name is nothing that we would run anything in.
    stage.source.run("CREATE SCHEMA drover_e1");
    let message = stage.console_refuses(&add);
    assert!(message.contains("drover_e1"), "{message}");
    assert_eq!(stage.source.run(left), "0|1|0");
}

#[test]
fn a_role_without_the_right_finds_new_tables_while_they_are_empty_or_names_them() {
    let stage = Stage::bare("");
    stage.source.run("CREATE ROLE modest LOGIN REPLICATION; GRANT ALL ON SCHEMA public TO modest; ALTER TABLE signal OWNER TO modest");
    stage.source.run(&format!("GRANT CREATE ON DATABASE {} TO modest", stage.source.database));
    let url = stage.source.url_of("modest");
    stage.parameters("e1", &format!("EXTRACT e1\nSOURCEDB {url}\nEXTTRAIL ./dirdat/aa\nTABLE *.*;\n"));
    stage.console(&stage.set_up().replace(&stage.source.url(), &url));
    assert_eq!(stage.source.run("SELECT (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'drover%')"), "0|0");
    stage.source.run("CREATE TABLE empty_one (id int PRIMARY KEY); ALTER TABLE empty_one OWNER TO modest");
    stage.target.run("CREATE TABLE empty_one (id int PRIMARY KEY)");
    stage.replicate();
    stage.source.run("INSERT INTO empty_one VALUES (1)");
    stage.replicate();
    stage.assert_equal();
    stage.source.run("CREATE TABLE filled_one (id int PRIMARY KEY); INSERT INTO filled_one VALUES (1); ALTER TABLE filled_one OWNER TO modest");
    let message = stage.extract().fails();
    assert!(message.contains("public.filled_one") && message.contains("holds rows"), "{message}");
    stage.source.run("DROP OWNED BY modest CASCADE; DROP ROLE modest");
}

#[test]
fn a_table_that_would_have_to_wait_for_its_neighbour_is_made_all_the_same() {
    let stage = Stage::new("");
    stage.target.run("CREATE TABLE first (id int PRIMARY KEY); CREATE TABLE second (id int PRIMARY KEY)");
    let mut neighbour = Connection::connect(&Config::parse(&stage.source.url()).expect("a URL")).expect("a session");
    neighbour
        .run("BEGIN; CREATE TABLE public.first (id int PRIMARY KEY); INSERT INTO public.first VALUES (1)")
        .expect("it is made");
    // The neighbour's open transaction holds the publication.
    stage.source.run("CREATE TABLE second (id int PRIMARY KEY)");
    neighbour.run("COMMIT").expect("it commits");
    assert_eq!(stage.source.run("SELECT count(*) FROM pg_publication_rel WHERE prrelid = 'second'::regclass"), "0");
    // The Extract's look brings it in while it is empty.
    stage.replicate();
    stage.source.run("INSERT INTO second VALUES (2)");
    stage.replicate();
    assert_eq!(stage.assert_equal(), 4);
}
