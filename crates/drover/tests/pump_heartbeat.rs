//! Heartbeats through Pumps: each signs what it sends on.

use crate::stage::{Running, Stage, eventually, number};
use rusqlite::Connection;

const WAYS: &str = "SELECT LOCAL_DATABASE || ' <- ' || REMOTE_DATABASE || ': ' || coalesce(INCOMING_PATH, '-') || ' | ' \
                    || coalesce(OUTGOING_PATH, '-') FROM GG_LAG ORDER BY 1";

fn ways(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare(WAYS).expect("a query");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("rows")
}

/// Adds Extract or Pump `group` with its output trail; a Pump reads trail `input`.
fn add(stage: &Stage, group: &str, input: Option<&str>, output: &str, database: &str, more: &str) {
    let source = match input {
        Some(_) => String::new(),
        None => format!("SOURCEDB sqlite:../{database}\n"),
    };
    stage.parameters(group, &format!("EXTRACT {group}\n{source}EXTTRAIL ./dirdat/{output}\n{more}\n"));
    let from = input.map_or("TRANLOG, BEGIN NOW".to_owned(), |input| format!("EXTTRAILSOURCE ./dirdat/{input}"));
    stage.console(&format!(
        "DBLOGIN SOURCEDB sqlite:../{database}; ADD EXTRACT {group}, {from}; ADD EXTTRAIL ./dirdat/{output}, EXTRACT {group}"
    ));
}

fn add_replicat(stage: &Stage, group: &str, input: &str, database: &str) {
    let map = format!("REPLICAT {group}\nTARGETDB sqlite:../{database}\nMAP main.t, TARGET main.t;\n");
    stage.parameters(group, &map);
    stage.console(&format!(
        "DBLOGIN SOURCEDB sqlite:../{database}; ADD CHECKPOINTTABLE main.checkpoints_{group}
         ADD REPLICAT {group}, EXTTRAIL ./dirdat/{input}, CHECKPOINTTABLE main.checkpoints_{group}"
    ));
}

fn dump(stage: &Stage, trail: &str) -> String {
    let files = std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat");
    let mut names: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    names.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(trail) && name[trail.len()..].bytes().all(|byte| byte.is_ascii_digit())
    });
    assert!(!names.is_empty(), "trail {trail} has files");
    names.iter().map(|path| crate::stage::trail_show(path)).collect()
}

#[test]
fn a_pump_signs_heartbeats_and_so_do_three_of_them_one_behind_the_other() {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.create_database("third.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../source.db; ADD HEARTBEATTABLE, FREQUENCY 1
         DBLOGIN SOURCEDB sqlite:../target.db; ADD HEARTBEATTABLE, FREQUENCY 1
         DBLOGIN SOURCEDB sqlite:../third.db; ADD HEARTBEATTABLE, TARGETONLY",
    );
    add(&stage, "e1", None, "aa", "source.db", "TABLE main.t;");
    add(&stage, "p1", Some("aa"), "ab", "source.db", "PASSTHRU");
    add(&stage, "p2", Some("ab"), "ac", "source.db", "TABLE main.t;");
    add(&stage, "p3", Some("ac"), "ad", "source.db", "PASSTHRU");
    add_replicat(&stage, "r1", "ad", "target.db");
    // Another way from the same trail.
    add(&stage, "p9", Some("aa"), "az", "source.db", "PASSTHRU");
    add_replicat(&stage, "r9", "az", "third.db");
    // The way back.
    add(&stage, "e2", None, "ba", "target.db", "TABLE main.t;");
    add(&stage, "q1", Some("ba"), "bb", "target.db", "PASSTHRU");
    add_replicat(&stage, "r2", "bb", "source.db");
    let groups = ["e1", "p1", "p2", "p3", "r1", "p9", "r9", "e2", "q1", "r2"];
    let part = |group: &str| if group.starts_with('r') { "replicat" } else { "extract" };
    let running: Vec<Running> = groups.iter().map(|group| stage.start(part(group), group)).collect();
    let (source, target, third) = (stage.source(), stage.target(), stage.open("third.db"));
    source.execute("INSERT INTO t VALUES (1, 'x')", []).expect("an insert");
    let (out, back) = ("E1 ==> P1,P2,P3 ==> R1", "E2 ==> Q1 ==> R2");
    let at_target = [format!("target.db <- source.db: {out} | -"), format!("target.db <- source.db: {out} | {back}")];
    let at_source = [format!("source.db <- target.db: {back} | -"), format!("source.db <- target.db: {back} | {out}")];
    eventually("both ends know both ways", || {
        running.iter().for_each(Running::assert_running);
        (ways(&target) == at_target && ways(&source) == at_source && number(&third, "SELECT count(*) FROM t") == 1)
            .then_some(())
    });
    // One time for all Pumps, between those of Extract and Replicat; it is that of the last one.
    let answered = "SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE OUTGOING_ROUTING_TS IS NOT NULL";
    eventually("answers come back", || (number(&target, answered) > 2).then_some(()));
    // The lag of routing stands in LAG.
    let told = stage.console("DBLOGIN SOURCEDB sqlite:../target.db; LAG REPLICAT r1");
    assert!(told.contains("E1 ==> P1,P2,P3 ==> R1") && told.contains("ROUTING"), "{told}");
    running.into_iter().for_each(|group| drop(group.stop()));
    for database in [&source, &target, &third] {
        let history = number(database, "SELECT count(*) FROM GG_HEARTBEAT_HISTORY");
        let ordered = "SELECT count(*) FROM GG_HEARTBEAT_HISTORY WHERE INCOMING_EXTRACT_TS <= INCOMING_ROUTING_TS \
                       AND INCOMING_ROUTING_TS <= INCOMING_REPLICAT_TS";
        assert_eq!(number(database, ordered), history);
        assert!(history > 0);
    }
    // What answers names its way: Pump P9, which is not on it, has left it out, and P1 has not.
    let closed = "P1,P2,P3";
    assert!(dump(&stage, "ab").contains(closed), "answers go the way that they name");
    let beside = dump(&stage, "az");
    assert!(!beside.contains(closed) && beside.contains("P9,*"), "{beside}");
    // Nobody counts heartbeats.
    for pump in ["P1", "P2", "P3", "P9"] {
        let report = stage.text(&format!("dirrpt/{pump}.rpt"));
        let (_, report) = report.split_once("Run Time Statistics").expect("statistics");
        assert!(report.contains("main.t ") && !report.contains("GG_HEARTBEAT"), "{report}");
    }
}
