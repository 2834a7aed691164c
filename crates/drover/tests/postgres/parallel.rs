//! Several appliers, and changes that lean on each other in every way.

use super::stage::{Pair, Side, Stage};
use crate::stage::eventually;
use std::process::{Child, Stdio};
use std::time::Duration;

/// How many times something is killed.
pub(super) fn kills() -> usize {
    std::env::var("DROVER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

pub(super) const SCHEMA: &str = "
    CREATE TABLE seat (id int PRIMARY KEY, place int UNIQUE);
    CREATE TABLE chain (id int PRIMARY KEY, before int);
    CREATE TABLE parent (id int PRIMARY KEY, n int);
    CREATE TABLE child (id bigint PRIMARY KEY, parent int NOT NULL REFERENCES parent);
    CREATE TABLE tree (id bigint PRIMARY KEY, above bigint REFERENCES tree);
    CREATE TABLE hot (id int PRIMARY KEY, n bigint);
    CREATE TABLE history (id int, number bigint, PRIMARY KEY (id, number));
    CREATE TABLE named (id int PRIMARY KEY, name text);
    CREATE UNIQUE INDEX ON named (lower(name));
    CREATE SEQUENCE numbers";

pub(super) const ROWS: &str = "
    INSERT INTO seat SELECT n, n FROM generate_series(1, 30) AS n;
    INSERT INTO chain SELECT 100 * c + 2 * n, 0 FROM generate_series(0, 7) AS c, generate_series(0, 4) AS n;
    INSERT INTO hot SELECT n, 0 FROM generate_series(1, 20) AS n;
    INSERT INTO named SELECT n, 'name ' || n FROM generate_series(1, 10) AS n";

/// Scripts of pgbench with their weights. Rows are locked first where two sessions could meet, so that none fails.
const SCRIPTS: [(&str, u32); 6] = [
    // Two rows change their unique values.
    (
        "\\set a random(1, 30)\n\\set b random(1, 30)\nBEGIN;\n\
         SELECT a.place AS pa, b.place AS pb FROM seat a, seat b WHERE a.id = :a AND b.id = :b FOR UPDATE \\gset\n\
         UPDATE seat SET place = NULL WHERE id = :a;\nUPDATE seat SET place = :pa WHERE id = :b;\n\
         UPDATE seat SET place = :pb WHERE id = :a;\nEND;\n",
        3,
    ),
    // Keys move into gaps that others have left.
    (
        "\\set m random(0, 9)\n\\set n random(0, 9)\n\
         UPDATE chain SET id = 100 * :client_id + :n, before = id WHERE id = 100 * :client_id + :m \
         AND NOT EXISTS (SELECT FROM chain WHERE id = 100 * :client_id + :n);\n",
        4,
    ),
    // Parents come and go with their children.
    (
        "\\set p random(1, 12)\n\\set go random(1, 4)\nBEGIN;\nINSERT INTO parent VALUES (:p, 0) ON CONFLICT DO NOTHING;\n\
         UPDATE parent SET n = n + 1 WHERE id = :p;\n\
         INSERT INTO child SELECT nextval('numbers'), id FROM parent WHERE id = :p;\n\
         DELETE FROM child WHERE parent = :p AND :go = 1;\nDELETE FROM parent WHERE id = :p AND :go = 1;\nEND;\n",
        3,
    ),
    // Rows that refer to their own table.
    (
        "BEGIN;\nINSERT INTO tree VALUES (1000000 * :client_id, NULL) ON CONFLICT DO NOTHING;\n\
         INSERT INTO tree SELECT 1000000 * :client_id + 1 + count(*), max(id) FROM tree \
         WHERE id BETWEEN 1000000 * :client_id AND 1000000 * :client_id + 999999;\n\
         DELETE FROM tree WHERE id BETWEEN 1000000 * :client_id AND 1000000 * :client_id + 999999 AND \
         (SELECT count(*) > 20 FROM tree WHERE id BETWEEN 1000000 * :client_id AND 1000000 * :client_id + 999999);\nEND;\n",
        2,
    ),
    // Hot rows, each with its history.
    (
        "\\set h random(1, 20)\n\\set h (:h * :h - 1) / 20 + 1\nBEGIN;\n\
         UPDATE hot SET n = n + 1 WHERE id = :h RETURNING n AS n \\gset\nINSERT INTO history VALUES (:h, :n);\nEND;\n",
        6,
    ),
    // A unique index over an expression, which no values tell of.
    (
        "\\set a random(1, 10)\n\\set b random(1, 10)\nBEGIN;\n\
         SELECT a.name AS na, b.name AS nb FROM named a, named b WHERE a.id = :a AND b.id = :b FOR UPDATE \\gset\n\
         UPDATE named SET name = NULL WHERE id = :a;\nUPDATE named SET name = upper(:na) WHERE id = :b;\n\
         UPDATE named SET name = :nb WHERE id = :a AND :a <> :b;\nEND;\n",
        1,
    ),
];

/// Starts pgbench with all scripts.
pub(super) fn pgbench(side: &Side<'_>, seed: u64) -> Child {
    for (place, (script, _)) in SCRIPTS.iter().enumerate() {
        let path = side.cluster.directory().join(format!("script{place}.sql"));
        std::fs::write(path, script).expect("a script");
    }
    let mut command = side.cluster.command("pgbench");
    command.args([
        "-n",
        "-c",
        "8",
        "-R",
        "600",
        "-T",
        "600",
        "--max-tries=100",
        "-M",
        "extended",
        "-U",
        "postgres",
        "-h",
    ]);
    command.arg(side.cluster.directory()).args(["-p", &side.cluster.port().to_string()]);
    command.arg(format!("--random-seed={seed}"));
    for (place, (_, weight)) in SCRIPTS.iter().enumerate() {
        let path = side.cluster.directory().join(format!("script{place}.sql"));
        command.arg("-f").arg(format!("{}@{weight}", path.display()));
    }
    command.arg(&side.database).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench starts")
}

#[test]
fn eight_appliers_end_equal_with_each_keys_history_in_order_whatever_is_killed() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pair = Pair::start(&[("max_replication_slots", "30"), ("max_connections", "60")]);
    let stage = Stage::on(&pair.source, &pair.target, SCHEMA);
    [&stage.source, &stage.target].into_iter().for_each(|side| _ = side.run(ROWS));
    stage.target.run("ALTER TABLE history ADD arrival bigserial");
    let rules = "MAP *.*, TARGET *.*;";
    stage.replicat_parameters(&format!("APPLY_PARALLELISM 8\nGROUPTRANSOPS 4\n{rules}"));
    stage.add_groups();
    let mut work = pgbench(&stage.source, seed);
    let (extract, mut replicat) = (stage.extract(), stage.replicat());
    let mut apart = 0;
    for _ in 0..kills() {
        // The moment of a kill is the test's input.
        std::thread::sleep(Duration::from_millis(random.u64(50..1500)));
        extract.assert_running();
        replicat.assert_running();
        assert!(work.try_wait().expect("its status").is_none(), "the work goes on");
        if random.u8(..) < 60 {
            if random.bool() {
                stage.target.cluster.kill()
            } else {
                stage.target.cluster.stop("immediate")
            };
            stage.target.cluster.start_again();
            continue;
        }
        replicat.kill();
        // A killed process may have left its sessions at work: their rows count when they are gone.
        let others = "SELECT count(*) < 2 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() \
                      AND backend_type = 'client backend'";
        eventually("the sessions of a killed process end", || (stage.target.run(others) == "t").then_some(()));
        if stage.target.holds("SELECT FROM public.checkpoints HAVING max(log_csn) > max(log_cmplt_csn)") {
            apart += 1;
            // Transactions are applied before earlier ones: no others rules than theirs may go on.
            let excluded = format!("APPLY_PARALLELISM 8\nGROUPTRANSOPS 4\n{rules}\nMAPEXCLUDE public.nothing");
            stage.replicat_parameters(&excluded);
            let message = stage.replicat().fails();
            assert!(message.contains("MAP rules"), "{message}");
            stage.replicat_parameters(&format!("APPLY_PARALLELISM 8\nGROUPTRANSOPS 4\n{rules}"));
        }
        replicat = stage.replicat();
    }
    println!("{apart} times the watermarks were apart");
    // It writes on otherwise; what it has committed stays.
    work.kill().expect("pgbench can be ended");
    work.wait().expect("pgbench ends");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();

    stage.assert_equal_but(&["public.history"]);
    stage.assert_history_in_order();
    // A clean stop leaves one row, and nothing applied ahead of anything.
    assert_eq!(stage.target.run("SELECT count(*), min(log_csn) = min(log_cmplt_csn) FROM checkpoints"), "1|t");
}

#[test]
fn the_origins_of_a_group_and_its_appliers_go_with_it() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY)");
    stage.source.run("INSERT INTO t VALUES (1)");
    stage.replicate();
    // Origins belong to the server; their names hold the number of the database.
    let origins = "SELECT count(*) FROM pg_replication_origin, pg_database \
                   WHERE datname = current_database() AND roname LIKE 'drover%\\_' || oid || '\\_%'";
    let made: u32 = stage.target.run(origins).parse().expect("a number");
    assert!(made >= 2, "the group's, and one for each applier that had work: {made}");
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; DELETE REPLICAT r1", stage.target.url()));
    assert_eq!(stage.target.run(origins), "0");
}
