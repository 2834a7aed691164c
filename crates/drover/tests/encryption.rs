//! Encrypted trails: nothing secret in clear, keys that come and go, and what is said when one is missing.

use crate::stage::{EXTRACT, REPLICAT, Running, SET_UP, Stage, drover, eventually, rows};
use std::path::Path;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, secret_column_name TEXT)";
const WALLET: &str = "CREATE WALLET; ADD MASTERKEY";
const VALUE: &str = "a value that nobody else may read";

fn encrypted(statement: &str) -> Stage {
    let stage = Stage::bare(SCHEMA);
    stage.parameters("e1", &EXTRACT.replace("EXTTRAIL", &format!("{statement}\nEXTTRAIL")));
    stage.console(WALLET);
    stage.console(SET_UP);
    stage
}

fn write(stage: &Stage, from: u32, count: u32) {
    let source = stage.source();
    for id in from..from + count {
        let value = format!("{VALUE} {id} {}", "pad ".repeat(50));
        source.execute("INSERT INTO t VALUES (?1, ?2)", (id, value)).expect("an insert");
    }
}

/// Files below `folder` whose bytes hold `text`.
fn files_with(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_with(&path, text, found);
        } else if std::fs::read(&path).expect("a file").windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
}

/// The hexadecimal master keys of the home's wallet.
fn keys(stage: &Stage) -> Vec<String> {
    let text = stage.text("dirwlt/drover.wallet");
    let keys: Vec<String> = text.split('"').filter(|word| word.len() == 64).map(str::to_owned).collect();
    assert!(!keys.is_empty());
    keys
}

fn logdump(stage: &Stage, decrypt: bool) -> String {
    if !decrypt {
        return crate::stage::logdump(&stage.trail_files()[0]);
    }
    let mut command = drover();
    command.arg("--home").arg(stage.home()).args(["trail", "show", "--full", "--decrypt"]).arg(&stage.trail_files()[0]);
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn rows_arrive_and_nothing_secret_stands_anywhere_in_clear() {
    for statement in ["ENCRYPTTRAIL", "ENCRYPTTRAIL AES128\nCOMPRESSTRAIL", "ENCRYPTTRAIL AES192"] {
        let stage = encrypted(statement);
        write(&stage, 1, 30);
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.wait_until_equal(&["t"], &extract, &replicat);
        // While they run: what a neighbour on the machine can see of them.
        let seen = |group: &Running| {
            let read = |file| std::fs::read(format!("/proc/{}/{file}", group.id())).unwrap_or_default();
            [read("cmdline"), read("environ"), read("comm")].concat()
        };
        let seen = String::from_utf8_lossy(&[seen(&extract), seen(&replicat)].concat()).into_owned();
        let told = [extract.stop().stderr, replicat.stop().stderr, seen].concat();
        let console = stage.console("INFO MASTERKEY; INFO MASTERKEY, VERSION 1; INFO ALL; OPEN WALLET");
        for value in [VALUE, "secret_column_name"] {
            let mut found = Vec::new();
            files_with(&stage.home(), value, &mut found);
            // The report tells the columns that find a row, and no other ones.
            assert_eq!(found, Vec::<String>::new(), "{statement}: {value}");
            assert!(!told.contains(value) && !console.contains(value));
        }
        for key in keys(&stage) {
            let mut found = Vec::new();
            files_with(&stage.home(), &key, &mut found);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].ends_with("dirwlt/drover.wallet") && !told.contains(&key) && !console.contains(&key));
        }
        let hidden = logdump(&stage, false);
        assert!(
            hidden.contains("Encrypted by AES") && hidden.contains("Encrypted, ") && !hidden.contains(VALUE),
            "{hidden}"
        );
        assert!(logdump(&stage, true).contains(VALUE));
        stage.assert_equal(&["t"]);
    }
}

#[test]
fn a_compressed_trail_is_shorter_and_says_the_same() {
    let length = |statement: &str| {
        let stage = Stage::bare(SCHEMA);
        stage.parameters("e1", &EXTRACT.replace("EXTTRAIL", &format!("{statement}\nEXTTRAIL")));
        stage.console(SET_UP);
        write(&stage, 1, 100);
        stage.replicate(&["t"]);
        stage.assert_equal(&["t"]);
        stage.trail_files().iter().map(|path| path.metadata().expect("a file").len()).sum::<u64>()
    };
    let (plain, compressed) = (length("NOENCRYPTTRAIL"), length("COMPRESSTRAIL"));
    assert!(compressed * 3 < plain * 2, "{compressed} of {plain}");
}

#[test]
fn a_renewed_key_is_used_by_the_next_file_and_old_files_stay_readable() {
    let stage = encrypted("ENCRYPTTRAIL");
    write(&stage, 1, 5);
    let extract = stage.extract();
    eventually("the trail has a file", || stage.trail_files().first().cloned());
    extract.stop();
    let told = stage.console("RENEW MASTERKEY");
    assert!(told.contains("version 2 is current"), "{told}");
    write(&stage, 10, 5);
    stage.replicate(&["t"]);
    stage.assert_equal(&["t"]);
    let info = stage.console("INFO MASTERKEY");
    let states: Vec<&str> = info.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert!(states.contains(&"Available") && states.contains(&"Current"), "{info}");
}

