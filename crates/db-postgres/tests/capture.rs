//! What capture tells of PostgreSQL's own ways, and when it refuses.

use crate::server::{Cluster, ClusterOptions};
use crate::stage::{Choice, Stage, Stream, all_words, connect};
use change::{Commit, Csn, LogPosition, TransactionId};
use database::{ErrorClass, SourceRequest};
use std::sync::Arc;

fn choice() -> Choice {
    Choice::default()
}

#[test]
fn long_values_that_do_not_change_are_left_out_or_taken_from_the_old_row() {
    let mut stage = Stage::new(
        "CREATE TABLE d (a int PRIMARY KEY, b text, c int); ALTER TABLE d ALTER b SET STORAGE EXTERNAL;
         CREATE TABLE i (a int NOT NULL UNIQUE, b text, c int); ALTER TABLE i ALTER b SET STORAGE EXTERNAL;
         ALTER TABLE i REPLICA IDENTITY USING INDEX i_a_key;
         CREATE TABLE f (a int PRIMARY KEY, b text, c int); ALTER TABLE f ALTER b SET STORAGE EXTERNAL;
         ALTER TABLE f REPLICA IDENTITY FULL",
    );
    let start = stage.register(&choice());
    for table in ["d", "i", "f"] {
        stage.run(&format!("INSERT INTO {table} VALUES (1, repeat('x', 20000), 0)"));
        stage.run(&format!("UPDATE {table} SET c = 1; UPDATE {table} SET a = 2; DELETE FROM {table}"));
    }
    let told = all_words(&stage.told(&mut stage.open(&start, &choice())));
    assert_eq!(
        told,
        [
            "insert d 1,(20000 bytes),0",
            "update d 1,~,1",
            "update d 1,~,~ -> 2,~,1",
            "delete d 2,~,~",
            "insert i 1,(20000 bytes),0",
            "update i 1,~,1",
            "update i 1,~,~ -> 2,~,1",
            "delete i 2,~,~",
            "insert f 1,(20000 bytes),0",
            "update f 1,(20000 bytes),0 -> 1,(20000 bytes),1",
            "update f 1,(20000 bytes),1 -> 2,(20000 bytes),1",
            "delete f 2,(20000 bytes),1",
        ]
    );
}

#[test]
fn a_table_without_key_tells_whole_rows_when_its_identity_is_full() {
    let mut stage = Stage::new("CREATE TABLE k (a int, b text); ALTER TABLE k REPLICA IDENTITY FULL");
    let start = stage.register(&choice());
    stage.run("INSERT INTO k VALUES (1, NULL), (1, NULL); UPDATE k SET b = 'x' WHERE ctid = '(0,1)'; DELETE FROM k WHERE b = 'x'");
    let told = stage.told(&mut stage.open(&start, &choice()));
    assert_eq!(all_words(&told), ["insert k 1,NULL", "insert k 1,NULL", "update k 1,NULL -> 1,x", "delete k 1,x"]);
    assert_eq!(told[0].table.key(), [0, 1], "a row is found by all its columns");
}

#[test]
fn shapes_count_from_the_moment_of_their_change() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b varchar(10) NOT NULL)");
    let start = stage.register(&choice());
    stage.run(
        "BEGIN; INSERT INTO t VALUES (1, 'x'); ALTER TABLE t ADD d int DEFAULT 7; INSERT INTO t VALUES (2, 'y');
         SAVEPOINT s; ALTER TABLE t DROP b; INSERT INTO t VALUES (3, 8); ROLLBACK TO s; INSERT INTO t VALUES (4, 'z', 9);
         ALTER TABLE t RENAME d TO e; ALTER TABLE t ALTER b TYPE text; UPDATE t SET e = 10 WHERE a = 1; COMMIT;
         ALTER TABLE t DROP b; INSERT INTO t VALUES (5, 11)",
    );
    let told = stage.told(&mut stage.open(&start, &choice()));
    assert_eq!(
        all_words(&told),
        ["insert t 1,x", "insert t 2,y,7", "insert t 4,z,9", "update t 1,x,10", "insert t 5,11"]
    );
    let names = |at: usize| told[at].table.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    assert_eq!(
        (names(0), names(1), names(3), names(4)),
        (vec!["a", "b"], vec!["a", "b", "d"], vec!["a", "b", "e"], vec!["a", "e"])
    );
    let b = &told[1].table.columns[1];
    assert_eq!((b.native.as_str(), b.length), ("character varying(10)", Some(10)));
    assert_eq!(told[3].table.columns[1].native, "text");
    assert!(told.iter().all(|change| change.table.key() == [0]));
}

