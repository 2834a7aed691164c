//! RMTHOST, RMTTRAIL and their commands.

use super::homes::{Homes, fingerprint};
use crate::stage::{eventually, number};
use std::os::unix::fs::PermissionsExt;

#[test]
fn rows_come_into_another_home_and_every_place_of_the_pump_is_shown() {
    let homes = Homes::new("", "PASSTHRU");
    let Homes { stage, .. } = &homes;
    let info = stage.console("INFO EXTRACT p1; INFO RMTTRAIL *");
    for told in ["RMTTRAIL", "./dirdat/bb", "Remote Trail: ./dirdat/bb", "Extract: P1", "File Size: 1M"] {
        assert!(info.contains(told), "{told}: {info}");
    }
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'a', 2.5), (2, x'00ff', NULL)").expect("an insert");
    let running = [stage.extract(), homes.receiver(), stage.start("extract", "p1"), homes.replicat()];
    homes.wait_until_equal(&["t", "u"], &running.each_ref());
    let change = "UPDATE t SET a = 'b' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO u VALUES (7, 'u')";
    stage.source().execute_batch(change).expect("changes");
    homes.wait_until_equal(&["t", "u"], &running.each_ref());
    let stats = stage.console("STATS EXTRACT p1");
    assert!(stats.contains("./dirdat/bb at 127.0.0.1"), "{stats}");
    running.into_iter().for_each(|process| drop(process.stop()));
    // Everything that was sent is answered for.
    let info = stage.console("INFO EXTRACT p1");
    assert!(info.contains("Status STOPPED") && info.contains("Last written          CSN "), "{info}");
    let log = homes.text_there("drover.log");
    for told in ["DRV-00785", "DRV-00787", "EXTRACT P1 as shop", "DRV-00786"] {
        assert!(log.contains(told), "{told}: {log}");
    }
    // The copy tells where it has been: the Extract's URI and the Pump's.
    let dump = crate::stage::logdump(&homes.files_there("bb")[0]);
    assert!(dump.contains(":P1") && dump.contains(":E1"), "{dump}");
    // No secret stands anywhere but in its file.
    let key = homes.text_there("dircrd/drover.key");
    let secret = key.lines().nth(1).expect("a line of the key");
    for text in [log, stage.event_log(), stage.text("dirrpt/P1.rpt"), homes.there("INFO CERTIFICATE; INFO PEER *")] {
        assert!(!text.contains(secret) && !text.contains("PRIVATE KEY"), "{text}");
    }
    let mode = std::fs::metadata(homes.home_there().join("dircrd/drover.key")).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn rules_of_a_pump_hold_for_another_home_too_and_compression_and_file_sizes_have_their_effect() {
    let homes = Homes::new(", COMPRESS, COMPRESSTHRESHOLD 100", "TABLE main.*;\nTABLEEXCLUDE main.u;");
    let Homes { stage, .. } = &homes;
    let rows = |from: u32| {
        let row = |id: u32| format!("INSERT INTO t VALUES ({id}, '{}', {id});", "same ".repeat(150));
        (from..from + 3000).map(row).collect::<String>()
    };
    stage.source().execute_batch(&format!("BEGIN; {} INSERT INTO u VALUES (1, 2); COMMIT", rows(0))).expect("rows");
    let running = [stage.extract(), homes.receiver(), stage.start("extract", "p1"), homes.replicat()];
    homes.wait_until_equal(&["t"], &running.each_ref());
    // MEGABYTES of ADD RMTTRAIL.
    assert!(homes.files_there("bb").len() >= 3, "{:?}", homes.files_there("bb"));
    running.into_iter().for_each(|process| drop(process.stop()));
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM u"), 0);
    assert!(stage.text("dirrpt/P1.rpt").contains("Filtered because not mapped: 1"));
    // ALTER holds from the next connection on.
    stage.console("ALTER RMTTRAIL ./dirdat/bb, MEGABYTES 50");
    let before = homes.files_there("bb").len();
    stage.source().execute_batch(&format!("BEGIN; {} COMMIT", rows(10_000))).expect("rows");
    let running = [stage.extract(), homes.receiver(), stage.start("extract", "p1"), homes.replicat()];
    homes.wait_until_equal(&["t"], &running.each_ref());
    assert_eq!(homes.files_there("bb").len(), before + 1);
    running.into_iter().for_each(|process| drop(process.stop()));
    stage.console("DELETE RMTTRAIL ./dirdat/bb");
    let info = stage.console("INFO RMTTRAIL *");
    assert!(info.contains("No Pump"), "{info}");
}

