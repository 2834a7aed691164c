//! What applying does beyond what every database does: batches that must not be seen, policies, rights.

use crate::conformance::{SAMPLES, TYPES};
use crate::stage::{Choice, Stage, apply, apply_more, checkpoint, plan, request};
use change::{Change, Operation, RecordAddress, Row, TableDefinition, TableName, Value};
use database::{
    ApplyError, CheckpointRow, ErrorClass, ForeignKeyPolicy, OrderScope, Outcome, Rejection, Session, TriggerPolicy,
    Write,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn row(values: &[Option<&str>]) -> Row {
    Row::from_values(values.iter().map(|value| value.map_or(Value::Null, |text| Value::Bytes(text.as_bytes()))))
}

fn definition(session: &mut dyn Session, table: &str) -> Arc<TableDefinition> {
    let name = TableName::new("public", table);
    let mut definition = session.table(&name).unwrap().expect("the table is there");
    let written = definition.columns.iter().filter(|column| !column.generation.is_computed());
    definition.columns = written.cloned().collect();
    Arc::new(definition)
}

fn change(table: &Arc<TableDefinition>, operation: Operation) -> Change {
    Change { table: Arc::clone(table), operation, address: RecordAddress::default() }
}

fn insert(table: &Arc<TableDefinition>, values: &[Option<&str>]) -> Change {
    change(table, Operation::Insert { new: row(values) })
}

fn update(table: &Arc<TableDefinition>, old: Option<&[Option<&str>]>, new: &[Option<&str>]) -> Change {
    change(table, Operation::Update { old: old.map(row), new: row(new) })
}

fn delete(table: &Arc<TableDefinition>, old: &[Option<&str>]) -> Change {
    change(table, Operation::Delete { old: row(old) })
}

#[track_caller]
fn rejected(result: Result<(), ApplyError>) -> Rejection {
    match result {
        Err(ApplyError::Rejected(rejection)) => rejection,
        other => panic!("a rejection was expected, not {other:?}"),
    }
}

/// `count` inserts into a table of (a, b), numbered from `first`.
fn inserts(table: &Arc<TableDefinition>, first: usize, count: usize) -> Vec<Change> {
    (first..first + count).map(|number| insert(table, &[Some(&number.to_string()), Some("x")])).collect()
}

#[test]
fn the_row_that_does_not_fit_is_named_whatever_the_size_of_its_batch() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b varchar(3), CHECK (b <> 'no'))");
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    // One by one, as an array, by COPY.
    for size in [3, 100, 3000] {
        for (value, outcome) in [("hunter2", Outcome::Value), ("no", Outcome::Constraint)] {
            let mut changes = inserts(&t, 0, size);
            changes[size / 2] = insert(&t, &[Some("1000000"), Some(value)]);
            let rejection = rejected(apply(&mut *session, &changes));
            assert_eq!((rejection.index, rejection.outcome), (size / 2, outcome), "{size} {value}");
            assert!(!rejection.detail.contains("hunter2"), "{}", rejection.detail);
            session.rollback().unwrap();
        }
        let mut changes = inserts(&t, 0, size);
        changes.push(insert(&t, &[Some("1"), Some("x")]));
        let rejection = rejected(apply(&mut *session, &changes));
        assert_eq!((rejection.index, rejection.outcome), (size, Outcome::Duplicate));
        assert!(rejection.detail.contains("t_pkey"), "{}", rejection.detail);
        session.rollback().unwrap();
        let mut changes = inserts(&t, 0, size);
        changes.extend((0..size).map(|number| delete(&t, &[Some(&number.to_string()), Some("x")])));
        changes.insert(size + 1, delete(&t, &[Some("1000000"), None]));
        let rejection = rejected(apply(&mut *session, &changes));
        assert_eq!((rejection.index, rejection.outcome), (size + 1, Outcome::Missing));
        session.rollback().unwrap();
        let mut changes = inserts(&t, 0, size);
        changes.extend((0..size).map(|number| update(&t, None, &[Some(&(number + 1).to_string()), Some("y")])));
        let rejection = rejected(apply(&mut *session, &changes));
        assert_eq!((rejection.index, rejection.outcome), (2 * size - 1, Outcome::Missing));
        session.rollback().unwrap();
    }
    assert_eq!(stage.ask("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_setback_in_a_later_call_keeps_what_went_before() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE)");
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    session.begin().unwrap();
    let number = |number: usize| number.to_string();
    let first: Vec<Change> = (0..2000).map(|n| insert(&t, &[Some(&number(n)), Some(&number(n))])).collect();
    apply_more(&mut *session, &first).unwrap();
    // Unique values move on by one, the last first: no single statement can do that.
    let second: Vec<Change> =
        (0..100).rev().map(|n| update(&t, None, &[Some(&number(1900 + n)), Some(&number(1901 + n))])).collect();
    apply_more(&mut *session, &second).unwrap();
    apply_more(&mut *session, &inserts(&t, 5000, 1)[..0]).unwrap();
    session.commit().unwrap();
    assert_eq!(stage.ask("SELECT count(*), sum(b - a), max(b) FROM t"), ["2000|100|2000"]);
}