#[test]
fn partitions_are_told_by_their_root_or_on_their_own() {
    let tables = "CREATE TABLE m (a int, b text, PRIMARY KEY (a)) PARTITION BY RANGE (a);
                  CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (10);
                  CREATE TABLE m2 (b text, gone int, a int NOT NULL); ALTER TABLE m2 DROP gone;
                  ALTER TABLE m ATTACH PARTITION m2 FOR VALUES FROM (10) TO (20)";
    let work = "INSERT INTO m VALUES (1, 'x'), (11, 'y'); UPDATE m SET b = 'z' WHERE a = 11; UPDATE m SET a = 12 WHERE a = 1;
                CREATE TABLE m3 PARTITION OF m FOR VALUES FROM (20) TO (30); INSERT INTO m VALUES (21, 'new');
                ALTER TABLE m DETACH PARTITION m3; INSERT INTO m3 VALUES (22, 'own'); DELETE FROM m WHERE a = 11; TRUNCATE m";
    let mut stage = Stage::new(tables);
    let names: Vec<String> = stage.database().tables().unwrap().into_iter().map(|table| table.name.table).collect();
    assert_eq!(names, ["drover_mark", "m"], "partitions are not tables of their own");
    let whole = Choice { only: vec!["m", "m1", "m2"], ..choice() };
    let start = stage.register(&whole);
    stage.run(work);
    let told = all_words(&stage.told(&mut stage.open(&start, &whole)));
    // A row that moves to another partition is deleted and inserted.
    assert_eq!(
        told,
        [
            "insert m 1,x",
            "insert m 11,y",
            "update m 11,z",
            "delete m 1,~",
            "insert m 12,x",
            "insert m 21,new",
            "delete m 11,~",
            "truncate m"
        ]
    );

    let mut stage = Stage::new(tables);
    let leaf = Choice { only: vec!["m2"], ..choice() };
    let start = stage.register(&leaf);
    stage.run(work);
    let told = all_words(&stage.told(&mut stage.open(&start, &leaf)));
    assert_eq!(told, ["insert m2 y,11", "update m2 z,11", "insert m2 x,12", "delete m2 ~,11", "truncate m2"]);
}

#[test]
fn truncations_of_several_tables_and_logical_messages_do_no_harm() {
    let mut stage = Stage::new(
        "CREATE TABLE p (a int PRIMARY KEY); CREATE TABLE c (a int PRIMARY KEY, p int REFERENCES p); CREATE TABLE o (a int PRIMARY KEY)",
    );
    let only = Choice { only: vec!["p", "c"], ..choice() };
    let start = stage.register(&only);
    stage.run(
        "BEGIN; SELECT pg_logical_emit_message(true, 'app', 'x'); INSERT INTO o VALUES (1); COMMIT;
         SELECT pg_logical_emit_message(false, 'app', 'x'); TRUNCATE p, o CASCADE",
    );
    let told = all_words(&stage.told(&mut stage.open(&start, &only)));
    assert_eq!(told, ["truncate p", "truncate c"]);
}

