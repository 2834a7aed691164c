//! DISTPATH: paths with their commands; several from one trail, and one behind another.

use super::homes::{Homes, fingerprint};
use crate::stage::{eventually, number};
use std::time::{Duration, Instant};

fn target(homes: &Homes, trail: &str) -> String {
    format!("TARGET wss://127.0.0.1:{}/services/v2/targets?trail={trail}", homes.port)
}

const SOURCE: &str = "SOURCE trail://localhost/services/v2/sources?trail=aa";

/// Both homes with Extract E1 and without any path.
fn homes() -> Homes {
    let homes = Homes::bare();
    homes.stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db
         ADD EXTRACT e1, TRANLOG, BEGIN NOW
         ADD EXTTRAIL ./dirdat/aa, EXTRACT e1",
    );
    homes.there(
        "DBLOGIN SOURCEDB sqlite:../target.db
         ADD CHECKPOINTTABLE main.checkpoints
         ADD REPLICAT r1, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE main.checkpoints",
    );
    homes
}

/// All changes of a trail of the second home.
fn dump(homes: &Homes, trail: &str) -> String {
    homes.files_there(trail).iter().map(|file| crate::stage::trail_show(file)).collect()
}

/// All records of a trail of the second home, headers included.
fn records(homes: &Homes, trail: &str) -> String {
    homes.files_there(trail).iter().map(|file| crate::stage::logdump(file)).collect()
}

#[test]
fn a_path_is_added_started_shown_altered_stopped_and_deleted() {
    let homes = homes();
    let stage = &homes.stage;
    stage.console(&format!("ADD DISTPATH p1 {SOURCE} {} SIZEMB 1", target(&homes, "bb")));
    let info = stage.console("INFO DISTPATH p1");
    for told in ["Path P1", "uninitialized", "sources?trail=aa", &format!("wss://127.0.0.1:{}/services", homes.port)] {
        assert!(info.contains(told), "{told}: {info}");
    }
    let running = [stage.extract(), homes.receiver(), homes.replicat()];
    stage.console("START DISTPATH p1");
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'a', 1); INSERT INTO u VALUES (1, 2)").expect("rows");
    homes.wait_until_equal(&["t", "u"], &running.each_ref());
    let stats = stage.console("STATS DISTPATH p1 TOTAL");
    assert!(stats.contains("main.t") && stats.contains("main.u"), "{stats}");
    let refused = stage.console_refuses("ALTER DISTPATH p1 COMPRESSION ON");
    assert!(refused.contains("P1"), "{refused}");
    stage.console("STOP DISTPATH p1");
    let info = stage.console("INFO DISTPATH ALL DETAIL");
    for told in ["stopped", "Current output", "000000000:", "Starting input"] {
        assert!(info.contains(told), "{told}: {info}");
    }
    // From now on without table u, compressed, and slowly.
    stage.console(
        "ALTER DISTPATH p1 RULE FILTER OBJECTNAMES main.u ACTION EXCLUDE COMPRESSION ON THRESHOLD 100 BANDWIDTH 100K",
    );
    let text = stage.text("dirprm/p1.prm");
    for told in ["COMPRESS, COMPRESSTHRESHOLD 100, BANDWIDTH 100K", "TABLE *.*;", "TABLEEXCLUDE main.u;"] {
        assert!(text.contains(told) && !text.contains("PASSTHRU"), "{told}: {text}");
    }
    stage.console("START DISTPATH p1");
    stage.source().execute_batch("INSERT INTO u VALUES (2, 3); INSERT INTO t VALUES (2, 'b', 2)").expect("rows");
    homes.wait_until_equal(&["t"], &running.each_ref());
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM u"), 1);
    // Another target, from the beginning on, in files of another size.
    stage.console(&format!(
        "STOP DISTPATH p1; ALTER DISTPATH p1 {} BEGIN SEQNO 0 RULE PASSTHRU SIZEMB 7",
        target(&homes, "ee")
    ));
    assert!(stage.console("INFO RMTTRAIL *").contains("File Size: 7M"));
    stage.console("START DISTPATH p1");
    eventually("the new trail holds the first row and the last one", || {
        let told = dump(&homes, "ee");
        (told.contains("main.u") && told.contains("main.t") && told.matches("INSERT").count() >= 4).then_some(())
    });
    stage.console("STOP DISTPATH p1; DELETE DISTPATH p1");
    assert!(!stage.home().join("dirprm/p1.prm").exists());
    assert!(stage.console("INFO DISTPATH ALL").contains("No distribution path"));
    running.into_iter().rev().for_each(|process| drop(process.stop()));
}