/// Trails are purged behind what a commit has made durable.
#[test]
fn commits_wait_for_the_disk_whatever_the_database_is_set_to() {
    let mut stage = Stage::new(
        "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT current_setting('synchronous_commit'));
         DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$",
    );
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    let new = Row::from_values([Value::Bytes(b"1"), Value::Unchanged]);
    session.begin().unwrap();
    apply_more(&mut *session, &[change(&t, Operation::Insert { new })]).unwrap();
    session.commit().unwrap();
    assert_eq!(stage.ask("SELECT b FROM t"), ["on"]);
    // Who asks anew is one whom the database's setting reaches.
    assert_eq!(stage.ask("SELECT setconfig[1] FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"), ["synchronous_commit=off"]);
}

#[test]
fn copies_of_a_later_call_arrive_whatever_stands_between_their_rows() {
    let mut stage =
        Stage::new("CREATE TABLE t (a int PRIMARY KEY, b date); CREATE TABLE other (a int PRIMARY KEY, b date)");
    let mut session = stage.session();
    let (t, other) = (definition(&mut *session, "t"), definition(&mut *session, "other"));
    let day = Some("2026-01-02");
    let days = |table: &Arc<TableDefinition>, numbers: std::ops::Range<usize>, first: Option<&str>| {
        let mut changes: Vec<Change> =
            numbers.clone().map(|number| insert(table, &[Some(&number.to_string()), day])).collect();
        changes[0] = insert(table, &[Some(&numbers.start.to_string()), first]);
        changes
    };
    session.begin().unwrap();
    apply_more(&mut *session, &days(&t, 0..10, day)).unwrap();
    // A notation that the server reads and does not write: at the very start, and behind what was sent already.
    apply_more(&mut *session, &days(&t, 10..2000, Some("3 January 2026"))).unwrap();
    apply_more(&mut *session, &[days(&other, 0..3000, day), days(&other, 3000..4000, Some("4 January 2026"))].concat())
        .unwrap();
    // Two tables in turn, a column that is not told, and a copy behind other statements.
    let untold = |number: usize| {
        change(
            &t,
            Operation::Insert {
                new: Row::from_values([Value::Bytes(number.to_string().as_bytes()), Value::Unchanged]),
            },
        )
    };
    let mut mixed = days(&t, 2000..3500, day);
    mixed.push(untold(3500));
    mixed.extend(days(&other, 4000..5500, day));
    mixed.push(untold(3501));
    mixed.push(delete(&t, &[Some("5"), day]));
    mixed.extend(days(&t, 4000..5500, day));
    apply_more(&mut *session, &mixed).unwrap();
    // What does not fit is named, and what went before stays.
    let mut duplicate = days(&t, 6000..8000, day);
    duplicate[1500] = insert(&t, &[Some("0"), day]);
    let rejection = rejected(apply_more(&mut *session, &duplicate));
    assert_eq!((rejection.index, rejection.outcome), (1500, Outcome::Duplicate));
    session.rollback().unwrap();
    session.begin().unwrap();
    apply_more(&mut *session, &days(&t, 10..2000, Some("3 January 2026"))).unwrap();
    apply_more(&mut *session, &mixed[..1502]).unwrap();
    apply_more(&mut *session, &mixed[1502..]).unwrap_err();
    session.rollback().unwrap();
    session.begin().unwrap();
    apply_more(&mut *session, &days(&t, 0..10, day)).unwrap();
    apply_more(&mut *session, &days(&t, 10..2000, Some("3 January 2026"))).unwrap();
    apply_more(&mut *session, &[days(&other, 0..3000, day), days(&other, 3000..4000, Some("4 January 2026"))].concat())
        .unwrap();
    apply_more(&mut *session, &mixed).unwrap();
    session.commit().unwrap();
    let counts = "SELECT count(*), count(b), count(*) FILTER (WHERE b > '2026-01-02') FROM";
    assert_eq!(stage.ask(&format!("{counts} t")), ["5001|4999|1"]);
    assert_eq!(stage.ask(&format!("{counts} other")), ["5500|5500|1"]);
}