#[test]
fn computed_columns_are_left_to_the_target() {
    let mut stage = Stage::new(
        "CREATE TABLE g (a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b int, c int GENERATED ALWAYS AS (b * 2) STORED);
         CREATE TABLE only_identity (a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
    );
    let start = stage.register(&choice());
    stage.run(
        "INSERT INTO g (b) VALUES (1), (2); INSERT INTO only_identity DEFAULT VALUES; UPDATE g SET b = 5 WHERE a = 1",
    );
    let told = stage.told(&mut stage.open(&start, &choice()));
    assert_eq!(all_words(&told), ["insert g 1,1", "insert g 2,2", "insert only_identity 1", "update g 1,5"]);
    assert_eq!(told[0].table.columns[0].generation, change::Generation::IdentityAlways);
}

#[test]
fn an_idle_table_in_a_busy_server_holds_nothing_back() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE other (a int)");
    let only = Choice { only: vec!["t"], ..choice() };
    let start = stage.register(&only);
    let mut stream = stage.open(&start, &only);
    let mut neighbour = Stage::new("CREATE TABLE t (a int)");
    stage.run("INSERT INTO other SELECT generate_series(1, 1000)");
    neighbour.run("INSERT INTO t SELECT generate_series(1, 1000)");
    let end = stage.ask("SELECT pg_current_wal_flush_lsn()").remove(0);
    let confirmed = |stage: &mut Stage| {
        stage.ask(&format!("SELECT bool_or(confirmed_flush_lsn >= '{end}') FROM pg_replication_slots WHERE database = current_database()"))
    };
    while confirmed(&mut stage) != ["t"] {
        stream.read().unwrap();
        if let Some(idle) = stream.idle.take() {
            stream.source.release(&idle).unwrap();
        }
    }
    assert!(stream.commits.is_empty());
}

fn refusal(stage: &Stage, start: &LogPosition, choice: &Choice) -> (ErrorClass, String) {
    let error = stage.try_open(start, choice).err().expect("refused");
    assert!(error.next_step().is_some(), "{error}");
    (error.class(), error.to_string())
}

#[track_caller]
fn assert_refused(stage: &Stage, start: &LogPosition, class: ErrorClass, word: &str) {
    let (found, words) = refusal(stage, start, &choice());
    assert!(found == class && words.contains(word), "{found:?}: {words}");
}

#[test]
fn a_slot_or_publication_that_is_gone_or_made_anew_is_refused_by_name() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY)");
    let start = stage.register(&choice());
    let slot = stage.ask("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()").remove(0);
    stage.run(&format!("SELECT pg_drop_replication_slot('{slot}')"));
    assert_refused(&stage, &start, ErrorClass::Mismatch, &slot);
    stage.run("INSERT INTO t VALUES (1)");
    stage.run(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"));
    assert_refused(&stage, &start, ErrorClass::Mismatch, "past our position");
    stage.run(&format!(
        "SELECT pg_drop_replication_slot('{slot}'), pg_create_logical_replication_slot('{slot}', 'test_decoding')"
    ));
    assert_refused(&stage, &start, ErrorClass::Mismatch, "test_decoding");
    stage.database().unregister_capture("E1").unwrap();

    let start = stage.register(&choice());
    let publication = stage.ask("SELECT pubname FROM pg_publication").remove(0);
    stage.run(&format!("DROP PUBLICATION {publication}"));
    assert_refused(&stage, &start, ErrorClass::Mismatch, &publication);
    stage.run(&format!("CREATE PUBLICATION {publication} FOR TABLE t"));
    assert_refused(&stage, &start, ErrorClass::Mismatch, "registration");
}

