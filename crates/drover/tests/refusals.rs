//! Bad input, broken files and full disks: one clear message, an exit status that is not 0, and nothing lost.

use crate::stage::{EXTRACT, REPLICAT, Stage, drover, number, query};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

/// Asserts that a message names everything that an operator needs.
#[track_caller]
fn assert_says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "{word:?} is not in:\n{message}");
    }
    assert!(!message.contains("panicked"), "{message}");
}

/// Asserts that a group's failure is told with code and next step, in its report and in the event log, too.
#[track_caller]
fn assert_told(stage: &Stage, group: &str, message: &str, words: &[&str]) {
    assert_says(message, words);
    let code = message.split_whitespace().find(|word| word.starts_with("DRV-")).expect("a message code");
    let code = &code[..9];
    for text in [stage.text(&format!("dirrpt/{group}.rpt")), stage.event_log()] {
        assert!(text.contains(code) && text.contains("ERROR"), "{code} is not in:\n{text}");
    }
}

fn insert(stage: &Stage, ids: std::ops::Range<i64>) {
    let source = stage.source();
    for id in ids {
        source.execute("INSERT INTO t VALUES (?1, 'row ' || ?1)", [id]).expect("an insert");
    }
}

/// Damages one byte of a file and returns what was there.
fn flip(path: &Path, at: usize) -> Vec<u8> {
    let original = fs::read(path).expect("the file");
    let mut damaged = original.clone();
    damaged[at] ^= 0x20;
    fs::write(path, damaged).expect("the file is writable");
    original
}

#[test]
fn an_unknown_parameter_is_shown_with_its_line_and_what_was_meant() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..10);
    stage.parameters("e1", &EXTRACT.replace("TABLE", "TABEL"));
    let message = stage.extract().fails();
    assert_told(&stage, "E1", &message, &["e1.prm:4:1", "TABEL main.*;", "^^^^^", "TABLE"]);
    stage.parameters("r1", &REPLICAT.replace("TARGETDB", "TARGTDB"));
    assert_told(&stage, "R1", &stage.replicat().fails(), &["r1.prm:2:1", "TARGETDB"]);
    stage.parameters("e1", EXTRACT);
    stage.parameters("r1", REPLICAT);
    stage.replicate(&["t"]);
}

#[test]
fn statements_and_sequences_are_refused_over_a_source_that_does_not_tell_them() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    for name in ["DDL", "SEQUENCE"] {
        let statement = if name == "DDL" { "DDL INCLUDE MAPPED" } else { "SEQUENCE main.*;" };
        stage.parameters("e1", &EXTRACT.replace("TABLE", &format!("{statement}\nTABLE")));
        let message = stage.extract().fails();
        assert!(message.contains("DRV-00101") && message.contains(&format!("{name} has no effect")), "{message}");
    }
}

