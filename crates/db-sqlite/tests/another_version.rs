//! Triggers run in the user's own process, under whatever SQLite it was built with: here, the command-line shell of the
//! machine.

use crate::stage::{Follower, Stage, describe, rows};
use std::process::Command;

const SCHEMA: &str = "
CREATE TABLE item (id INTEGER PRIMARY KEY, u TEXT COLLATE NOCASE UNIQUE, v REAL);
CREATE TABLE plain (a, b, c UNIQUE, PRIMARY KEY (b, a)) WITHOUT ROWID;
CREATE TABLE busy (id INTEGER PRIMARY KEY, u UNIQUE, seen DEFAULT 0);
CREATE UNIQUE INDEX item_part ON item (abs(v)) WHERE v < 0;
CREATE TRIGGER busy_after AFTER INSERT ON busy BEGIN UPDATE busy SET seen = seen + 1 WHERE id = NEW.id; END;
CREATE TRIGGER busy_before BEFORE INSERT ON busy WHEN NEW.u = 'x' BEGIN REPLACE INTO busy (id, u) VALUES (9, 'nested'); END;
";

const STATEMENTS: &str = "
PRAGMA foreign_keys = ON;
INSERT INTO item VALUES (1, 'a', 1), (2, 'b', -2), (3, NULL, 3.5);
REPLACE INTO item VALUES (1, 'B', 9);
INSERT OR IGNORE INTO item VALUES (7, 'b', 0);
REPLACE INTO item VALUES (8, 'z', -2), (9, 'y', -2);
INSERT INTO item VALUES (9, 'q', 5) ON CONFLICT (id) DO UPDATE SET u = excluded.u;
UPDATE OR REPLACE item SET id = 9 WHERE id = 3;
INSERT INTO plain VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 2, x'00ff');
REPLACE INTO plain VALUES (1, 1, 'y');
INSERT INTO busy (id, u) VALUES (1, 'a'), (2, 'b');
REPLACE INTO busy (id, u) VALUES (9, 'x');
PRAGMA recursive_triggers = ON;
REPLACE INTO busy (id, u) VALUES (1, 'b');
BEGIN; DELETE FROM item; SAVEPOINT s; INSERT INTO item VALUES (1, 'kept', 0); ROLLBACK TO s; COMMIT;
";

#[test]
fn changes_made_by_the_machines_own_sqlite_are_told() {
    let Ok(version) = Command::new("sqlite3").arg("--version").output() else {
        println!("skipped: there is no sqlite3 command on this machine");
        return;
    };
    let stage = Stage::new(SCHEMA);
    let mut follower = Follower::new(SCHEMA);
    let mut stream = stage.stream();
    let output = Command::new("sqlite3").arg(&stage.file.path).arg(STATEMENTS).output().expect("the shell runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    let changes = stream.drain();
    follower.apply(&changes);
    let told: Vec<String> = changes.iter().map(describe).collect();
    for table in ["item", "plain", "busy"] {
        let (target, source) = (rows(&follower.file.user(), table), rows(&stage.user, table));
        assert_eq!(target, source, "{}\n{}", String::from_utf8_lossy(&version.stdout), told.join("\n"));
    }
    assert_eq!(rows(&stage.user, "plain").len(), 2);
}