#[test]
fn a_slot_that_the_server_has_invalidated_is_refused() {
    let settings = [("max_slot_wal_keep_size", "16MB"), ("min_wal_size", "32MB"), ("max_wal_size", "32MB")];
    let cluster = Cluster::start(&ClusterOptions {
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..ClusterOptions::default()
    });
    cluster.psql("postgres", "CREATE TABLE t (a int PRIMARY KEY)");
    let database = db_postgres::open(&cluster.url("postgres")).unwrap();
    let start = database.register_capture("E1", &choice()).unwrap();
    let lost = "SELECT bool_or(wal_status = 'lost') FROM pg_replication_slots";
    while cluster.psql("postgres", lost) != "t" {
        cluster.psql("postgres", "CREATE TABLE x AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
        cluster.psql("postgres", "DROP TABLE x");
        cluster.psql("postgres", "CHECKPOINT");
    }
    let request = SourceRequest { group: "E1".to_owned(), start, tables: Arc::new(choice()) };
    let error = database.open_source(request).err().unwrap();
    assert_eq!(error.class(), ErrorClass::Mismatch);
    assert!(error.to_string().contains("invalidated"), "{error}");
    database.unregister_capture("E1").unwrap();
}

#[test]
fn a_promoted_or_restored_cluster_is_refused() {
    let cluster = Cluster::start(&ClusterOptions::default());
    cluster.psql("postgres", "CREATE TABLE t (a int PRIMARY KEY)");
    let database = db_postgres::open(&cluster.url("postgres")).unwrap();
    let start = database.register_capture("E1", &choice()).unwrap();
    // Recovery that ends at once: the cluster goes on, on another timeline.
    cluster.stop("fast");
    let data = cluster.directory().join("data");
    for name in ["recovery.signal", "postgresql.auto.conf"] {
        let text = std::fs::read_to_string(data.join(name)).unwrap_or_default();
        std::fs::write(data.join(name), format!("{text}restore_command = 'false'\n")).unwrap();
    }
    std::fs::write(data.join("recovery.signal"), "").unwrap();
    std::process::Command::new("chown")
        .args(["--reference"])
        .arg(&data)
        .arg(data.join("recovery.signal"))
        .status()
        .unwrap();
    cluster.start_again();
    while cluster.psql("postgres", "SELECT pg_is_in_recovery()") != "f" {
        std::thread::yield_now();
    }
    let request = SourceRequest { group: "E1".to_owned(), start, tables: Arc::new(choice()) };
    let error = database.open_source(request).err().expect("refused");
    assert_eq!(error.class(), ErrorClass::Mismatch);
    assert!(error.to_string().contains("timeline"), "{error}");
}

#[test]
fn a_slot_in_use_is_waited_for_and_a_second_reader_is_told() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY)");
    let start = stage.register(&choice());
    let mut stream = stage.open(&start, &choice());
    stage.told(&mut stream);
    let (other, position) = (stage.database(), start.clone());
    let waiting = std::thread::spawn(move || {
        let request = SourceRequest { group: "E1".to_owned(), start: position, tables: Arc::new(choice()) };
        other.open_source(request).map(drop).map_err(|error| error.class())
    });
    // The other one waits; as soon as we go away it goes on.
    while !waiting.is_finished() && stage.ask("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_replication_slots%' AND pid <> pg_backend_pid() AND datname = current_database()").is_empty() {
        std::thread::yield_now();
    }
    drop(stream);
    assert_eq!(waiting.join().unwrap(), Ok(()));
}

#[test]
fn going_on_behind_the_last_transaction_is_verified() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY)");
    let start = stage.register(&choice());
    let mut stream = stage.open(&start, &choice());
    for number in 1..=3 {
        stage.run(&format!("INSERT INTO t VALUES ({number})"));
    }
    stage.told(&mut stream);
    let (commit, _) = stream.commits[1].clone();
    drop(stream);

    let mut stream = stage.open(&start, &choice());
    assert!(stream.source.resume_after(&commit).unwrap());
    assert_eq!(all_words(&stage.told(&mut stream)), ["insert t 3"]);
    drop(stream);

    // The same place, but another transaction: the log is not the one that the trail came from.
    let other = Commit { transaction: TransactionId::new("1"), ..commit.clone() };
    let mut stream = stage.open(&start, &choice());
    stream.source.resume_after(&other).unwrap();
    assert_eq!(stage.try_told(&mut stream).unwrap_err().class(), ErrorClass::Mismatch);
    drop(stream);

    // A place between transactions.
    let odd = u32::from_str_radix(&commit.csn.as_str()[9..], 16).unwrap() + 1;
    let other = Commit { csn: Csn::new(format!("{}{odd:08X}", &commit.csn.as_str()[..9])), ..commit };
    let mut stream = stage.open(&start, &choice());
    stream.source.resume_after(&other).unwrap();
    let error = (0..100).find_map(|_| stream.read().err()).expect("the log goes past that place");
    assert_eq!(error.class(), ErrorClass::Mismatch);
}