#[test]
fn a_value_too_long_is_refused_in_every_form_and_never_cut() {
    let mut stage = Stage::new(
        "CREATE DOMAIN three AS varchar(3);
         CREATE TABLE t (a int PRIMARY KEY, v varchar(3), c char(3), b bit(3), d three, x varchar(3)[])",
    );
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    let good = [Some("abc"), Some("abc"), Some("101"), Some("abc"), Some("{abc}")];
    let bad = [Some("abcd"), Some("abcd"), Some("1011"), Some("abcd"), Some("{abcd}")];
    for size in [1, 20, 2000] {
        for column in 0..5 {
            let changes: Vec<Change> = (0..size)
                .map(|number: usize| {
                    let mut values = vec![None; 6];
                    let key = number.to_string();
                    values[0] = Some(key.as_str());
                    values[1 + column] = if number == size - 1 { bad[column] } else { good[column] };
                    insert(&t, &values)
                })
                .collect();
            let rejection = rejected(apply(&mut *session, &changes));
            assert_eq!((rejection.index, rejection.outcome), (size - 1, Outcome::Value), "{size} {column}");
            session.rollback().unwrap();
        }
    }
    assert_eq!(stage.ask("SELECT count(*) FROM t"), ["0"]);
}

/// A small generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides as u64).unwrap()
    }
}

#[test]
fn any_history_in_any_cut_leaves_what_a_model_of_it_leaves() {
    let mut stage = Stage::new(
        "CREATE TABLE one (a int PRIMARY KEY, b text, c numeric(12,3)); CREATE TABLE two (a int PRIMARY KEY, b text, c numeric(12,3))",
    );
    let mut session = stage.session();
    let tables = ["one", "two"].map(|table| definition(&mut *session, table));
    for seed in 0..40 {
        let mut dice = Dice(seed);
        stage.run("TRUNCATE one, two");
        let mut model: [BTreeMap<usize, [Option<String>; 2]>; 2] = [BTreeMap::new(), BTreeMap::new()];
        let mut changes = Vec::new();
        let keys = 5 + dice.roll(60);
        for step in 0..600 {
            let which = dice.roll(2);
            let (table, rows) = (&tables[which], &mut model[which]);
            let key = dice.roll(keys);
            let text = key.to_string();
            let values =
                [(dice.roll(5) > 0).then(|| format!("b{step}\t\\")), (dice.roll(5) > 0).then(|| format!("{step}.500"))];
            let [b, c] = values.each_ref().map(|value| value.as_deref());
            let known = rows.get(&key).cloned();
            match (known, dice.roll(8)) {
                (None, _) => {
                    changes.push(insert(table, &[Some(&text), b, c]));
                    rows.insert(key, values);
                }
                (Some(_), 0) => {
                    changes.push(delete(table, &[Some(&text), None, None]));
                    rows.remove(&key);
                }
                (Some(before), 1) => {
                    // One value does not travel.
                    let new = Row::from_values([
                        Value::Bytes(text.as_bytes()),
                        Value::Unchanged,
                        c.map_or(Value::Null, |c| Value::Bytes(c.as_bytes())),
                    ]);
                    changes.push(change(table, Operation::Update { old: None, new }));
                    rows.insert(key, [before[0].clone(), values[1].clone()]);
                }
                (Some(before), 2) => {
                    let moved = dice.roll(keys);
                    if !rows.contains_key(&moved) {
                        let [old_b, old_c] = before.each_ref().map(|value| value.as_deref());
                        changes.push(update(
                            table,
                            Some(&[Some(&text), old_b, old_c]),
                            &[Some(&moved.to_string()), b, c],
                        ));
                        rows.remove(&key);
                        rows.insert(moved, values);
                    }
                }
                (Some(_), _) => {
                    changes.push(update(table, None, &[Some(&text), b, c]));
                    rows.insert(key, values);
                }
            }
            if dice.roll(300) == 0 {
                changes.push(change(table, Operation::truncate()));
                rows.clear();
            }
        }
        session.begin().unwrap();
        let mut rest = &changes[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + dice.roll(400)));
            apply_more(&mut *session, now).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            rest = later;
            if dice.roll(2) == 0 {
                session.commit().unwrap();
                session.begin().unwrap();
            }
        }
        session.commit().unwrap();
        for (name, rows) in ["one", "two"].iter().zip(&model) {
            let expected: Vec<String> = rows
                .iter()
                .map(|(key, values)| {
                    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
                    format!("{key}|{}|{}", text(&values[0]), text(&values[1]))
                })
                .collect();
            assert_eq!(stage.ask(&format!("SELECT * FROM {name} ORDER BY a")), expected, "seed {seed}, table {name}");
        }
    }
}