#[test]
fn bandwidth_holds_a_path_back_and_compression_lets_more_through() {
    let homes = homes();
    let stage = &homes.stage;
    let _receiver = homes.receiver();
    let extract = stage.extract();
    stage
        .source()
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO t SELECT i, 'the same text in every row, again and again', i FROM n",
        )
        .expect("rows");
    eventually("the trail holds all", || stage.trail_shows("2000").then_some(()));
    extract.stop();
    let took = |path: &str, trail: &str, options: &str| {
        stage.console(&format!("ADD DISTPATH {path} {SOURCE} {} {options}", target(&homes, trail)));
        let start = Instant::now();
        stage.console(&format!("START DISTPATH {path}"));
        let end = std::fs::metadata(stage.trail_files().last().expect("a file")).expect("its size").len();
        eventually("the path has sent all", || {
            let files = homes.files_there(trail);
            let sent = files.iter().map(|file| std::fs::metadata(file).map_or(0, |file| file.len()));
            (sent.sum::<u64>() + 4000 >= end).then_some(())
        });
        let took = start.elapsed();
        stage.console(&format!("STOP DISTPATH {path}"));
        (took, end)
    };
    let (plain, bytes) = took("p1", "bb", "BANDWIDTH 100K");
    assert!(bytes > 300_000, "{bytes}");
    // The last batch leaves at once when the line is free, so it does not count.
    let least = Duration::from_secs_f64((bytes - 262_144) as f64 / 102_400.0);
    assert!(plain >= least, "{bytes} bytes took {plain:?}, which is less than {least:?}");
    let (packed, _) = took("p2", "cc", "BANDWIDTH 100K COMPRESSION ON");
    assert!(packed < plain, "{packed:?} with compression, {plain:?} without");
}

#[test]
fn two_paths_read_one_trail_and_a_third_goes_on_from_where_the_first_ends() {
    let homes = homes();
    let stage = &homes.stage;
    // The second home sends to itself, so it believes itself.
    let own = fingerprint(&homes.there("INFO CERTIFICATE"));
    homes.there(&format!("ADD PEER itself, FINGERPRINT {own}"));
    stage.console(&format!(
        "ADD DISTPATH p1 {SOURCE} {}; ADD DISTPATH p2 {SOURCE} {} RULE FILTER OBJECTNAMES main.u",
        target(&homes, "bb"),
        target(&homes, "cc")
    ));
    homes.there(&format!(
        "ADD DISTPATH p3 SOURCE trail://localhost/services/v2/sources?trail=bb {}",
        target(&homes, "dd")
    ));
    let running = [stage.extract(), homes.receiver(), homes.replicat()];
    stage.console("START DISTPATH p1; START DISTPATH p2");
    homes.there("START DISTPATH p3");
    stage
        .source()
        .execute_batch("INSERT INTO t VALUES (1, 'for t', 1); INSERT INTO u VALUES (1, 'for u')")
        .expect("rows");
    homes.wait_until_equal(&["t", "u"], &running.each_ref());
    eventually("both other trails have their rows", || {
        (dump(&homes, "cc").contains("for u") && dump(&homes, "dd").contains("for u")).then_some(())
    });
    let (filtered, behind) = (dump(&homes, "cc"), dump(&homes, "dd"));
    assert!(!filtered.contains("for t") && behind.contains("for t"), "{filtered}\n{behind}");
    // Each hop adds itself to the history of the trail.
    let behind = records(&homes, "dd");
    for hop in [":E1", ":P1", ":P3"] {
        assert!(behind.contains(hop), "{hop}: {behind}");
    }
    stage.console("STOP DISTPATH p1; STOP DISTPATH p2");
    homes.there("STOP DISTPATH p3");
    running.into_iter().rev().for_each(|process| drop(process.stop()));
}

#[test]
fn what_has_no_effect_on_a_path_is_refused() {
    let homes = homes();
    let stage = &homes.stage;
    stage.console(&format!("ADD DISTPATH p1 {SOURCE} {}", target(&homes, "bb")));
    for (command, told) in [
        (format!("ADD DISTPATH p2 {SOURCE} TARGET ws://h:1/services/v2/targets?trail=bb"), "always encrypted"),
        (format!("ADD DISTPATH p2 {SOURCE} TARGET wss://h:1/services/v2/targets?trail=bbb"), "is no target"),
        ("ADD DISTPATH p2 SOURCE trail://far:9/services/v2/sources?trail=aa TARGET wss://h/services/v2/targets?trail=bb".to_owned(), "begins in its own home"),
        (format!("ADD DISTPATH p2 {SOURCE} {} RULE FILTER", target(&homes, "bb")), "RULE is PASSTHRU, or FILTER"),
        (format!("ADD DISTPATH p2 {SOURCE} {} COMPRESSION OFF THRESHOLD 3", target(&homes, "bb")), "no effect"),
        (format!("ADD DISTPATH p2 {SOURCE} {} SEQNO 3", target(&homes, "bb")), "BEGIN is followed by"),
        (format!("ADD DISTPATH p2 {SOURCE} {} BANDWIDTH much", target(&homes, "bb")), "is not a bandwidth"),
        (format!("ADD DISTPATH p1 {SOURCE} {}", target(&homes, "bb")), "exists already"),
        ("ALTER DISTPATH p1".to_owned(), "nothing is to be altered"),
        ("START DISTPATH e1".to_owned(), "is no path"),
    ] {
        let refused = stage.console_refuses(&command);
        assert!(refused.contains(told), "{command}: {refused}");
    }
}