#[test]
fn new_tables_join_without_a_gap_or_are_refused_by_name() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY)");
    let start = stage.register(&choice());
    stage.run("CREATE TABLE empty_one (a int PRIMARY KEY)");
    let mut stream = stage.open(&start, &choice());
    stage.run("INSERT INTO empty_one VALUES (1)");
    assert_eq!(all_words(&stage.told(&mut stream)), ["insert empty_one 1"]);
    assert!(stream.notices.iter().any(|notice| notice.contains("empty_one")), "{:?}", stream.notices);
    let (_, next) = stream.commits.last().unwrap().clone();
    drop(stream);

    stage.run("CREATE TABLE filled (a int PRIMARY KEY); INSERT INTO filled VALUES (1)");
    let (class, words) = refusal(&stage, &next, &choice());
    assert!(class == ErrorClass::Unsupported && words.contains("filled"), "{words}");
    let named = Choice { required: vec!["filled"], ..choice() };
    let mut stream = stage.open(&next, &named);
    stage.run("INSERT INTO filled VALUES (2)");
    assert_eq!(all_words(&stage.told(&mut stream)), ["insert filled 2"]);
    assert!(stream.notices.iter().any(|notice| notice.contains("filled")), "{:?}", stream.notices);
}

#[test]
fn tables_that_can_not_be_captured_are_refused_by_name() {
    for (sql, word) in [
        ("CREATE UNLOGGED TABLE bad (a int PRIMARY KEY)", "unlogged"),
        ("CREATE TABLE bad (a int PRIMARY KEY); ALTER TABLE bad REPLICA IDENTITY NOTHING", "NOTHING"),
        ("CREATE TABLE bad (a int PRIMARY KEY DEFERRABLE)", "primary key"),
    ] {
        let stage = Stage::new(sql);
        let error = stage.database().register_capture("E1", &choice()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unsupported);
        let words = error.to_string();
        assert!(words.contains("public.bad") && words.contains(word) && error.next_step().is_some(), "{words}");
        assert!(!stage.database().has_capture("E1").unwrap());
    }
}

#[test]
fn chosen_keys_change_the_replica_identity_and_it_is_put_back() {
    let mut stage = Stage::new(
        "CREATE TABLE d (a int PRIMARY KEY, b int); CREATE TABLE n (b int); ALTER TABLE n REPLICA IDENTITY NOTHING;
         CREATE TABLE i (a int NOT NULL UNIQUE, b int); ALTER TABLE i REPLICA IDENTITY USING INDEX i_a_key;
         CREATE TABLE same (a int PRIMARY KEY, b int)",
    );
    let identities = "SELECT string_agg(relreplident::text, '' ORDER BY relname) FROM pg_class WHERE relname IN ('d', 'n', 'i', 'same')";
    let key = |columns: &[&'static str]| columns.to_vec();
    let chosen = Choice {
        key: vec![("d", key(&["b"])), ("n", key(&["b"])), ("i", key(&["b"])), ("same", key(&["a"]))],
        ..choice()
    };
    assert_eq!(stage.ask(identities), ["dind"]);
    stage.register(&chosen);
    assert_eq!(stage.ask(identities), ["fffd"]);
    stage.database().unregister_capture("E1").unwrap();
    assert_eq!(stage.ask(identities), ["dind"]);
    let index = "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indisreplident";
    assert_eq!(stage.ask(index), ["i_a_key"]);
}

#[test]
fn an_identity_that_stops_telling_the_key_stops_the_group_by_name() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b int)");
    let chosen = Choice { key: vec![("t", vec!["b"])], ..choice() };
    let start = stage.register(&chosen);
    let mut stream = stage.open(&start, &chosen);
    stage.run("INSERT INTO t VALUES (1, 1); ALTER TABLE t REPLICA IDENTITY DEFAULT; INSERT INTO t VALUES (2, 2)");
    let error = stage.try_told(&mut stream).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unsupported);
    assert!(error.to_string().contains("public.t"), "{error}");
}

