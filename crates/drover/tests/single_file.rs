//! A single file in place of a trail: written, read, gone on with after a restart, shown, and what makes no sense with it.

use crate::stage::{EXTRACT, REPLICAT, Stage, eventually, rows};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

const SET_UP: &str = "\
    DBLOGIN SOURCEDB sqlite:../source.db
    ADD EXTRACT e1, TRANLOG, BEGIN NOW
    ADD EXTFILE ./dirdat/orders.ext, EXTRACT e1
    DBLOGIN SOURCEDB sqlite:../target.db
    ADD CHECKPOINTTABLE main.checkpoints
    ADD REPLICAT r1, EXTFILE ./dirdat/orders.ext, CHECKPOINTTABLE main.checkpoints";

fn stage(before: &str) -> Stage {
    let stage = Stage::bare(SCHEMA);
    let statement = format!("{before}EXTFILE ./dirdat/orders.ext");
    stage.parameters("e1", &EXTRACT.replace("EXTTRAIL ./dirdat/aa", &statement));
    stage.console(SET_UP);
    stage
}

fn insert(stage: &Stage, from: i64, count: i64) {
    let source = stage.source();
    for id in from..from + count {
        source
            .execute("INSERT INTO t VALUES (?1, ?2)", (id, format!("row {id} {}", "pad ".repeat(100))))
            .expect("a row");
    }
}

/// The names in dirdat.
fn files(stage: &Stage) -> Vec<String> {
    let entries = std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn goes_on_after_restarts(before: &str) {
    let stage = stage(before);
    insert(&stage, 0, 20);
    stage.replicate(&["t"]);
    // A clean restart of both.
    insert(&stage, 20, 20);
    stage.replicate(&["t"]);
    // The Extract is killed, with the Replicat at work.
    let (extract, replicat) = (stage.extract(), stage.replicat());
    insert(&stage, 40, 20);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.kill();
    insert(&stage, 60, 20);
    let extract = stage.extract();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    assert_eq!(rows(&stage.target(), "t").len(), 80);
    stage.assert_equal(&["t"]);
    assert_eq!(files(&stage), ["orders.ext", "orders.ext.lock", "orders.ext.safe"]);

    let shown = crate::stage::logdump(&stage.home().join("dirdat/orders.ext"));
    assert_eq!(shown.matches("Insert ").count(), 80, "{shown}");
    assert!(shown.contains("orders.ext") && shown.contains("RestartOK"), "{shown}");
    let info = stage.console("INFO EXTRACT e1; INFO REPLICAT r1; INFO EXTRACT e1, SHOWCH");
    assert!(info.contains("EXTFILE") && info.contains("File ./dirdat/orders.ext\n"), "{info}");
}

#[test]
fn a_single_file_is_written_read_and_gone_on_with_after_restarts() {
    goes_on_after_restarts("");
}

#[test]
fn a_compressed_single_file_goes_on_as_well() {
    goes_on_after_restarts("COMPRESSTRAIL\n");
}

#[test]
fn the_file_says_that_it_is_single() {
    let stage = stage("");
    insert(&stage, 0, 1);
    stage.replicate(&["t"]);
    let bytes = std::fs::read(stage.home().join("dirdat/orders.ext")).expect("the file");
    // F and its group 0, then the tokens of that group: MultiPart (37) has one byte, Seqno (38) four.
    let mut at = 8;
    let mut found = Vec::new();
    while at < 8 + usize::from(u16::from_le_bytes([bytes[6], bytes[7]])) {
        let length = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
        if matches!(bytes[at], 0x36..=0x38) {
            found.push((bytes[at], bytes[at + 4..at + 4 + length].to_vec()));
        }
        at += 4 + length;
    }
    let name = [&[19, 0][..], b"./dirdat/orders.ext"].concat();
    assert_eq!(found, [(0x36, name), (0x37, vec![0]), (0x38, vec![0; 4])]);
}

#[test]
fn what_makes_no_sense_with_a_single_file_is_refused_by_name() {
    let stage = Stage::bare(SCHEMA);
    for (command, words) in [
        ("ADD EXTFILE ./dirdat/aa, EXTRACT e1", "single file"),
        ("ADD EXTFILE ./dirdat/aa000000001, EXTRACT e1", "single file"),
        ("ADD EXTFILE ./dirdat/x.safe, EXTRACT e1", "single file"),
        ("ADD EXTFILE ./dirdat/x.ext, EXTRACT e1, MEGABYTES 5", "MEGABYTES"),
        ("ADD EXTTRAIL ./dirdat/x.ext, EXTRACT e1", "two letters"),
        ("ADD REPLICAT r1, EXTFILE ./dirdat/aa, CHECKPOINTTABLE main.c", "single file"),
    ] {
        let output = stage.try_console(command);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(words), "{command}: {message}");
    }
    let login = "DBLOGIN SOURCEDB sqlite:../target.db; ADD CHECKPOINTTABLE main.c; ";
    let both = "ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, EXTFILE ./dirdat/x.ext, CHECKPOINTTABLE main.c";
    assert!(stage.console_refuses(&format!("{login}{both}")).contains("exclude each other"));
    let none = "DBLOGIN SOURCEDB sqlite:../target.db; ADD REPLICAT r1, CHECKPOINTTABLE main.c";
    assert!(stage.console_refuses(none).contains("EXTFILE"));
}

#[test]
fn a_file_of_another_form_is_not_gone_on_with() {
    let stage = stage("");
    insert(&stage, 0, 1);
    stage.replicate(&["t"]);
    let whole = std::fs::read(stage.home().join("dirdat/orders.ext")).expect("the file");
    let parameters = stage.text("dirprm/e1.prm");
    stage.parameters("e1", &parameters.replace("orders.ext", "orders.ext, FORMAT RELEASE 11.2"));
    let message = stage.extract().fails();
    assert!(message.contains("DRV-00322") && message.contains("orders.ext"), "{message}");
    // What the header tells of a whole file may be gone; records are not.
    let header = usize::from(u16::from_le_bytes([whole[2], whole[3]]));
    let is_kept = |bytes: &[u8]| bytes.len() == whole.len() && bytes[header..] == whole[header..];
    assert!(is_kept(&std::fs::read(stage.home().join("dirdat/orders.ext")).expect("the file")));
    stage.parameters("e1", &parameters);
    insert(&stage, 1, 1);
    stage.replicate(&["t"]);
    stage.assert_equal(&["t"]);
}

#[test]
fn a_replicat_refuses_to_purge_a_single_file() {
    let stage = stage("");
    insert(&stage, 0, 1);
    stage.replicate(&["t"]);
    stage.parameters("r1", &REPLICAT.replace("MAP", "PURGEOLDEXTRACTS\nMAP"));
    let message = stage.replicat().fails();
    assert!(message.contains("PURGEOLDEXTRACTS has no effect"), "{message}");
}

#[test]
fn a_file_is_taken_away_and_removed_by_its_own_commands() {
    let stage = stage("");
    insert(&stage, 0, 1);
    stage.replicate(&["t"]);
    assert!(stage.console_refuses("PURGE EXTFILE ./dirdat/orders.ext").contains("used by EXTRACT E1"));
    let removed = stage.console("DELETE EXTFILE ./dirdat/orders.ext; PURGE EXTFILE ./dirdat/orders.ext !");
    assert!(removed.contains("1 files removed"), "{removed}");
    eventually("it is gone", || (files(&stage) == ["orders.ext.lock"]).then_some(()));
}