#[test]
fn rows_that_look_alike_are_changed_one_at_a_time() {
    let mut stage = Stage::new(
        "CREATE TABLE k (a int, b json, c point, d numeric); ALTER TABLE k REPLICA IDENTITY FULL;
         CREATE TABLE copy (a int, b json, c point, d numeric)",
    );
    let start = stage.register(&Choice { only: vec!["k"], ..Choice::default() });
    stage.run(
        "INSERT INTO k SELECT 1, NULL, NULL, NULL FROM generate_series(1, 3);
         INSERT INTO k SELECT 2, '{\"a\": 1}', '(1,2)', 'NaN' FROM generate_series(1, 20)",
    );
    stage.run("DELETE FROM k WHERE ctid = '(0,1)'; UPDATE k SET d = 5 WHERE ctid = '(0,2)'; UPDATE k SET d = d WHERE ctid = '(0,3)'");
    stage.run("DELETE FROM k WHERE ctid IN (SELECT ctid FROM k WHERE a = 2 LIMIT 9)");
    let only = Choice { only: vec!["k"], ..Choice::default() };
    let mut stream = stage.open(&start, &only);
    let told = stage.told(&mut stream);
    let other = Stage::new("CREATE TABLE k (a int, b json, c point, d numeric)");
    let mut session = other.session();
    apply(&mut *session, &told).unwrap();
    let mut other = other;
    let rows = "SELECT a, b, c, d, count(*) FROM k GROUP BY a, b::text, c::text, d, 2, 3 ORDER BY a, d";
    let rows = rows.replace("a, b, c, d, count(*)", "a, b::text, c::text, d, count(*)").replace(", 2, 3", "");
    assert_eq!(other.ask(&rows), stage.ask(&rows));
}

#[test]
fn unlike_columns_are_filled_left_or_refused_by_name() {
    let mut source = Stage::new(
        "CREATE TABLE g (a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b int, c int GENERATED ALWAYS AS (b * 2) STORED, gone text)",
    );
    let mut target = Stage::new(
        "CREATE TABLE g (extra text DEFAULT 'x', c int GENERATED ALWAYS AS (b * 3) STORED, b int,
         a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
    );
    let start = source.register(&Choice::default());
    source.run("INSERT INTO g (b, gone) SELECT i, 'g' FROM generate_series(1, 30) AS i; UPDATE g SET b = 0, gone = NULL WHERE a = 1; DELETE FROM g WHERE a = 2");
    let told = source.told(&mut source.open(&start, &Choice::default()));
    let mut session = target.session();
    apply(&mut *session, &told).unwrap();
    assert_eq!(
        target.ask("SELECT count(*), sum(b), sum(c), min(extra), min(a), max(a) FROM g"),
        ["29|462|1386|x|1|30"]
    );
    // A key that the target makes itself can't be changed.
    let g = Arc::clone(&told[0].table);
    let moved = update(&g, Some(&[Some("3"), None, None]), &[Some("99"), Some("1"), None]);
    match apply(&mut *session, &[moved]) {
        Err(ApplyError::Failed(error)) => {
            assert_eq!(error.class(), ErrorClass::Unsupported);
            assert!(error.to_string().contains("\"a\""), "{error}");
        }
        other => panic!("a refusal was expected, not {other:?}"),
    }
    session.rollback().unwrap();
}

#[test]
fn keys_swapped_at_once_arrive() {
    let tables = "CREATE TABLE t (a int PRIMARY KEY DEFERRABLE, b text); ALTER TABLE t REPLICA IDENTITY FULL";
    let (mut source, mut target) = (Stage::new(tables), Stage::new(tables));
    let start = source.register(&Choice::default());
    source.run("INSERT INTO t VALUES (1, 'one'), (2, 'two'); BEGIN; UPDATE t SET a = 3 - a; UPDATE t SET a = 9 WHERE a = 1; DELETE FROM t WHERE a = 9; COMMIT");
    let told = source.told(&mut source.open(&start, &Choice::default()));
    let mut session = target.session();
    apply(&mut *session, &told).unwrap();
    assert_eq!(target.ask("SELECT * FROM t"), source.ask("SELECT * FROM t"));
    assert_eq!(target.ask("SELECT * FROM t"), ["2|one"]);
}

#[test]
fn several_tables_that_refer_to_each_other_are_truncated() {
    let tables = "CREATE TABLE p (a int PRIMARY KEY); CREATE TABLE c (a int PRIMARY KEY REFERENCES p);";
    let mut stage = Stage::new(tables);
    let mut session = stage.session();
    let [p, c] = ["p", "c"].map(|table| definition(&mut *session, table));
    let one = [Some("1")];
    apply(&mut *session, &[insert(&p, &one), insert(&c, &one)]).unwrap();
    apply(&mut *session, &[change(&p, Operation::truncate()), change(&c, Operation::truncate())]).unwrap();
    assert_eq!(stage.ask("SELECT (SELECT count(*) FROM p) + (SELECT count(*) FROM c)"), ["0"]);
    // Only one of them: the server refuses TRUNCATE, so rows are deleted; foreign keys are left to the source.
    apply(&mut *session, &[insert(&p, &one), insert(&c, &one)]).unwrap();
    apply(&mut *session, &[change(&p, Operation::truncate())]).unwrap();
    assert_eq!(stage.ask("SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM c)"), ["0|1"]);
}