#[test]
fn a_role_without_superuser_rights_can_capture_its_own_tables() {
    let mut stage = Stage::new("");
    stage.run(&format!(
        "DO $$ BEGIN CREATE ROLE capturer LOGIN REPLICATION; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT CREATE ON DATABASE {} TO capturer; GRANT ALL ON SCHEMA public TO capturer; ALTER TABLE drover_mark OWNER TO capturer;
         CREATE TABLE mine (a int PRIMARY KEY); ALTER TABLE mine OWNER TO capturer; CREATE TABLE theirs (a int PRIMARY KEY)",
        stage.name
    ));
    let database = db_postgres::open(&stage.cluster.url_of("capturer", &stage.name)).unwrap();
    let error = database.register_capture("E1", &choice()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied, "{error:?}");
    assert!(!database.has_capture("E1").unwrap());
    let mine = Choice { only: vec!["mine"], ..choice() };
    let start = database.register_capture("E1", &mine).unwrap();
    let request = SourceRequest { group: "E1".to_owned(), start, tables: Arc::new(mine) };
    let mut stream = Stream::new(database.open_source(request).unwrap());
    stage.run("INSERT INTO mine VALUES (1); INSERT INTO theirs VALUES (1)");
    assert_eq!(all_words(&stage.told(&mut stream)), ["insert mine 1"]);
    drop(stream);
    database.unregister_capture("E1").unwrap();
}

#[test]
fn a_server_that_stops_does_not_wait_for_us() {
    let cluster = Cluster::start(&ClusterOptions::default());
    cluster.psql("postgres", "CREATE TABLE t (a int PRIMARY KEY)");
    let database = db_postgres::open(&cluster.url("postgres")).unwrap();
    let start = database.register_capture("E1", &choice()).unwrap();
    let request = SourceRequest { group: "E1".to_owned(), start, tables: Arc::new(choice()) };
    let mut stream = Stream::new(database.open_source(request).unwrap());
    cluster.psql("postgres", "INSERT INTO t VALUES (1)");
    let class = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            loop {
                if let Err(error) = stream.read() {
                    return error.class();
                }
                let idle = stream.idle.take();
                for position in stream.commits.drain(..).map(|(_, next)| next).chain(idle) {
                    if let Err(error) = stream.source.release(&position) {
                        return error.class();
                    }
                }
            }
        });
        cluster.stop("fast");
        reading.join().unwrap()
    });
    assert_eq!(class, ErrorClass::ConnectionLost);
    cluster.start_again();
    let mut user = connect(&cluster.url("postgres"));
    assert_eq!(user.run("SELECT FROM public.t").unwrap(), 1);
}

#[test]
fn a_registration_that_waits_for_an_open_transaction_gives_up_and_names_it() {
    // On the shared server everybody's registration would wait.
    let cluster = Cluster::start(&ClusterOptions::default());
    cluster.psql("postgres", "CREATE TABLE t (a int PRIMARY KEY)");
    let mut user = connect(&cluster.url("postgres"));
    user.run("BEGIN; INSERT INTO public.t VALUES (1)").unwrap();
    let database = db_postgres::open(&cluster.url("postgres")).unwrap();
    let error = database.register_capture("E1", &choice()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient, "{error:?}");
    let process = user.process_id().to_string();
    assert!(error.next_step().is_some_and(|step| step.contains(&process)), "{error:?}");
    assert!(!database.has_capture("E1").unwrap());
    user.run("COMMIT").unwrap();
    database.register_capture("E1", &choice()).unwrap();
}
