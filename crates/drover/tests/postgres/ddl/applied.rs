//! How statements are applied: behind what came before, whole or not at all, and once.

use super::{assert_same, stage};
use crate::postgres::stage::Stage;
use crate::stage::{Running, drover, eventually};
use db_postgres::wire::{Config, Connection};

#[test]
fn a_statement_waits_for_all_that_came_before_it_and_all_that_comes_later_waits_for_it() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, c text)", "DDL");
    let extract = stage.extract();
    let mut script = String::new();
    for round in 0..12 {
        // Transactions of rows that have nothing to do with each other, for several appliers.
        for id in 0..400 {
            script.push_str(&format!("INSERT INTO t VALUES ({}, 'c{round}');\n", round * 1000 + id));
        }
        script.push_str(&format!(
            "ALTER TABLE t DROP c; ALTER TABLE t ADD c {} DEFAULT '{round}';\n",
            if round % 2 == 0 { "varchar(10)" } else { "text" }
        ));
    }
    stage.source.script(&script);
    let number = stage.send_signal();
    eventually("the trail is written", || stage.trail_holds(number).then_some(()));
    let replicat = stage.replicat();
    stage.await_signal(number, &[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_same(&stage);
}

#[test]
fn a_crash_between_any_two_steps_leaves_both_ends_equal() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "DDL");
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..14 {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        let id = round * 100;
        stage.source.script(&format!(
            "BEGIN; INSERT INTO t (id) VALUES ({id}); ALTER TABLE t ADD COLUMN d{round} timestamptz DEFAULT now(); INSERT INTO t (id) VALUES ({id} + 1);
             SAVEPOINT s; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES ({id} + 9); ROLLBACK TO s;
             CREATE TABLE made{round} AS SELECT * FROM t; CREATE INDEX ON made{round} (id); INSERT INTO t (id) VALUES ({id} + 2); COMMIT;
             ALTER TABLE t ADD COLUMN v{round} uuid DEFAULT gen_random_uuid();
             CREATE INDEX CONCURRENTLY i{round} ON t (d{round});
             INSERT INTO t (id) VALUES ({id} + 3);
             ALTER TABLE t DROP COLUMN v{round};"
        ));
        stage.send_signal();
        // Whatever they are doing then.
        let until = std::time::Instant::now() + std::time::Duration::from_millis(random.u64(0..700));
        eventually("its time has come", || (std::time::Instant::now() >= until).then_some(()));
        extract.kill();
        replicat.kill();
    }
    stage.replicate();
    assert_same(&stage);
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "56");
    assert_eq!(stage.target.run("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), "0");
}

#[test]
fn a_statement_in_a_large_transaction_stands_between_its_rows() {
    for classic in [false, true] {
        let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text)", "DDL");
        // The server streams it before its end.
        stage.source.run(&format!("ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'", stage.source.database));
        if classic {
            stage.replicat_parameters("APPLY_PARALLELISM CLASSIC\nDDL INCLUDE ALL\nMAP *.*, TARGET *.*;");
        }
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.source.script(
            "BEGIN; INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 20000) AS n;
             SAVEPOINT a; ALTER TABLE t ADD undone int; INSERT INTO t SELECT -n, 'undone', 1 FROM generate_series(1, 5000) AS n; ROLLBACK TO a;
             SAVEPOINT b; ALTER TABLE t ADD d int DEFAULT 7; RELEASE b;
             INSERT INTO t SELECT n, 'more', n FROM generate_series(30000, 45000) AS n; UPDATE t SET d = 1 WHERE id < 100;
             ALTER TABLE t DROP a; INSERT INTO t VALUES (50000, 5); COMMIT; INSERT INTO t VALUES (50001, 6);
             BEGIN; ALTER TABLE t ADD never int; INSERT INTO t SELECT n FROM generate_series(60000, 80000) AS n; ROLLBACK;",
        );
        stage.wait_for_signal(&[&extract, &replicat]);
        extract.stop();
        replicat.stop();
        assert_same(&stage);
    }
}