#[test]
fn triggers_and_foreign_keys_follow_the_policy_or_the_table_is_refused() {
    let mut stage = Stage::new(
        "CREATE TABLE log (a int);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (new.a); RETURN new; END $$;
         CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
         CREATE TABLE p (a int PRIMARY KEY, b text); CREATE TABLE c (a int PRIMARY KEY, p int REFERENCES p);
         CREATE TABLE plain (a int PRIMARY KEY, b text)",
    );
    use ForeignKeyPolicy::{Check, Ignore};
    use TriggerPolicy::{Fire, Suppress};
    let noted = |stage: &mut Stage| stage.ask("SELECT count(*) FROM log").remove(0);
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    apply(&mut *session, &inserts(&t, 0, 20)).unwrap();
    assert_eq!(noted(&mut stage), "0");
    drop(session);
    let mut session = stage.session_with(Fire, Check);
    apply(&mut *session, &inserts(&t, 100, 20)).unwrap();
    assert_eq!(noted(&mut stage), "20");
    let c = definition(&mut *session, "c");
    let rejection = rejected(apply(&mut *session, &[insert(&c, &[Some("1"), Some("7")])]));
    assert_eq!(rejection.outcome, Outcome::ForeignKey);
    drop(session);

    for (triggers, foreign_keys, table, word) in
        [(Suppress, Check, "t", "trigger note"), (Fire, Ignore, "c", "c_p_fkey"), (Fire, Ignore, "p", "c_p_fkey")]
    {
        let mut session = stage.session_with(triggers, foreign_keys);
        let error = session.table(&TableName::new("public", table)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Unsupported);
        assert!(error.to_string().contains(word) && error.to_string().contains(table), "{error}");
        let plain = definition(&mut *session, "plain");
        apply(&mut *session, &inserts(&plain, 0, 10)).unwrap();
        session.begin().unwrap();
        session.rollback().unwrap();
        stage.run("TRUNCATE plain");
    }
}

#[test]
fn a_role_without_superuser_rights_applies_what_it_may_and_marks_it() {
    let mut stage = Stage::new("");
    stage.run(&format!(
        "DO $$ BEGIN CREATE ROLE applier LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT CREATE ON DATABASE {} TO applier; GRANT ALL ON SCHEMA public TO applier;
         CREATE TABLE t (a int PRIMARY KEY, b text); GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON t TO applier;
         CREATE TABLE p (a int PRIMARY KEY, b text); CREATE TABLE c (a int PRIMARY KEY, p int REFERENCES p)",
        stage.name
    ));
    let start = stage.register(&Choice::default());
    let mut stream = stage.open(&start, &Choice::default());
    let database = db_postgres::open(&stage.cluster.url_of("applier", &stage.name)).unwrap();
    let name = TableName::new("public", "drover_checkpoint");
    database.create_checkpoint_table(&name).unwrap();
    database.insert_checkpoint(&name, &checkpoint("R1")).unwrap();
    let asked = request("R1", TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore);
    let mut session = database.open_session(asked).unwrap();
    let t = definition(&mut *session, "t");
    apply(&mut *session, &inserts(&t, 0, 20)).unwrap();
    session.begin().unwrap();
    apply_more(&mut *session, &inserts(&t, 100, 20)).unwrap();
    session.save_checkpoint(&checkpoint("R1")).unwrap();
    session.commit().unwrap();
    assert!(stage.told(&mut stream).is_empty(), "our own transactions are left out");
    let error = session.table(&TableName::new("public", "c")).unwrap_err();
    assert!(error.next_step().unwrap().contains("session_replication_role"), "{error:?}");
    let error = session.table(&TableName::new("public", "missing")).unwrap();
    assert!(error.is_none());
}

#[test]
fn row_level_security_fails_and_never_filters() {
    let mut stage = Stage::new("");
    stage.run(&format!(
        "DO $$ BEGIN CREATE ROLE secured LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT ALL ON SCHEMA public TO secured; CREATE TABLE t (a int PRIMARY KEY, b text);
         GRANT ALL ON t TO secured; INSERT INTO t VALUES (1, 'hidden'); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
         CREATE POLICY only_some ON t USING (b <> 'hidden'); SELECT '{}'",
        stage.name
    ));
    let database = db_postgres::open(&stage.cluster.url_of("secured", &stage.name)).unwrap();
    let asked = request("R1", TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore);
    let mut session = database.open_session(asked).unwrap();
    let t = definition(&mut *session, "t");
    match apply(&mut *session, &[update(&t, None, &[Some("1"), Some("new")])]) {
        Err(ApplyError::Failed(error)) => assert_eq!(error.class(), ErrorClass::Denied),
        other => panic!("a failure was expected, not {other:?}"),
    }
}