#[test]
fn a_parameter_file_that_is_missing_or_of_another_group_is_named() {
    let stage = Stage::new(SCHEMA);
    fs::remove_file(stage.home().join("dirprm/e1.prm")).expect("the file is there");
    assert_told(&stage, "E1", &stage.extract().fails(), &["e1.prm", "next step"]);
    fs::write(stage.home().join("dirprm/e1.prm"), b"EXTRACT e1 -- caf\xe9\n").expect("the file is writable");
    assert_told(&stage, "E1", &stage.extract().fails(), &["e1.prm", "save the file as UTF-8"]);
    stage.parameters("e1", &EXTRACT.replace("EXTRACT e1", "EXTRACT e2"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["E2", "E1"]);
    stage.parameters("e1", &EXTRACT.replace("./dirdat/aa", "./dirdat/ab"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["./dirdat/ab", "ADD EXTTRAIL"]);
    stage.parameters("e1", &EXTRACT.replace("sqlite:../source.db", "oracle://host/x"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["oracle", "sqlite:"]);
    stage.parameters("e1", &EXTRACT.replace("source.db", "nosuch.db"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["nosuch.db"]);
    stage.parameters("e1", EXTRACT);
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
}

#[test]
fn a_table_that_is_missing_at_the_source_is_named_and_nothing_is_added() {
    let stage = Stage::bare(SCHEMA);
    stage.parameters("e1", &EXTRACT.replace("main.*", "main.nosuch"));
    let message = stage.console_refuses(crate::stage::SET_UP);
    assert_says(&message, &["nosuch", "1 of 6 commands were done before, 4 were not run"]);
    assert!(!stage.console("INFO ALL").contains("E1"));
    stage.parameters("e1", EXTRACT);
    stage.console(crate::stage::SET_UP);
    stage.parameters("e1", &EXTRACT.replace("main.*", "main.nosuch"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["nosuch"]);
    stage.parameters("e1", EXTRACT);
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
}

#[test]
fn a_table_that_is_missing_at_the_target_stops_the_replicat_at_a_named_place() {
    let stage = Stage::new(SCHEMA);
    stage.source().execute_batch("CREATE TABLE late (id INTEGER PRIMARY KEY)").expect("a table");
    insert(&stage, 1..3);
    let extract = stage.extract();
    crate::stage::eventually("capture has noticed the new table", || {
        extract.assert_running();
        let triggers = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'late'";
        (number(&stage.source(), triggers) > 0).then_some(())
    });
    stage.source().execute_batch("INSERT INTO late VALUES (1)").expect("an insert");
    let message = stage.replicat().fails();
    assert_told(&stage, "R1", &message, &["main.late", "000000000:", "next step"]);
    stage.target().execute_batch("CREATE TABLE late (id INTEGER PRIMARY KEY)").expect("a table");
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t", "late"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

#[test]
fn key_columns_that_a_table_does_not_have_are_named() {
    let stage = Stage::new(SCHEMA);
    stage.parameters("e1", &EXTRACT.replace("main.*", "main.t, KEYCOLS (nosuch)"));
    assert_told(&stage, "E1", &stage.extract().fails(), &["nosuch", "main.t"]);
    stage.parameters("e1", EXTRACT);
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
}

#[test]
fn a_table_without_a_key_is_named_and_can_be_left_out_or_given_one() {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE keyless (a, b)");
    let message = stage.console_refuses(crate::stage::SET_UP);
    assert_says(&message, &["main.keyless", "no key", "KEYCOLS", "next step"]);
    stage.parameters("e1", &EXTRACT.replace("TABLE", "TABLEEXCLUDE main.keyless;\nTABLE"));
    stage.console(crate::stage::SET_UP);
    stage.parameters("e1", EXTRACT);
    assert_told(&stage, "E1", &stage.extract().fails(), &["main.keyless", "no key", "next step"]);
    stage.parameters("e1", &EXTRACT.replace("TABLE", "TABLE main.keyless, KEYCOLS (a);\nTABLE"));
    stage.source().execute_batch("INSERT INTO keyless VALUES (1, 2)").expect("an insert");
    insert(&stage, 1..10);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_until_equal(&["t"], &extract, &replicat);
    stage.source().execute_batch("INSERT INTO keyless VALUES (3, 4)").expect("an insert");
    crate::stage::eventually("the table with a key is captured", || {
        extract.assert_running();
        replicat.assert_running();
        (number(&stage.target(), "SELECT count(*) FROM keyless WHERE a = 3") == 1).then_some(())
    });
}

#[test]
fn a_row_that_the_target_does_not_take_stops_the_replicat_and_is_applied_when_that_is_mended() {
    let stage = Stage::new(SCHEMA);
    stage.target().execute_batch("INSERT INTO t VALUES (5, 'in the way')").expect("an insert");
    insert(&stage, 1..10);
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert_told(&stage, "R1", &message, &["main.t", "insert", "000000000:", "next step"]);
    assert!(!message.contains("in the way") && !message.contains("row 5"), "no row value is shown: {message}");
    stage.target().execute_batch("DELETE FROM t WHERE id = 5").expect("a delete");
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // A row that an update does not find.
    stage.target().execute_batch("DELETE FROM t WHERE id = 7").expect("a delete");
    stage.source().execute_batch("UPDATE t SET a = 'changed' WHERE id = 7").expect("an update");
    let message = replicat.fails();
    assert_told(&stage, "R1", &message, &["main.t", "update", "00000000"]);
    stage.target().execute_batch("INSERT INTO t VALUES (7, 'row 7')").expect("an insert");
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
}

#[test]
fn a_group_that_runs_is_not_started_a_second_time() {
    let stage = Stage::new(SCHEMA);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    insert(&stage, 1..10);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    let (first, second) = (extract.id().to_string(), stage.extract().fails());
    assert_says(&second, &["E1", "running", &first]);
    assert_says(&stage.replicat().fails(), &["R1", "running", &replicat.id().to_string()]);
    let refused = stage.console_refuses("DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTRACT e1");
    assert_says(&refused, &["E1", "running", &first]);
    insert(&stage, 10..20);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

#[test]
fn a_home_that_another_command_changes_is_not_changed() {
    let stage = Stage::bare(SCHEMA);
    let home = process::Home::open(stage.home()).expect("the home");
    let lock = process::HomeLock::acquire(&home).expect("the lock is free");
    let message = stage.console_refuses(crate::stage::SET_UP);
    assert_says(&message, &["in use", &std::process::id().to_string()]);
    drop(lock);
    stage.console(crate::stage::SET_UP);
}

#[test]
fn a_directory_that_is_no_home_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [vec!["extract", "e1"], vec!["replicat", "r1"], vec!["-c", "INFO ALL"]] {
        let output = drover().arg("--home").arg(folder.path()).args(arguments).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_says(&String::from_utf8_lossy(&output.stderr), &[&folder.path().display().to_string(), "drover init"]);
    }
    fs::write(folder.path().join("something"), "").expect("a file");
    let output = drover().arg("init").arg(folder.path()).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    assert_says(&String::from_utf8_lossy(&output.stderr), &["something"]);
}

#[test]
fn a_group_that_was_never_added_is_not_created_by_starting_it() {
    let stage = Stage::bare(SCHEMA);
    assert_told(&stage, "E1", &stage.extract().fails(), &["E1", "ADD EXTRACT"]);
    assert_told(&stage, "R1", &stage.replicat().fails(), &["R1", "ADD REPLICAT"]);
    assert_eq!(stage.trail_files(), Vec::<PathBuf>::new());
    assert!(!stage.console("INFO ALL").contains("E1"));
}

#[test]
fn damage_in_the_trail_stops_its_reader_at_the_byte_and_is_not_repaired_silently() {
    let stage = Stage::new(SCHEMA);
    let extract = stage.extract();
    insert(&stage, 1..50);
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    replicat.stop();
    insert(&stage, 50..100);
    let written = stage.trail_files().pop().expect("a trail file");
    crate::stage::eventually("the trail holds the rows", || stage.trail_shows("row 99").then_some(()));
    extract.stop();
    let length = fs::metadata(&written).expect("the file").len() as usize;
    let original = flip(&written, length * 3 / 4);
    let name = written.file_name().expect("a name").to_string_lossy().into_owned();
    assert_told(&stage, "R1", &stage.replicat().fails(), &[&name, "byte", "next step"]);
    // What was safe once must not be cut off as a torn tail.
    assert_told(&stage, "E1", &stage.extract().fails(), &[&name]);
    fs::write(&written, original).expect("the file is writable");
    insert(&stage, 100..110);
    stage.replicate(&["t"]);
}

#[test]
fn a_file_that_is_no_trail_is_refused() {
    let stage = Stage::bare(SCHEMA);
    let foreign = stage.home().join("dirdat/aa000000000");
    fs::write(&foreign, "this is not a trail, but it is longer than a few bytes\n".repeat(50)).expect("a file");
    let refused = stage.console_refuses(crate::stage::SET_UP);
    assert_says(&refused, &["aa000000000", "./dirdat/aa"]);
    fs::remove_file(&foreign).expect("the file is there");
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; DBLOGIN SOURCEDB sqlite:../target.db;
         ADD CHECKPOINTTABLE main.checkpoints
         ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints",
    );
    fs::write(&foreign, "this is not a trail, but it is longer than a few bytes\n".repeat(50)).expect("a file");
    insert(&stage, 1..10);
    assert_told(&stage, "E1", &stage.extract().fails(), &["aa000000000"]);
    fs::remove_file(&foreign).expect("the file is there");
    stage.replicate(&["t"]);
    let kept = fs::read(&foreign).expect("the trail file");
    fs::write(&foreign, "this is not a trail, but it is as long as the one that was here\n".repeat(500))
        .expect("a file");
    insert(&stage, 10..20);
    assert_told(&stage, "R1", &stage.replicat().fails(), &["aa000000000"]);
    assert_told(&stage, "E1", &stage.extract().fails(), &["aa000000000"]);
    fs::write(&foreign, kept).expect("a file");
    stage.replicate(&["t"]);
}

#[test]
fn a_trail_file_that_is_gone_is_missed() {
    let stage = Stage::new(SCHEMA);
    let extract = stage.extract();
    insert(&stage, 1..20);
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    let last = stage.trail_files().pop().expect("a trail file");
    let aside = stage.path().join("aside");
    fs::rename(&last, &aside).expect("the file can be moved");
    let name = last.file_name().expect("a name").to_string_lossy().into_owned();
    assert_told(&stage, "E1", &stage.extract().fails(), &["aa", "next step"]);
    assert_told(&stage, "R1", &stage.replicat().fails(), &["aa", "next step"]);
    fs::rename(&aside, &last).unwrap_or_else(|error| panic!("{name}: {error}"));
    insert(&stage, 20..30);
    stage.replicate(&["t"]);
}

#[test]
fn a_lost_checkpoint_is_never_taken_for_a_new_group() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    for (group, file, add) in [("E1", "dirchk/E1.cpe", "ADD EXTRACT"), ("R1", "dirchk/R1.cpr", "ADD REPLICAT")] {
        let first = number(&stage.source(), "SELECT max(id) + 1 FROM t");
        insert(&stage, first..first + 5);
        let path = stage.home().join(file);
        let kept = fs::read(&path).expect("the checkpoint file");
        fs::remove_file(&path).expect("the checkpoint file is there");
        let part = if group == "E1" { "extract" } else { "replicat" };
        let message = stage.start(part, group).fails();
        assert_told(&stage, group, &message, &[group, file, add, "next step"]);
        // Adding it again would begin at a later place.
        let added = stage.console_refuses(if group == "E1" {
            "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW"
        } else {
            "DBLOGIN SOURCEDB sqlite:../target.db
             ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"
        });
        assert_says(&added, &[group, "next step"]);
        assert!(!path.exists());
        fs::write(&path, kept).expect("the file can be put back");
    }
    stage.replicate(&["t"]);
}

#[test]
fn a_damaged_checkpoint_file_is_refused() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    for (group, file) in [("e1", "dirchk/E1.cpe"), ("r1", "dirchk/R1.cpr")] {
        let path = stage.home().join(file);
        let kept = fs::read(&path).expect("the checkpoint file");
        let part = if group == "e1" { "extract" } else { "replicat" };
        for garbage in [vec![0x55; kept.len()], Vec::new(), vec![0; kept.len()]] {
            fs::write(&path, garbage).expect("the file is writable");
            let message = stage.start(part, group).fails();
            assert_told(&stage, &group.to_uppercase(), &message, &[file, "next step"]);
        }
        fs::write(&path, kept).expect("the file is writable");
    }
    insert(&stage, 20..30);
    stage.replicate(&["t"]);
}

#[test]
fn the_checkpoint_file_of_another_group_is_refused() {
    let stage = Stage::new(SCHEMA);
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e2, TRANLOG, BEGIN NOW");
    let chk = stage.home().join("dirchk");
    let kept = fs::read(chk.join("E1.cpe")).expect("the checkpoint file");
    fs::copy(chk.join("E2.cpe"), chk.join("E1.cpe")).expect("a copy");
    assert_told(&stage, "E1", &stage.extract().fails(), &["E1.cpe", "E2", "next step"]);
    fs::write(chk.join("E1.cpe"), kept).expect("the file is writable");
    insert(&stage, 1..10);
    stage.replicate(&["t"]);
}

#[test]
fn a_checkpoint_whose_write_was_torn_falls_back_to_the_one_before() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    for (group, file, info) in [("E1", "dirchk/E1.cpe", "INFO EXTRACT e1"), ("R1", "dirchk/R1.cpr", "INFO REPLICAT r1")]
    {
        let path = stage.home().join(file);
        let kept = fs::read(&path).expect("the checkpoint file");
        let status = |text: String| text.contains("STOPPED");
        assert!(status(stage.console(info)), "the last checkpoint is the one of the clean stop");
        // One slot after the other is damaged, until it is the last one that was written.
        let mut fell_back = false;
        for slot in 1..kept.len() / 2048 {
            let middle = slot * 2048 + 40;
            if kept[slot * 2048..][..2048].iter().all(|byte| *byte == 0) {
                continue;
            }
            flip(&path, middle);
            if !status(stage.console(info)) {
                fell_back = true;
                break;
            }
            fs::write(&path, &kept).expect("the file is writable");
        }
        assert!(fell_back, "{group}");
    }
    insert(&stage, 20..30);
    stage.replicate(&["t"]);
}

#[test]
fn a_checkpoint_row_that_somebody_removed_stops_the_replicat() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    let target = stage.target();
    target.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM main.checkpoints").expect("a copy");
    target.execute_batch("DELETE FROM main.checkpoints").expect("a delete");
    insert(&stage, 20..30);
    assert_told(&stage, "R1", &stage.replicat().fails(), &["R1", "checkpoints", "next step"]);
    target.execute_batch("INSERT INTO main.checkpoints SELECT * FROM kept").expect("the row is back");
    let replicat = stage.replicat();
    let extract = stage.extract();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // Removed while it runs: the next transaction must not be applied without its position.
    target.execute_batch("DELETE FROM kept; INSERT INTO kept SELECT * FROM main.checkpoints").expect("a copy");
    target.execute_batch("DELETE FROM main.checkpoints").expect("a delete");
    insert(&stage, 30..40);
    assert_told(&stage, "R1", &replicat.fails(), &["R1", "checkpoints"]);
    target.execute_batch("INSERT INTO main.checkpoints SELECT * FROM kept").expect("the row is back");
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
}

/// Copies a database that nobody has open, WAL and all.
fn copy_database(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (format!("{}{suffix}", from.display()), format!("{}{suffix}", to.display()));
        let _ = fs::remove_file(&to);
        if Path::new(&from).exists() {
            fs::copy(&from, &to).expect("a copy");
        }
    }
}

