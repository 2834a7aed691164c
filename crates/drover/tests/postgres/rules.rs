//! Rules for rows that do not fit: several appliers that are killed again and again, beside one session that is not, from one trail.

use super::stage::Stage;
use crate::stage::{Running, drover, eventually};

const SCHEMA: &str = "
    CREATE TABLE part (id int PRIMARY KEY, v text, n int);
    CREATE TABLE account (id int PRIMARY KEY, balance int, word text, changed int);
    CREATE TABLE kept (id int PRIMARY KEY, n int);
    CREATE TABLE loaded (id int PRIMARY KEY, code int UNIQUE, v text);
    ALTER TABLE part REPLICA IDENTITY FULL; ALTER TABLE account REPLICA IDENTITY FULL; ALTER TABLE kept REPLICA IDENTITY FULL;
    INSERT INTO part SELECT n, 'a', 0 FROM generate_series(1, 40) AS n;
    INSERT INTO account SELECT n, 100, 'a', 0 FROM generate_series(1, 40) AS n;
    INSERT INTO loaded SELECT n, n, 'a' FROM generate_series(1, 40) AS n";

/// What the target has besides, and otherwise.
const TARGET: &str = "
    ALTER TABLE part ADD CONSTRAINT few CHECK (n < 90);
    CREATE TABLE kept_history (arrival bigserial, id int, n int);
    CREATE TABLE refused (arrival bigserial, id int, code int, v text, error text, csn text);
    UPDATE account SET balance = 50, word = 'mine', changed = 30 WHERE id % 4 = 0; DELETE FROM account WHERE id % 10 = 1;
    DELETE FROM part WHERE id = 7; DELETE FROM loaded WHERE id % 5 = 0; UPDATE loaded SET code = code + 1000 WHERE id % 7 = 0";

const RULES: &str = "
    REPERROR (DEFAULT, ABEND)
    REPERROR (CONSTRAINT, TRANSQUEUE HOLD)
    REPERROR (DUPLICATE, TRANSQUEUE HOLD)
    REPERROR (MISSING, DISCARD)
    MAP public.signal, TARGET public.signal;
    MAP public.part, TARGET public.part;
    REPERROR (DUPLICATE, TRANSQUEUE)
    REPERROR (MISSING, TRANSDISCARD)
    MAP public.account, TARGET public.account, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL),
      RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (changed))),
      RESOLVECONFLICT (UPDATEROWEXISTS, (sum, USEDELTA, COLS (balance)), (DEFAULT, USEMAX (changed))),
      RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, DISCARD)),
      RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, OVERWRITE));
    REPERROR (DUPLICATE, EXCEPTION)
    REPERROR (MISSING, EXCEPTION)
    MAP public.loaded, TARGET public.loaded, MAPEXCEPTION (TARGET public.refused, INSERTALLRECORDS,
      COLMAP (USEDEFAULTS, error = @GETENV ('LASTERR', 'DBERRNUM'), csn = @GETENV ('TRANSACTION', 'CSN')));
    MAP public.kept, TARGET public.kept_history, INSERTALLRECORDS, KEYCOLS (id);";

/// One that is written while it is read, with rows in it that are refused.
const LARGE: &str = "INSERT INTO account SELECT n, n, 'many', 1 FROM generate_series(500, 6000) AS n; \
                     UPDATE account SET word = 'more', changed = changed + 1 WHERE id < 1000";

/// Transactions of one source, in the order of the lines.
fn workload(random: &mut fastrand::Rng, transactions: u32) -> String {
    let mut script = String::new();
    for number in 0..transactions {
        script.push_str("BEGIN;");
        for _ in 0..random.u32(1..4) {
            let id = random.u32(1..=60);
            let change = match random.u8(..12) {
                0..=2 => format!("UPDATE part SET n = {}, v = v || 'b' WHERE id = {id};", random.u32(..100)),
                3 => format!("INSERT INTO part VALUES ({id}, 'new', {}) ON CONFLICT DO NOTHING;", random.u32(..95)),
                4 => format!("DELETE FROM part WHERE id = {id};"),
                5 | 6 => format!(
                    "UPDATE account SET balance = balance + 1, word = 'w{number}', changed = {number} WHERE id = {id};"
                ),
                7 => format!("DELETE FROM account WHERE id = {id};"),
                8 => format!("INSERT INTO account VALUES ({id}, 7, 'new', {number}) ON CONFLICT DO NOTHING;"),
                9 => format!("INSERT INTO kept VALUES ({id}, {number}) ON CONFLICT (id) DO UPDATE SET n = {number};"),
                // The unique value of a row that goes is taken by one that comes; its old value is in no log.
                10 => format!(
                    "DELETE FROM loaded WHERE id = {id}; INSERT INTO loaded VALUES ({}, {id}, 'new') ON CONFLICT DO NOTHING;",
                    random.u32(1..=60)
                ),
                _ => format!("UPDATE loaded SET v = 'v{number}' WHERE id = {id};"),
            };
            script.push_str(&change);
        }
        script.push_str("COMMIT;\n");
    }
    script
}

