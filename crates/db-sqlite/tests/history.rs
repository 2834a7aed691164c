//! Random histories: whatever users do, a target that follows is equal.

use crate::stage::{Follower, Stage, rows};
use std::fmt::Write as _;

/// Tables of every kind of key, with what makes replacing rows interesting.
const SCHEMA: &str = "
CREATE TABLE plain (id INTEGER PRIMARY KEY, u TEXT UNIQUE, v);
CREATE TABLE two (a, b, c TEXT COLLATE NOCASE, d, PRIMARY KEY (a, b), UNIQUE (c), UNIQUE (d, a));
CREATE TABLE bare (k TEXT COLLATE NOCASE, j INTEGER, v UNIQUE, PRIMARY KEY (k, j DESC)) WITHOUT ROWID;
CREATE TABLE strict (id INTEGER PRIMARY KEY, r REAL UNIQUE, t TEXT, a ANY) STRICT;
CREATE TABLE hidden (k TEXT NOT NULL UNIQUE, v);
CREATE TABLE made (id INTEGER PRIMARY KEY, v INTEGER, twice INTEGER AS (v * 2) STORED UNIQUE, low AS (abs(v)));
CREATE TABLE part (id INTEGER PRIMARY KEY, owner, active, name TEXT);
CREATE UNIQUE INDEX part_active ON part (owner) WHERE active > 0;
CREATE UNIQUE INDEX part_name ON part (lower(name), abs(active) % 2);
CREATE TABLE defaults (id INTEGER PRIMARY KEY, u TEXT NOT NULL DEFAULT 'x' UNIQUE ON CONFLICT REPLACE, v NOT NULL DEFAULT 5);
CREATE TABLE parent (id INTEGER PRIMARY KEY, up INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE, v UNIQUE);
CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER UNIQUE REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE, v);
CREATE TABLE log (n INTEGER PRIMARY KEY AUTOINCREMENT, what, id);
CREATE TABLE busy (id INTEGER PRIMARY KEY, u UNIQUE, seen DEFAULT 0, v);
CREATE TRIGGER busy_after AFTER INSERT ON busy BEGIN
    INSERT INTO log (what, id) VALUES ('busy', NEW.id);
    UPDATE busy SET seen = seen + 1 WHERE id = NEW.id;
END;
CREATE TRIGGER busy_before BEFORE INSERT ON busy WHEN NEW.v = 'clear' BEGIN
    UPDATE busy SET v = 'cleared' WHERE u = NEW.u;
    DELETE FROM busy WHERE u = NEW.v;
    INSERT OR REPLACE INTO busy (u, v) VALUES (abs(random() % 5), 'nested');
END;
CREATE TRIGGER busy_update AFTER UPDATE OF u ON busy BEGIN
    INSERT OR REPLACE INTO plain (u, v) VALUES (NEW.u, 'from busy');
END;
CREATE TRIGGER plain_delete AFTER DELETE ON plain BEGIN
    INSERT INTO log (what, id) VALUES ('gone', OLD.id);
END;
";

const TABLES: [&str; 12] =
    ["plain", "two", "bare", "strict", "hidden", "made", "part", "defaults", "parent", "child", "log", "busy"];

fn value(random: &mut fastrand::Rng) -> String {
    match random.u8(0..12) {
        0 => "NULL".to_owned(),
        1 | 2 => random.i64(0..6).to_string(),
        3 => format!("{}.0", random.i64(0..4)),
        4 => format!("'{}'", random.i64(0..4)),
        5 => format!("'{}'", *random.choice(&["a", "A", "b", "B", "c"]).expect("a choice")),
        6 => "x'00'".to_owned(),
        7 => "''".to_owned(),
        8 => format!("{}.5", random.i64(-2..2)),
        _ => format!("'{}'", *random.choice(&["a", "b", "A"]).expect("a choice")),
    }
}

fn small(random: &mut fastrand::Rng) -> String {
    random.i64(0..7).to_string()
}

fn conflict(random: &mut fastrand::Rng) -> &'static str {
    random
        .choice(&["", "", "OR REPLACE ", "OR REPLACE ", "OR REPLACE ", "OR IGNORE ", "OR FAIL ", "OR ABORT "])
        .expect("a choice")
}

type Make = fn(&mut fastrand::Rng) -> String;