#[test]
fn names_are_mapped_where_that_is_sound_and_refused_elsewhere() {
    let stage = Stage::bare("CREATE SCHEMA copy");
    stage.source.run("CREATE TABLE a (id int PRIMARY KEY)");
    stage.target.run("CREATE TABLE copy.\"B\" (id int PRIMARY KEY)");
    stage.extract_parameters("DDL\nTABLE *.*;");
    stage.replicat_parameters(
        "DDL\nMAP public.a, TARGET copy.\"B\";\nMAP public.s*, TARGET public.s*;\nMAP public.o*, TARGET copy.o*;",
    );
    stage.add_groups();
    stage.source.script(
        "ALTER TABLE a ADD v text DEFAULT 'public.a'; INSERT INTO a VALUES (1); CREATE INDEX av ON a (v); CREATE TABLE other (id int PRIMARY KEY);
         INSERT INTO other VALUES (1); COMMENT ON COLUMN a.v IS 'x';",
    );
    let extract = stage.extract();
    let message = stage.replicat().fails();
    for word in ["DRV-00752", "COMMENT", "public.a", "copy.B"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(stage.target.run("SELECT * FROM copy.\"B\" UNION ALL SELECT id, '' FROM copy.other"), "1|public.a\n1|");
    assert_eq!(
        stage.target.run("SELECT indexdef FROM pg_indexes WHERE indexname = 'av'"),
        "CREATE INDEX av ON copy.\"B\" USING btree (v)"
    );
    // By hand, and passed over.
    stage.replicat_parameters(
        "DDL INCLUDE ALL, EXCLUDE OPTYPE COMMENT\nMAP public.a, TARGET copy.\"B\";\nMAP public.s*, TARGET public.s*;",
    );
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.text("dirrpt/R1.rpt").contains("DRV-00751"));
}

#[test]
fn a_statement_that_the_target_refuses_stops_the_group_or_is_passed_over_as_configured() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY)", "DDL");
    stage.target.run("ALTER TABLE t ADD v int");
    stage
        .source
        .script("BEGIN; INSERT INTO t VALUES (1); ALTER TABLE t ADD v int; INSERT INTO t VALUES (2, 2); COMMIT;");
    let extract = stage.extract();
    for classic in ["", "APPLY_PARALLELISM CLASSIC\n"] {
        stage.replicat_parameters(&format!("{classic}DDL\nMAP *.*, TARGET *.*;"));
        let message = stage.replicat().fails();
        for word in ["DRV-00752", "ALTER TABLE public.t", "already exists", "DDLERROR 42701 IGNORE"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(stage.target.run("SELECT count(*) FROM t"), "0");
    }
    // A rule for other statements is none for this one.
    stage.replicat_parameters("DDL\nDDLERROR 42701 IGNORE EXCLUDE OBJNAME public.t\nMAP *.*, TARGET *.*;");
    assert!(stage.replicat().fails().contains("DRV-00752"));
    stage.replicat_parameters("DDL\nDDLERROR 42701 IGNORE INCLUDE OPTYPE ALTER OBJNAME public.t\nMAP *.*, TARGET *.*;");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_same(&stage);
    assert!(stage.text("dirrpt/R1.rpt").contains("DRV-00753"), "{}", stage.text("dirrpt/R1.rpt"));
}