#[test]
fn a_partitioned_target_takes_rows_of_a_flat_source() {
    let mut stage = Stage::new(
        "CREATE TABLE m (a int, b text, PRIMARY KEY (a)) PARTITION BY RANGE (a);
         CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (50); CREATE TABLE m2 PARTITION OF m FOR VALUES FROM (50) TO (5000);
         CREATE TABLE parent (a int PRIMARY KEY, b text); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1, 'child')",
    );
    let mut session = stage.session();
    let m = definition(&mut *session, "m");
    let mut changes = inserts(&m, 0, 100);
    changes.extend((0..100).map(|n| update(&m, None, &[Some(&n.to_string()), Some("y")])));
    changes.push(update(&m, Some(&[Some("1"), None]), &[Some("1000"), Some("moved")]));
    changes.extend((10..30).map(|n| delete(&m, &[Some(&n.to_string()), None])));
    apply(&mut *session, &changes).unwrap();
    assert_eq!(
        stage.ask("SELECT (SELECT count(*) FROM m1), (SELECT count(*) FROM m2), (SELECT b FROM m WHERE a = 1000)"),
        ["29|51|moved"]
    );
    // A child by inheritance is another table.
    let parent = definition(&mut *session, "parent");
    let rejection = rejected(apply(&mut *session, &[delete(&parent, &[Some("1"), None])]));
    assert_eq!(rejection.outcome, Outcome::Missing);
    session.rollback().unwrap();
    apply(&mut *session, &[change(&parent, Operation::truncate())]).unwrap();
    assert_eq!(stage.ask("SELECT count(*) FROM child"), ["1"]);
}

#[test]
fn plans_of_a_table_that_has_changed_are_refused() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let mut session = stage.session();
    let t = definition(&mut *session, "t");
    let old = plan(&mut *session, &t).unwrap();
    stage.run("ALTER TABLE t RENAME b TO c");
    let operation = Operation::Insert { new: row(&[Some("1"), Some("x")]) };
    session.begin().unwrap();
    let write = database::Write { plan: &old, operation: &operation };
    assert!(matches!(session.apply(&[write]), Err(ApplyError::Failed(_))));
    session.rollback().unwrap();
}