#[test]
fn a_source_that_was_replaced_by_a_backup_stops_the_extract() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    let (source, backup) = (stage.path().join("source.db"), stage.path().join("backup.db"));
    let present = stage.path().join("present.db");
    copy_database(&source, &backup);
    insert(&stage, 20..40);
    stage.replicate(&["t"]);
    copy_database(&source, &present);
    copy_database(&backup, &source);
    // The backup goes on with a history of its own.
    insert(&stage, 1000..1040);
    assert_told(&stage, "E1", &stage.extract().fails(), &["source.db", "next step"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM t WHERE id >= 1000"), 0);
    copy_database(&present, &source);
    insert(&stage, 40..50);
    stage.replicate(&["t"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM t"), 49);
}

#[test]
fn a_target_that_was_replaced_by_a_backup_is_brought_up_from_the_trail() {
    let stage = Stage::new(SCHEMA);
    insert(&stage, 1..20);
    stage.replicate(&["t"]);
    let (target, backup) = (stage.path().join("target.db"), stage.path().join("backup.db"));
    copy_database(&target, &backup);
    insert(&stage, 20..40);
    stage.source().execute_batch("UPDATE t SET a = 'changed' WHERE id % 2 = 0").expect("an update");
    stage.replicate(&["t"]);
    copy_database(&backup, &target);
    stage.replicate(&["t"]);
}

/// A tiny file system at a folder, or a limit on the size of files where nothing may be mounted.
struct TinyDisk {
    mounted: Option<PathBuf>,
}

impl TinyDisk {
    /// Makes `folder` hold at most 512 KiB.
    fn at(folder: &Path) -> TinyDisk {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).arg(folder).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        TinyDisk { mounted: is_mounted.then(|| folder.to_owned()) }
    }

    /// A command that runs under the limit.
    fn command(&self) -> Command {
        if self.mounted.is_some() {
            return drover();
        }
        let mut command = Command::new("sh");
        // The signal that comes with the limit is ignored, so that the write fails instead.
        command.args(["-c", "trap '' XFSZ; exec prlimit --fsize=524288 \"$0\" \"$@\"", env!("CARGO_BIN_EXE_drover")]);
        command.env_remove("DROVER_HOME");
        command
    }

    /// Makes room.
    fn grow(&self) {
        if let Some(folder) = &self.mounted {
            let grown = Command::new("mount").args(["-o", "remount,size=64m"]).arg(folder).status();
            assert!(grown.is_ok_and(|status| status.success()));
        }
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        if let Some(folder) = &self.mounted {
            // A lazy unmount works while a process that is being killed still has files open.
            let _ = Command::new("umount").arg("-l").arg(folder).status();
        }
    }
}

#[test]
fn a_full_disk_under_the_trail_stops_the_extract_and_loses_nothing() {
    let stage = Stage::new(SCHEMA);
    let disk = TinyDisk::at(&stage.home().join("dirdat"));
    stage
        .source()
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, hex(randomblob(200)) FROM n",
        )
        .expect("inserts");
    let mut command = disk.command();
    command.args(["extract", "e1", "--home"]).arg(stage.home());
    let message = crate::stage::Running::start(command).fails();
    assert_told(&stage, "E1", &message, &["aa000000000", "dirdat", "next step"]);
    // Readers see whole transactions only.
    let replicat = stage.replicat();
    disk.grow();
    let extract = stage.extract();
    insert(&stage, 3001..3010);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    drop(disk);
}

#[test]
fn a_full_disk_under_the_target_stops_the_replicat_and_loses_nothing() {
    let stage = Stage::bare(SCHEMA);
    let folder = stage.path().join("tiny");
    fs::create_dir(&folder).expect("a folder");
    let disk = TinyDisk::at(&folder);
    stage.create_database("tiny/target.db", SCHEMA);
    stage.console(&crate::stage::SET_UP.replace("target.db", "tiny/target.db"));
    stage.parameters("r1", &REPLICAT.replace("target.db", "tiny/target.db"));
    stage
        .source()
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO t SELECT i, hex(randomblob(200)) FROM n",
        )
        .expect("inserts");
    let extract = stage.extract();
    let mut command = disk.command();
    command.args(["replicat", "r1", "--home"]).arg(stage.home());
    let message = crate::stage::Running::start(command).fails();
    assert_told(&stage, "R1", &message, &["target.db", "next step"]);
    assert_eq!(number(&stage.open("tiny/target.db"), "SELECT count(*) FROM t"), 0, "no part of the transaction");
    disk.grow();
    let replicat = stage.replicat();
    crate::stage::eventually("the target holds what the source holds", || {
        extract.assert_running();
        replicat.assert_running();
        let all = |name: &str| query(&stage.open(name), "SELECT * FROM t");
        (all("source.db") == all("tiny/target.db")).then_some(())
    });
    extract.stop();
    replicat.stop();
    drop(disk);
}