#[test]
fn without_rules_an_extract_carries_no_statement_and_a_replicat_those_of_mapped_tables() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)");
    stage.extract_parameters("DDL\nDDLOPTIONS REPORT\nTABLE *.*;");
    stage.replicat_parameters("MAP public.t, TARGET public.t;\nMAP public.s*, TARGET public.s*;");
    stage.add_groups();
    stage.source.script("ALTER TABLE t ADD v int; ALTER TABLE u ADD v int; CREATE VIEW w AS SELECT 1 AS a; INSERT INTO t VALUES (1, 1);");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT t.v, u.* FROM t LEFT JOIN u ON true"), "1|");
    assert_eq!(stage.target.run("SELECT to_regclass('w') IS NULL"), "t");
    let report = stage.text("dirrpt/R1.rpt");
    assert!(
        report.contains("ALTER TABLE public.u is not run") && report.contains("CREATE VIEW public.w is not run"),
        "{report}"
    );
    assert!(stage.text("dirrpt/E1.rpt").contains("ALTER TABLE public.u is carried"));
    // The triggers go with the parameter.
    let triggers = "SELECT count(*) FROM pg_event_trigger";
    assert_eq!(stage.source.run(triggers), "4");
    stage.extract_parameters("TABLE *.*;");
    stage.replicate();
    assert_eq!(stage.source.run(triggers), "1");
    stage.source.run("CREATE VIEW x AS SELECT 1 AS a");
    // And come with it, from the next start on.
    stage.extract_parameters("DDL\nTABLE *.*;");
    stage.replicate();
    assert_eq!(stage.source.run(triggers), "4");
    assert_eq!(stage.target.run("SELECT to_regclass('x') IS NULL"), "t");
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; DELETE EXTRACT e1 !", stage.source.url()));
    assert_eq!(stage.source.run("SELECT (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_namespace WHERE nspname ~ 'drover')"), "0|0");
}

#[test]
fn nobody_but_the_event_triggers_makes_statements_run_at_the_target() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY)", "DDL");
    let forged = |token: &str| {
        let fields = ["1", "drover_e1", token, "DROP TABLE", "u", "", "0", "unknown", "", "", "", "1"];
        let object = ["table", "public", "t", "public.t", "", "", "0"];
        let text = |field: &&str| format!("{}:{field}", field.len());
        fields.iter().chain(&object).map(text).collect::<String>()
    };
    stage.source.script(&format!(
        "CREATE ROLE nobody_{0}; SET ROLE nobody_{0}; SELECT pg_logical_emit_message(true, 'drover.ddl', '{1}');
         SELECT pg_logical_emit_message(true, 'drover.ddl', '{2}'); SELECT pg_logical_emit_message(true, 'drover.ddl', 'x');
         DO $$ BEGIN PERFORM drover_e1.note('sql_drop', 'DROP TABLE', '{{}}', ''); RAISE 'it went through';
           EXCEPTION WHEN event_trigger_protocol_violated THEN NULL; END $$;
         DO $$ BEGIN PERFORM token FROM drover_e1.secret; RAISE 'it was told'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $$;
         RESET ROLE; INSERT INTO t VALUES (1); DROP ROLE nobody_{0};",
        stage.source.database,
        forged(""),
        forged("guessed")
    ));
    stage.replicate();
    assert_same(&stage);
    assert!(stage.text("dirrpt/E1.rpt").contains("was passed over"));
}

#[test]
fn a_role_that_may_make_no_event_trigger_is_told_so_and_goes_on() {
    let stage = Stage::bare("");
    stage.source.run(
        "CREATE ROLE plain LOGIN REPLICATION; GRANT ALL ON SCHEMA public TO plain; ALTER TABLE signal OWNER TO plain",
    );
    stage.source.run(&format!("GRANT CREATE ON DATABASE {} TO plain", stage.source.database));
    let url = stage.source.url_of("plain");
    stage.parameters("e1", &format!("EXTRACT e1\nSOURCEDB {url}\nEXTTRAIL ./dirdat/aa\nDDL\nTABLE *.*;\n"));
    stage.console(&stage.set_up().replace(&stage.source.url(), &url));
    stage.replicate();
    let report = stage.text("dirrpt/E1.rpt");
    assert!(report.contains("DRV-00755") && report.contains("superuser"), "{report}");
    stage.source.run("DROP OWNED BY plain CASCADE; DROP ROLE plain");
}