/// Fails if a batch was taken back: the rows are right then too, but the batch was not.
#[track_caller]
fn assert_no_setback(target: &mut Stage, session: Box<dyn Session>) {
    drop(session);
    // A session's statistics are complete when it has gone.
    while target.ask("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        != [""; 0]
    {
        std::thread::yield_now();
    }
    assert_eq!(target.ask("SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"), ["0"]);
}

fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[test]
fn every_type_is_written_alike_one_by_one_as_array_and_by_copy() {
    let columns: Vec<String> =
        SAMPLES.iter().enumerate().map(|(at, (_, native, _))| format!("c{at} {native}")).collect();
    let tables = format!("{TYPES}; CREATE TABLE t (a int PRIMARY KEY, data bytea, {})", columns.join(", "));
    let mut source = Stage::new(&tables);
    let rows = SAMPLES.iter().map(|(_, _, values)| values.len()).max().unwrap();
    let row = |id: usize| {
        let values =
            SAMPLES.iter().map(|(_, _, values)| values.get(id % rows).map_or("NULL".to_owned(), |value| quoted(value)));
        format!("({id}, '\\x{:04x}5c000a', {})", id, values.collect::<Vec<_>>().join(", "))
    };
    let only = Choice { only: vec!["t"], ..Choice::default() };
    let start = source.register(&only);
    let mut stream = source.open(&start, &only);
    for size in [5, 50, 1500] {
        source.run("TRUNCATE t");
        source.told(&mut stream);
        let values: Vec<String> = (0..size).map(row).collect();
        source.run(&format!("INSERT INTO t VALUES {}", values.join(", ")));
        let inserted = source.told(&mut stream);
        let mut target = Stage::new(&tables);
        let mut session = target.session();
        apply(&mut *session, &inserted).unwrap();
        let content = "SELECT t::text FROM t ORDER BY a";
        assert_eq!(target.ask(content), source.ask(content), "inserts by {size}");

        // Every row takes the values of another one.
        let set: Vec<String> = (0..SAMPLES.len()).map(|at| format!("c{at} = o.c{at}")).collect();
        source
            .run(&format!("UPDATE t SET data = o.data, {} FROM t AS o WHERE o.a = (t.a + 1) % {size}", set.join(", ")));
        let updated = source.told(&mut stream);
        assert_eq!(updated.len(), size);
        apply(&mut *session, &updated).unwrap();
        assert_eq!(target.ask(content), source.ask(content), "updates by {size}");
        assert_no_setback(&mut target, session);
    }
}

#[test]
fn rows_are_found_by_keys_of_every_type_one_by_one_and_in_arrays() {
    let mut source = Stage::new(TYPES);
    let mut target = Stage::new(TYPES);
    let mut names: Vec<&'static str> = Vec::new();
    let mut inserts = String::new();
    for (at, (_, native, values)) in SAMPLES.iter().enumerate() {
        let table: &'static str = format!("k{at}").leak();
        let create = format!("CREATE TABLE {table} (a int, k {native}, b text, PRIMARY KEY (k, a))");
        // Types without an order have no keys.
        if source.user.run(&format!("SET search_path = public, pg_catalog; {create}")).is_err() {
            continue;
        }
        target.run(&create);
        names.push(table);
        let rows = values.iter().flat_map(|value| (0..20).map(move |a| format!("({a}, {}, 'old')", quoted(value))));
        inserts.push_str(&format!("INSERT INTO {table} VALUES {};", rows.collect::<Vec<_>>().join(", ")));
    }
    assert!(names.len() > 25, "{names:?}");
    let choice = Choice { only: names.clone(), ..Choice::default() };
    let start = source.register(&choice);
    let mut stream = source.open(&start, &choice);
    source.run(&inserts);
    for name in &names {
        source.run(&format!("UPDATE {name} SET b = 'new' WHERE a < 10; DELETE FROM {name} WHERE a > 10"));
        source.run(&format!("UPDATE {name} SET b = 'one' WHERE a = 1; DELETE FROM {name} WHERE a = 2"));
    }
    let told = source.told(&mut stream);
    let mut session = target.session();
    apply(&mut *session, &told).unwrap();
    for name in &names {
        let content = format!("SELECT t::text FROM {name} AS t ORDER BY 1");
        assert_eq!(target.ask(&content), source.ask(&content), "{name}");
    }
    assert_no_setback(&mut target, session);
}

#[test]
fn types_of_extensions_are_found_and_written_although_their_schema_is_not_searched() {
    let tables =
        "CREATE SCHEMA \"Ext\"; CREATE EXTENSION citext SCHEMA \"Ext\"; CREATE EXTENSION hstore SCHEMA \"Ext\";
                  CREATE TABLE t (k \"Ext\".citext PRIMARY KEY, h \"Ext\".hstore, a \"Ext\".citext[])";
    let (mut source, mut target) = (Stage::new(tables), Stage::new(tables));
    let start = source.register(&Choice::default());
    source.run(
        r#"SET search_path = public, "Ext", pg_catalog; INSERT INTO t SELECT 'Key' || i, '"a\"b"=>"c\\d", e=>NULL', '{A,b}' FROM generate_series(1, 40) AS i;
           UPDATE t SET h = 'x=>1'; DELETE FROM t WHERE k <= 'kEY20'; UPDATE t SET k = lower(k::text) WHERE k = 'KEY3'"#,
    );
    let told = source.told(&mut source.open(&start, &Choice::default()));
    let mut session = target.session();
    apply(&mut *session, &told).unwrap();
    let content = "SELECT t::text FROM t ORDER BY 1";
    assert_eq!(target.ask(content), source.ask(content));
    assert!(target.ask(content).len() > 10);
    assert_no_setback(&mut target, session);
}

#[test]
fn a_new_session_reads_its_row_when_the_backend_of_the_old_one_is_gone() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY)");
    let table = TableName::new("public", "drover_checkpoint");
    stage.database().create_checkpoint_table(&table).unwrap();
    stage.database().insert_checkpoint(&table, &checkpoint("R1")).unwrap();
    let mut old = stage.session();
    old.begin().unwrap();
    old.save_checkpoint(&CheckpointRow { rba: 77, ..checkpoint("R1") }).unwrap();
    let database = stage.database();
    let policies = (TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore);
    let new = std::thread::spawn(move || {
        database.open_session(request("R1", policies.0, policies.1)).unwrap().load_checkpoint().unwrap()
    });
    // It has come as far as it can while the old session is there.
    let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE \
                   '%pg_try_advisory_lock%' AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory') \
                   AND pid <> pg_backend_pid()";
    while stage.ask(waiting).is_empty() && !new.is_finished() {
        std::thread::yield_now();
    }
    old.commit().unwrap();
    drop(old);
    assert_eq!(new.join().unwrap().map(|row| row.rba), Some(77));
}