#[test]
fn what_can_not_be_sent_is_refused_with_a_reason_at_both_ends() {
    let homes = Homes::new("", "PASSTHRU");
    let Homes { stage, .. } = &homes;
    for (command, told) in [
        ("ADD RMTTRAIL ./dirdat/cc, EXTRACT e1", "only a Pump writes into another home"),
        ("ADD RMTTRAIL ./dirdat/cc, EXTRACT p1", "writes trail ./dirdat/bb already"),
        ("ADD RMTTRAIL /var/cc, EXTRACT p1", "does not lie in dirdat"),
        ("DELETE RMTTRAIL ./dirdat/cc", "no Pump of this home writes ./dirdat/cc"),
        ("ADD CERTIFICATE", "could not create"),
        ("ADD CERTIFICATE ../x", "is not a name"),
        ("ADD PEER other, FINGERPRINT 12", "is not a fingerprint"),
        ("DELETE PEER other", "no peer is called other"),
    ] {
        let refused = stage.console_refuses(command);
        assert!(refused.contains(told), "{command}: {refused}");
    }
    // A trail that a group of the other home writes.
    homes.there(
        "DBLOGIN SOURCEDB sqlite:../target.db
         ADD EXTRACT e2, TRANLOG, BEGIN NOW
         ADD EXTTRAIL ./dirdat/bb, EXTRACT e2",
    );
    stage.source().execute_batch("INSERT INTO u VALUES (1, 'x')").expect("a row");
    let (receiver, extract) = (homes.receiver(), stage.extract());
    let told = stage.start("extract", "p1").fails();
    assert!(told.contains("DRV-00782") && told.contains("is written by EXTRACT E2"), "{told}");
    // Who was refused owns nothing.
    assert!(!homes.home_there().join("dirchk/bb.received").exists());
    homes.there("DELETE EXTTRAIL ./dirdat/bb");
    // One whose certificate the other home believes no more; he is told by whom, and the receiver's operator of which.
    homes.there("DELETE PEER shop");
    let other = fingerprint(&homes.there("ADD CERTIFICATE other"));
    homes.there(&format!("ADD PEER somebody, FINGERPRINT {other}"));
    let told = stage.start("extract", "p1").fails();
    assert!(told.contains("DRV-00781") && told.contains(&format!("127.0.0.1:{}", homes.port)), "{told}");
    let own = fingerprint(&stage.console("INFO CERTIFICATE"));
    eventually("the receiver tells of the stranger", || homes.text_there("drover.log").contains(&own).then_some(()));
    // And in the other direction.
    homes.there(&format!("ADD PEER shop, FINGERPRINT {own}"));
    stage.console(&format!("DELETE PEER target; ADD PEER somebody, FINGERPRINT {other}"));
    let told = stage.start("extract", "p1").fails();
    let theirs = fingerprint(&homes.there("INFO CERTIFICATE"));
    assert!(told.contains("DRV-00781") && told.contains(&theirs), "{told}");
    stage.console(&format!("ADD PEER target, FINGERPRINT {theirs}"));
    let (pump, replicat) = (stage.start("extract", "p1"), homes.replicat());
    homes.wait_until_equal(&["u"], &[&receiver, &extract, &pump, &replicat]);
}

#[test]
fn the_retry_table_says_how_often_a_receiver_that_is_away_is_looked_for() {
    let homes = Homes::new("", "PASSTHRU");
    let table = homes.stage.home().join("tcperrs");
    std::fs::write(&table, "ECONNREFUSED RETRY 1 3\n").expect("a table");
    let told = homes.stage.start("extract", "p1").fails();
    assert!(told.contains("DRV-00780"), "{told}");
    let report = homes.stage.text("dirrpt/P1.rpt");
    assert_eq!(report.matches("trying again in 10 ms").count(), 3, "{report}");
    std::fs::write(&table, "ECONNREFUSED TRY 1 3\n").expect("a table");
    let told = homes.stage.start("extract", "p1").fails();
    assert!(told.contains("line 1 is not") && told.contains("ECONNREFUSED RETRY 1000 12"), "{told}");
}