/// Columns with what goes into them.
fn columns(table: &str) -> &'static [(&'static str, Make)] {
    match table {
        "plain" => &[("id", small), ("u", value), ("v", value)],
        "two" => &[("a", value), ("b", value), ("c", value), ("d", small)],
        "bare" => &[("k", value), ("j", small), ("v", value)],
        "strict" => &[("id", small), ("r", small), ("t", value), ("a", value)],
        "hidden" => &[("k", value), ("v", value)],
        "made" => &[("id", small), ("v", small)],
        "part" => &[("id", small), ("owner", small), ("active", small), ("name", value)],
        "defaults" => &[("id", small), ("u", value), ("v", value)],
        "parent" => &[("id", small), ("up", small), ("v", value)],
        "child" => &[("id", small), ("p", small), ("v", value)],
        "busy" => &[("id", small), ("u", value), ("v", busy_value)],
        _ => &[("what", value), ("id", small)],
    }
}

fn busy_value(random: &mut fastrand::Rng) -> String {
    if random.u8(0..4) == 0 { "'clear'".to_owned() } else { value(random) }
}

fn statement(random: &mut fastrand::Rng) -> String {
    let table = *random.choice(&TABLES).expect("a table");
    let all = columns(table);
    // Sometimes the rowid is left to SQLite.
    let skip = usize::from(all[0].0 == "id" && random.u8(0..4) == 0);
    let chosen = &all[skip..];
    let names = chosen.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let row = |random: &mut fastrand::Rng| {
        let values: Vec<String> = chosen.iter().map(|(_, make)| make(random)).collect();
        format!("({})", values.join(", "))
    };
    let (column, make) = *random.choice(all).expect("a column");
    let (other, make_other) = *random.choice(all).expect("a column");
    match random.u8(0..10) {
        0..=4 => {
            let rows: Vec<String> = (0..random.usize(1..4)).map(|_| row(random)).collect();
            format!("INSERT {}INTO {table} ({names}) VALUES {}", conflict(random), rows.join(", "))
        }
        5 => format!(
            "INSERT INTO {table} ({names}) VALUES {} ON CONFLICT DO UPDATE SET {column} = {}",
            row(random),
            make(random)
        ),
        6 => format!(
            "UPDATE {}{table} SET {column} = {} WHERE {other} = {}",
            conflict(random),
            make(random),
            make_other(random)
        ),
        7 => format!(
            "UPDATE {}{table} SET {column} = {} WHERE {other} IS NOT {}",
            conflict(random),
            make(random),
            make_other(random)
        ),
        8 => format!("DELETE FROM {table} WHERE {other} = {}", make_other(random)),
        _ => format!("REPLACE INTO {table} ({names}) VALUES {}", row(random)),
    }
}

/// Statements that fail are part of the history.
fn run(stage: &Stage, random: &mut fastrand::Rng, told: &mut String) {
    let mut execute = |sql: &str| {
        let result = stage.user.execute_batch(sql);
        let _ = writeln!(told, "{sql}; -- {:?}", result.err().map(|error| error.to_string()));
    };
    execute(&format!("PRAGMA recursive_triggers = {}", random.bool()));
    execute(&format!("PRAGMA foreign_keys = {}", random.bool()));
    for _ in 0..random.usize(1..4) {
        execute("BEGIN");
        for _ in 0..random.usize(1..8) {
            if random.u8(0..6) == 0 {
                execute("SAVEPOINT s");
                execute(&statement(random));
                execute(random.choice(&["RELEASE s", "ROLLBACK TO s"]).expect("a choice"));
            }
            execute(&statement(random));
        }
        execute(random.choice(&["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]).expect("a choice"));
        // A commit that a foreign key forbids leaves the transaction open.
        if !stage.user.is_autocommit() {
            execute("ROLLBACK");
        }
    }
}

#[test]
fn a_target_that_follows_a_random_history_is_equal() {
    let rounds: u64 = std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let first: u64 = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let stage = Stage::new(SCHEMA);
        let mut follower = Follower::new(SCHEMA);
        let target = follower.file.user();
        let mut stream = stage.stream();
        let mut told = String::new();
        for step in 0..12 {
            run(&stage, &mut random, &mut told);
            let changes = stream.drain();
            let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| follower.apply(&changes)));
            let words: Vec<String> = changes.iter().map(crate::stage::describe).collect();
            assert!(applied.is_ok(), "seed {seed}, step {step}:\n{told}\n{}", words.join("\n"));
            for table in TABLES {
                assert_eq!(
                    rows(&target, table),
                    rows(&stage.user, table),
                    "{table}, seed {seed}, step {step}:\n{told}\n{}",
                    words.join("\n")
                );
            }
            told.clear();
        }
    }
}