#[test]
fn statements_that_a_replicat_has_run_do_not_come_back() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY)", "DDL");
    let (source, target) = (stage.source.url(), stage.target.url());
    stage.parameters(
        "e2",
        &format!("EXTRACT e2\nSOURCEDB {target}\nEXTTRAIL ./dirdat/bb\nDDL\nDDLOPTIONS REPORT\nTABLE *.*;\n"),
    );
    stage.parameters("r2", &format!("REPLICAT r2\nTARGETDB {source}\nDDL\nMAP *.*, TARGET *.*;\n"));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{target}'
         ADD EXTRACT e2, TRANLOG, BEGIN NOW
         ADD EXTTRAIL ./dirdat/bb, EXTRACT e2
         DBLOGIN SOURCEDB '{source}'
         ADD CHECKPOINTTABLE public.checkpoints
         ADD REPLICAT r2, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE public.checkpoints"
    ));
    let start = |part: &str, group: &str| {
        let mut command = drover();
        command.args([part, group, "--home"]).arg(stage.home());
        Running::start(command)
    };
    let groups = [start("extract", "e1"), start("replicat", "r1"), start("extract", "e2"), start("replicat", "r2")];
    let running: Vec<&Running> = groups.iter().collect();
    stage.source.script(
        "ALTER TABLE t ADD east int; CREATE INDEX CONCURRENTLY easts ON t (east); INSERT INTO t VALUES (1, 1);",
    );
    stage.wait_for_signal(&running);
    stage.target.script("ALTER TABLE t ADD west int; INSERT INTO t VALUES (2, 2, 2);");
    eventually("the source has what the target has made", || {
        running.iter().for_each(|group| group.assert_running());
        stage.source.holds("SELECT FROM public.t WHERE id = 2").then_some(())
    });
    stage.wait_for_signal(&running);
    groups.into_iter().for_each(|group| drop(group.stop()));
    assert_same(&stage);
    let report = stage.text("dirrpt/E2.rpt");
    assert!(report.contains("ALTER TABLE public.t is carried") && !report.contains("easts"), "{report}");
    assert_eq!(report.matches("is carried").count(), 1, "{report}");
}

#[test]
fn an_index_that_was_being_made_when_the_group_died_is_made_once_and_whole() {
    for finishes in [false, true] {
        let stage = stage("CREATE TABLE t (id int PRIMARY KEY, v int)", "DDL");
        let extract = stage.extract();
        let replicat = stage.replicat();
        stage.source.run("INSERT INTO t SELECT n, n FROM generate_series(1, 100) AS n");
        stage.wait_for_signal(&[&extract, &replicat]);
        // A transaction of a neighbour keeps the index waiting.
        let mut neighbour =
            Connection::connect(&Config::parse(&stage.target.url()).expect("a URL")).expect("a session");
        neighbour.run("BEGIN; INSERT INTO public.t VALUES (1000, 1)").expect("it is written");
        stage.source.script("CREATE INDEX CONCURRENTLY slow ON t (v);");
        let invalid = "SELECT FROM pg_index WHERE indexrelid = to_regclass('public.slow') AND NOT indisvalid";
        eventually("the index is begun", || stage.target.holds(invalid).then_some(()));
        assert_eq!(stage.target.run("SELECT count(*) FROM public.checkpoints_ddl"), "1");
        replicat.kill();
        if !finishes {
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database()";
            stage.target.run(end);
        }
        neighbour.run("ROLLBACK").expect("it ends");
        let replicat = stage.replicat();
        stage.wait_for_signal(&[&extract, &replicat]);
        extract.stop();
        replicat.stop();
        assert_same(&stage);
        assert_eq!(stage.target.run("SELECT count(*) FROM public.checkpoints_ddl"), "0");
    }
}

#[test]
fn an_index_that_can_not_be_made_leaves_nothing_behind() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, v int)", "DDL");
    stage.source.run("INSERT INTO t VALUES (1, 1)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run("INSERT INTO t VALUES (2, 1)");
    stage.source.script("CREATE UNIQUE INDEX CONCURRENTLY once ON t (v);");
    let message = replicat.fails();
    assert!(message.contains("DRV-00752") && message.contains("DDLERROR 23505 IGNORE"), "{message}");
    assert_eq!(stage.target.run("SELECT to_regclass('once') IS NULL"), "t");
    stage.target.run("DELETE FROM t WHERE id = 2");
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_same(&stage);
}