#[test]
fn a_whole_transaction_fails_where_the_checkpoint_row_is_not_as_it_was_left() {
    let mut stage = Stage::new("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE was (LIKE t)");
    let table = TableName::new("public", "drover_checkpoint");
    stage.database().create_checkpoint_table(&table).unwrap();
    stage.database().insert_checkpoint(&table, &checkpoint("R1")).unwrap();
    let mut session = stage.session();
    session.load_checkpoint().unwrap();
    let t = definition(&mut *session, "t");
    let plan = plan(&mut *session, &t).unwrap();
    let mut rba = 100;
    // The row's values differ in each column in turn.
    for altered in ["rba = rba - 1", "seqno = seqno + 1", "log_csn = 'another'", "log_csn = NULL"] {
        for size in [0, 1, 100] {
            rba += 10;
            let row = CheckpointRow { rba, log_csn: Some(format!("{rba}")), ..checkpoint("R1") };
            session.begin().unwrap();
            session.commit_with(&[], &row).unwrap();
            let before = stage.ask("SELECT count(*)::text FROM t");
            stage.run(&format!("UPDATE drover_checkpoint SET {altered}"));
            let changes = inserts(&t, rba as usize * 1000, size);
            let writes: Vec<_> =
                changes.iter().map(|change| Write { plan: &plan, operation: &change.operation }).collect();
            session.begin().unwrap();
            match session.commit_with(&writes, &CheckpointRow { rba: rba + 1, ..row.clone() }).unwrap_err().error {
                ApplyError::Failed(error) => {
                    assert_eq!(error.class(), ErrorClass::ConnectionLost);
                    assert!(error.to_string().contains("not as it was left"), "{error}");
                }
                ApplyError::Rejected(rejection) => panic!("no row is at fault: {rejection:?}"),
            }
            session.rollback().unwrap();
            assert_eq!(stage.ask("SELECT count(*)::text FROM t"), before, "{altered}, {size} rows");
            // Whoever reads the row goes on from there.
            session.load_checkpoint().unwrap();
            session.begin().unwrap();
            session.commit_with(&writes, &row).unwrap();
        }
    }
}

#[test]
fn what_tables_demand_of_the_order_of_writes_is_read_from_the_catalog() {
    let stage = Stage::new(
        "CREATE TABLE plain (a int, b text, c numeric(10,2), d numeric, PRIMARY KEY (b, a), UNIQUE (c) INCLUDE (d));
         CREATE UNIQUE INDEX ON plain (a) WHERE d > 0;
         CREATE INDEX ON plain (d);
         CREATE TABLE child (id int PRIMARY KEY, x int, y text, FOREIGN KEY (x, y) REFERENCES plain (a, b));
         CREATE TABLE expression (id int PRIMARY KEY, a text);
         CREATE UNIQUE INDEX ON expression (lower(a));
         CREATE TABLE excluded (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
         CREATE TABLE inexact (id numeric PRIMARY KEY);
         CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE collated (id text COLLATE any_case PRIMARY KEY);
         CREATE TABLE elsewhere (id text PRIMARY KEY);
         CREATE UNIQUE INDEX ON elsewhere (id COLLATE any_case);
         CREATE TABLE pattern (id text);
         CREATE UNIQUE INDEX ON pattern (id text_pattern_ops);
         CREATE TABLE parted (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
         CREATE TABLE own (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
         CREATE TABLE own_part PARTITION OF own FOR VALUES FROM (0) TO (10);
         CREATE UNIQUE INDEX ON own_part (a);
         CREATE TABLE keyless (a int);
         CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TABLE quiet (id int PRIMARY KEY);
         CREATE TRIGGER quiet AFTER INSERT ON quiet FOR EACH ROW EXECUTE FUNCTION nothing();
         CREATE TABLE always (id int PRIMARY KEY);
         CREATE TRIGGER always AFTER INSERT ON always FOR EACH ROW EXECUTE FUNCTION nothing();
         ALTER TABLE always ENABLE ALWAYS TRIGGER always",
    );
    let mut session = stage.session();
    let mut order = |table: &str| {
        let name = TableName::new("public", table);
        let definition = session.table(&name).unwrap().expect("the table is there");
        let order = session.order(&name).unwrap();
        let names = |columns: &[usize]| {
            columns.iter().map(|column| definition.columns[*column].name.as_str()).collect::<Vec<_>>().join(",")
        };
        let mut unique: Vec<String> = order.unique.iter().map(|key| names(&key.columns)).collect();
        unique.sort_unstable();
        let references = order
            .references
            .iter()
            .map(|key| format!("{}>{}({})", names(&key.columns), key.parent, key.parent_columns.join(",")));
        (order.scope, unique.join(" "), references.collect::<Vec<_>>().join(" "))
    };
    let rows = |unique: &str, references: &str| (OrderScope::Rows, unique.to_owned(), references.to_owned());
    assert_eq!(order("plain"), rows("a b,a c", ""));
    assert_eq!(order("child"), rows("id", "x,y>public.plain(a,b)"));
    for table in ["pattern", "parted", "part", "quiet"] {
        assert_eq!(order(table), rows("id", ""), "{table}");
    }
    assert_eq!(order("keyless"), rows("", ""));
    for table in ["expression", "excluded", "inexact", "collated", "elsewhere", "own"] {
        assert_eq!(order(table).0, OrderScope::Table, "{table}");
    }
    assert_eq!(order("always").0, OrderScope::Database);
    // Where triggers or foreign keys may write, too, nothing can be told from the changes.
    let mut checking =
        stage.database().open_session(request("R2", TriggerPolicy::Suppress, ForeignKeyPolicy::Check)).unwrap();
    let name = TableName::new("public", "keyless");
    checking.table(&name).unwrap().expect("the table is there");
    assert_eq!(checking.order(&name).unwrap().scope, OrderScope::Database);
}