#[test]
fn a_missing_a_deleted_and_another_key_stop_the_replicat_with_their_names() {
    let stage = encrypted("ENCRYPTTRAIL");
    write(&stage, 1, 5);
    let extract = stage.extract();
    eventually("the rows are in the trail", || {
        extract.assert_running();
        stage.trail_logs(" Insert ").then_some(())
    });
    extract.stop();
    let wallet = stage.home().join("dirwlt/drover.wallet");
    let aside = stage.path().join("aside");
    let fails = |cause: &str| {
        let message = stage.replicat().fails();
        for words in ["DRV-00813", "aa00000000", "DROVER_MASTERKEY version 1", cause] {
            assert!(message.contains(words), "{words} is not in\n{message}");
        }
    };
    // Deleted, and taken back.
    stage.console("RENEW MASTERKEY; DELETE MASTERKEY, VERSION 1");
    fails("no such master key");
    stage.console("UNDELETE MASTERKEY, VERSION 1");
    // Gone.
    std::fs::rename(&wallet, &aside).expect("is moved");
    fails("no wallet");
    stage.parameters("r1", &REPLICAT.replace("MAP", "DECRYPTTRAIL\nMAP"));
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00814") && message.contains("CREATE WALLET"), "{message}");
    stage.parameters("r1", REPLICAT);
    // Another home's.
    stage.console(WALLET);
    fails("it is another one");
    // Readable by others.
    std::fs::rename(&aside, &wallet).expect("is moved");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&wallet).expect("a wallet").permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&wallet, std::fs::Permissions::from_mode(0o640)).expect("may be changed");
    fails("0600");
    std::fs::set_permissions(&wallet, std::fs::Permissions::from_mode(0o600)).expect("may be changed");
    // Nothing was lost by all that.
    stage.replicate(&["t"]);
    assert_eq!(rows(&stage.target(), "t").len(), 5);
    stage.assert_equal(&["t"]);
}

#[test]
fn an_extract_without_a_master_key_does_not_write_in_clear_but_stops() {
    let stage = Stage::bare(SCHEMA);
    stage.parameters("e1", &EXTRACT.replace("EXTTRAIL", "ENCRYPTTRAIL AES256\nEXTTRAIL"));
    stage.console(SET_UP);
    write(&stage, 1, 1);
    let message = stage.extract().fails();
    assert!(message.contains("DRV-00813") && message.contains("no wallet"), "{message}");
    stage.console("CREATE WALLET");
    let message = stage.extract().fails();
    assert!(message.contains("no such master key"), "{message}");
    assert_eq!(stage.trail_files().len(), 0);
    stage.console("ADD MASTERKEY");
    stage.replicate(&["t"]);
    stage.assert_equal(&["t"]);
}

#[test]
fn the_wallet_refuses_what_would_lose_a_key_by_mistake() {
    let stage = Stage::bare(SCHEMA);
    for (commands, words) in [
        ("ADD MASTERKEY", "no wallet"),
        ("CREATE WALLET; RENEW MASTERKEY", "no master key to renew"),
        ("CREATE WALLET", "has a wallet"),
        ("ADD MASTERKEY; ADD MASTERKEY", "has a master key"),
        ("DELETE MASTERKEY, VERSION 1", "current version"),
        ("DELETE MASTERKEY, VERSION 7", "no such version"),
        ("DELETE MASTERKEY", "not clear"),
        ("RENEW MASTERKEY; RENEW MASTERKEY; DELETE MASTERKEY, RANGE FROM 1 TO 2; PURGE WALLET", "asked twice"),
        ("PURGE WALLET !; UNDELETE MASTERKEY, VERSION 1", "no deleted version"),
    ] {
        let message = stage.console_refuses(commands);
        assert!(message.contains(words), "{commands}: {message}");
    }
    let info = stage.console("INFO MASTERKEY");
    assert!(
        info.lines().any(|line| line.starts_with('3')) && !info.lines().any(|line| line.starts_with('1')),
        "{info}"
    );
    // Numbers never come again.
    stage.console("DELETE MASTERKEY, ALL; PURGE WALLET !; ADD MASTERKEY");
    assert!(stage.console("INFO MASTERKEY").lines().any(|line| line.starts_with('4')));
}

#[test]
fn a_key_that_files_still_need_is_named_before_it_is_lost() {
    let stage = encrypted("ENCRYPTTRAIL");
    write(&stage, 1, 5);
    stage.replicate(&["t"]);
    stage.console("RENEW MASTERKEY; RENEW MASTERKEY; DELETE MASTERKEY, RANGE FROM 1 TO 2");
    let message = stage.console_refuses("PURGE WALLET");
    for words in ["aa000000000", "version 1 of masterkey DROVER_MASTERKEY", "UNDELETE MASTERKEY, VERSION 1"] {
        assert!(message.contains(words), "{words} is not in\n{message}");
    }
    // Only version 2 is left to be removed, which no file needs.
    stage.console("UNDELETE MASTERKEY, VERSION 1");
    let message = stage.console_refuses("PURGE WALLET");
    assert!(message.contains("asked twice") && !message.contains("aa0000"), "{message}");
    stage.console("PURGE WALLET !");
    assert!(logdump(&stage, true).contains(VALUE));
}