/// Changes of the schema that leave every table its columns. Some fail, and that is part of the history.
fn schema_change(random: &mut fastrand::Rng) -> String {
    let (table, definition) = *random
        .choice(&[
            ("plain", "(id INTEGER PRIMARY KEY, u TEXT UNIQUE, v)"),
            ("hidden", "(k TEXT NOT NULL UNIQUE, v)"),
            ("strict", "(id INTEGER PRIMARY KEY, r REAL UNIQUE, t TEXT, a ANY) STRICT"),
            ("bare", "(k TEXT COLLATE NOCASE, j INTEGER, v UNIQUE, PRIMARY KEY (k, j DESC)) WITHOUT ROWID"),
        ])
        .expect("a table");
    let column = *random.choice(&["u", "v", "k", "t"]).expect("a column");
    let (number, part) =
        (random.u8(0..30), random.choice(&["insert", "update", "delete", "insert_before"]).expect("a part"));
    match random.u8(0..12) {
        0 => format!("DROP TABLE {table}; CREATE TABLE {table} {definition}"),
        1 => format!(
            "CREATE TABLE remade {definition}; INSERT OR IGNORE INTO remade SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE remade RENAME TO {table}"
        ),
        2 => format!(
            "ALTER TABLE {table} RENAME TO away; UPDATE away SET v = 'away'; ALTER TABLE away RENAME TO {table}"
        ),
        3 | 4 => format!("DROP TRIGGER drover_{number}_{part}"),
        5 => format!("CREATE UNIQUE INDEX also_{table}_{column} ON {table} ({column})"),
        6 => format!("DROP INDEX also_{table}_{column}"),
        7 => format!(
            "CREATE TRIGGER also_{table} AFTER INSERT ON {table} BEGIN UPDATE {table} SET v = 'seen' WHERE v IS NOT 'seen' AND {column} = NEW.{column}; END"
        ),
        8 => format!(
            "CREATE TRIGGER before_{table} BEFORE INSERT ON {table} BEGIN DELETE FROM {table} WHERE {column} = NEW.{column}; END"
        ),
        9 => format!("DROP TRIGGER IF EXISTS also_{table}; DROP TRIGGER IF EXISTS before_{table}"),
        10 => "VACUUM".to_owned(),
        _ => format!("ANALYZE {table}; REINDEX {table}"),
    }
}

#[test]
fn a_target_that_follows_through_changes_of_the_schema_is_equal() {
    let rounds: u64 = std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let first: u64 = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let stage = Stage::new(SCHEMA);
        let mut follower = Follower::new(SCHEMA);
        let target = follower.file.user();
        let mut stream = stage.stream();
        let mut told = String::new();
        for step in 0..12 {
            for _ in 0..random.usize(1..3) {
                run(&stage, &mut random, &mut told);
                let change = schema_change(&mut random);
                // What takes several steps must not stop half way.
                let inside = change != "VACUUM" && (random.bool() || change.contains("TABLE"));
                let _ = stage.user.execute_batch("PRAGMA foreign_keys = OFF");
                let result =
                    stage.user.execute_batch(&if inside { format!("BEGIN; {change}; COMMIT") } else { change.clone() });
                let _ = writeln!(told, "{change}; -- {inside} {:?}", result.err().map(|error| error.to_string()));
                if !stage.user.is_autocommit() {
                    stage.user.execute_batch("ROLLBACK").expect("a rollback");
                }
            }
            run(&stage, &mut random, &mut told);
            let changes =
                stream.try_drain().unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error:?}\n{told}"));
            let kept: Vec<change::Change> =
                changes.into_iter().filter(|change| TABLES.contains(&change.table.name.table.as_str())).collect();
            let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| follower.apply(&kept)));
            let words: Vec<String> = kept.iter().map(crate::stage::describe).collect();
            assert!(applied.is_ok(), "seed {seed}, step {step}:\n{told}\n{}", words.join("\n"));
            for table in TABLES {
                assert_eq!(
                    rows(&target, table),
                    rows(&stage.user, table),
                    "{table}, seed {seed}, step {step}:\n{told}\n{}",
                    words.join("\n")
                );
            }
            told.clear();
        }
    }
}