#[test]
fn a_single_file_is_sent_into_a_single_file_which_goes_on_after_a_restart_of_the_receiver() {
    let homes = Homes::bare();
    let stage = &homes.stage;
    stage.parameters("e1", "EXTRACT e1\nSOURCEDB sqlite:../source.db\nEXTFILE ./dirdat/orders.ext\nTABLE main.*;\n");
    let pump = format!("EXTRACT p1\nRMTHOST 127.0.0.1, PORT {}\nRMTFILE ./dirdat/copy.ext\nPASSTHRU\n", homes.port);
    stage.parameters("p1", &pump);
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db
         ADD EXTRACT e1, TRANLOG, BEGIN NOW
         ADD EXTFILE ./dirdat/orders.ext, EXTRACT e1
         ADD EXTRACT p1, EXTFILESOURCE ./dirdat/orders.ext
         ADD RMTFILE ./dirdat/copy.ext, EXTRACT p1
         ADD EXTRACT p2, EXTTRAILSOURCE ./dirdat/aa",
    );
    let refused = stage.console_refuses("ADD RMTFILE ./dirdat/other.ext, EXTRACT p2");
    assert!(refused.contains("whose files a single file can't hold"), "{refused}");
    homes.there(
        "DBLOGIN SOURCEDB sqlite:../target.db
         ADD CHECKPOINTTABLE main.checkpoints
         ADD REPLICAT r1, EXTFILE ./dirdat/copy.ext, CHECKPOINTTABLE main.checkpoints",
    );
    for round in 0..3 {
        stage.source().execute_batch(&format!("INSERT INTO t VALUES ({round}, 'a', 2.5)")).expect("an insert");
        let running = [stage.extract(), homes.receiver(), stage.start("extract", "p1"), homes.replicat()];
        homes.wait_until_equal(&["t"], &running.each_ref());
        running.into_iter().rev().for_each(|process| if round == 1 { process.kill() } else { drop(process.stop()) });
    }
    let names = std::fs::read_dir(homes.home_there().join("dirdat")).expect("dirdat");
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("copy.ext") && !name.contains(".ext.")).count(), 1);
}

#[test]
fn the_certificate_that_is_named_is_shown_and_hosts_count_where_an_authority_is_believed() {
    let homes = Homes::new("", "PASSTHRU");
    let stage = &homes.stage;
    stage.source().execute_batch("INSERT INTO u VALUES (1, 'x')").expect("a row");
    let running = [stage.extract(), homes.receiver(), homes.replicat()];
    // The other home believes the certificate p1 alone.
    let named = fingerprint(&stage.console("ADD CERTIFICATE p1"));
    homes.there(&format!("DELETE PEER shop; ADD PEER shop, FINGERPRINT {named}"));
    assert!(stage.start("extract", "p1").fails().contains("DRV-00781"));
    homes.pump(homes.port, ", CERTIFICATE p1", "PASSTHRU");
    let pump = stage.start("extract", "p1");
    homes.wait_until_equal(&["u"], &running.each_ref());
    pump.stop();
    // This home believes authorities only; the certificate that the receiver shows is its own one, and for some host names.
    stage.console("DELETE PEER target");
    let believe = |name: &str| {
        let from = homes.home_there().join(format!("dircrd/{name}.crt"));
        std::fs::copy(from, stage.home().join("dircrd/ca.crt")).expect("a copy");
    };
    homes.there("ADD CERTIFICATE near, HOSTS 'localhost 127.0.0.1'; ADD CERTIFICATE far, HOSTS elsewhere.example");
    let [extract, receiver, replicat] = running;
    receiver.stop();
    stage.source().execute_batch("INSERT INTO u VALUES (2, 'y')").expect("a row");
    let receiver = homes.receiver_with(&["--certificate", "far"]);
    believe("far");
    let told = stage.start("extract", "p1").fails();
    assert!(told.contains("DRV-00781") && told.contains("not valid for name"), "{told}");
    receiver.stop();
    let receiver = homes.receiver_with(&["--certificate", "near"]);
    believe("near");
    let pump = stage.start("extract", "p1");
    homes.wait_until_equal(&["u"], &[&extract, &receiver, &replicat, &pump]);
}