/// Everything that tells what the rules did, in order.
const TOLD: [&str; 8] = [
    "SELECT * FROM part ORDER BY id",
    "SELECT * FROM account ORDER BY id",
    "SELECT * FROM loaded ORDER BY id",
    "SELECT id, n FROM kept_history ORDER BY arrival",
    "SELECT id, code, v, error, csn FROM refused ORDER BY arrival",
    "SELECT seqno, rba, origin_tran_id, csn, callno, error_number, error_msg, held_behind \
     FROM drover.error_transaction ORDER BY seqno, rba",
    "SELECT deferred_tran_id, callno, packagename, procname, old_values, new_values, current_values \
     FROM drover.error_call ORDER BY string_to_array(substr(deferred_tran_id, 4), '.')::bigint[], callno",
    "SELECT oname, conflict_type, reference_name, sequence_no, method_name, resolution, failure, primary_key_value, \
     origin_tran_id, csn, old_values, new_values, current_values FROM drover.conflict \
     ORDER BY split_part(conflict_id, '.', 2)::bigint, split_part(conflict_id, '.', 3)::bigint, split_part(conflict_id, '.', 6)::int",
];

fn told(stage: &Stage<'_>, database: &str) -> Vec<String> {
    TOLD.iter().map(|query| stage.target.cluster.psql(database, query).replace("R2.", "R1.")).collect()
}

/// Entries of a discard file; one that a crash has let be told twice counts once.
fn discarded(stage: &Stage<'_>, group: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for entry in stage.text(&format!("dirrpt/{group}.dsc")).split("\n\n").map(str::to_owned) {
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

#[test]
fn appliers_that_are_killed_follow_the_rules_as_one_session_does() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::bare(SCHEMA);
    stage.target.run(TARGET);
    let (one, several) = (stage.target.database.clone(), format!("{}_several", stage.target.database));
    stage.target.cluster.psql("postgres", &format!("CREATE DATABASE {several} TEMPLATE {one}"));
    let url = stage.target.cluster.url(&several);
    stage.extract_parameters("TABLE public.*;");
    stage.replicat_parameters(&format!("APPLY_PARALLELISM CLASSIC\n{RULES}"));
    stage.parameters("r2", &format!("REPLICAT r2\nTARGETDB {url}\nAPPLY_PARALLELISM 5\nGROUPTRANSOPS 6\n{RULES}\n"));
    stage.add_groups();
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; ADD ERRORQUEUE", stage.target.url()));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{url}'\nADD ERRORQUEUE\nADD CHECKPOINTTABLE public.checkpoints\n\
         ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE public.checkpoints"
    ));
    let start = || {
        let mut command = drover();
        command.args(["replicat", "r2", "--home"]).arg(stage.home());
        Running::start(command)
    };
    let (extract, replicat, mut appliers) = (stage.extract(), stage.replicat(), start());
    let counted = |query: &str| stage.target.cluster.psql(&several, query);
    for round in 0..5 {
        const MET: &str = "SELECT (SELECT count(*) FROM drover.conflict) + (SELECT count(*) FROM refused) + \
                           (SELECT count(*) FROM drover.error_transaction)";
        let seen = counted(MET);
        stage.source.script(&workload(&mut random, 120));
        if round == 3 {
            stage.source.run(LARGE);
        }
        let more = format!("{MET} > {seen} + {}", random.u32(0..8));
        if round < 4 {
            eventually("the appliers meet something", || {
                appliers.assert_running();
                (counted(&more) == "t").then_some(())
            });
            appliers.kill();
            appliers = start();
        }
    }
    let number = stage.send_signal();
    stage.await_signal(number, &[&extract, &replicat, &appliers]);
    eventually("the appliers are done", || {
        appliers.assert_running();
        (counted(&format!("SELECT count(*) FROM signal WHERE number = {number}")) == "1").then_some(())
    });
    extract.stop();
    replicat.stop();
    appliers.stop();
    let (expected, found) = (told(&stage, &one), told(&stage, &several));
    for ((query, expected), found) in TOLD.iter().zip(&expected).zip(&found) {
        let rows = expected.lines().count();
        println!("{rows} rows: {query}");
        assert!(expected == found, "DROVER_SEED={seed} {query}\n{}", first_difference(expected, found));
        assert!(rows > 0, "{query} tells too little: {expected}");
    }
    assert_eq!(discarded(&stage, "R2"), discarded(&stage, "R1"), "DROVER_SEED={seed}");
    stage.target.cluster.psql("postgres", &format!("DROP DATABASE {several} WITH (FORCE)"));
}

fn first_difference(expected: &str, found: &str) -> String {
    let mut lines = expected.lines().zip(found.lines());
    let counts = format!("{} rows and {}", expected.lines().count(), found.lines().count());
    match lines.find(|(one, other)| one != other) {
        Some((one, other)) => format!("{counts}\none session: {one}\nseveral:     {other}"),
        None => counts,
    }
}
