//! INFO EXTRACT, SHOWCH: WAL files and LSNs against what the server says.

use super::stage::{Cluster, ClusterOptions, Stage, shared};
use crate::showch::{assert_extract_layout, assert_replicat_layout, newest_slot, record_ends, value};

#[test]
fn the_places_of_checkpoints_are_those_that_the_server_names() {
    assert_places_are_the_servers(&Stage::new("CREATE TABLE t (id int PRIMARY KEY)"), 16);
}

#[test]
fn so_they_are_where_log_files_are_not_of_the_usual_size() {
    let options = ClusterOptions { segment_megabytes: Some(1), ..ClusterOptions::default() };
    let source = Cluster::start(&options);
    let stage = Stage::on(&source, &shared().target, "CREATE TABLE t (id int PRIMARY KEY)");
    stage.add_groups();
    // Numbers of files must not be those of larger ones.
    stage.source.run("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 5000000))");
    assert_places_are_the_servers(&stage, 1);
}

fn assert_places_are_the_servers(stage: &Stage<'_>, megabytes: u64) {
    stage.source.run("INSERT INTO t SELECT generate_series(1, 50)");
    stage.replicate();
    stage.source.run("INSERT INTO t SELECT generate_series(51, 60)");
    stage.replicate();
    let shown = stage.console("INFO EXTRACT e1, SHOWCH");
    assert_extract_layout(&shown, "Timeline #: *\nSequence #: *\nRBA: *\nLSN: *\nWAL File: *");
    for title in ["Startup Checkpoint", "Recovery Checkpoint", "Current Checkpoint (position"] {
        let lsn = value(&shown, title, "LSN");
        let server = stage.source.run(&format!(
            "SELECT pg_walfile_name('{lsn}'), file_offset, '{lsn}'::pg_lsn <= pg_current_wal_lsn() \
             FROM pg_walfile_name_offset('{lsn}')"
        ));
        let file = value(&shown, title, "WAL File");
        let offset: u64 = value(&shown, title, "RBA").parse().expect("a number");
        assert_eq!(server, format!("{file}|{offset}|t"), "{title}");
        let number: u64 = value(&shown, title, "Sequence #").parse().expect("a number");
        let (high, low) = (&file[8..16], &file[16..]);
        let part = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        assert_eq!(number, part(high) * (4096 / megabytes) + part(low));
        assert_eq!(value(&shown, title, "Timeline #"), part(&file[..8]).to_string());
    }
    // The slot may forget what is before the recovery checkpoint, and nothing else.
    let recovery = value(&shown, "Recovery Checkpoint", "LSN");
    let slot = format!(
        "SELECT confirmed_flush_lsn <= '{recovery}' AND restart_lsn <= '{recovery}' FROM pg_replication_slots \
         WHERE database = '{}'",
        stage.source.database
    );
    assert_eq!(stage.source.run(&slot), "t");
    // Whoever is logged in to the source is told where the oldest transaction starts that may be open there: the slot knows.
    let url = stage.source.url();
    let logged_in = stage.console(&format!("DBLOGIN SOURCEDB '{url}'; INFO EXTRACT e1, SHOWCH"));
    let restart = format!(
        "SELECT restart_lsn = '{}' FROM pg_replication_slots WHERE database = '{}'",
        value(&logged_in, "Recovery Checkpoint", "LSN"),
        stage.source.database
    );
    assert_eq!(stage.source.run(&restart), "t");
    assert_eq!(value(&logged_in, "Current Checkpoint (position", "LSN"), recovery);
    let (offset, checkpoint) = newest_slot(&stage.home().join("dirchk/E1.cpe"));
    assert_eq!(value(&shown, "File Information", "Current Offset"), offset.to_string());
    let transaction = value(&shown, "CSN state", "Latest TXN");
    assert_eq!(checkpoint["extract"]["written"]["transaction"], transaction);
    assert_eq!(stage.source.run("SELECT DISTINCT xmin FROM t WHERE id > 50").len(), transaction.len());

    let shown = stage.console("INFO REPLICAT r1, SHOWCH");
    assert_replicat_layout(&shown);
    let current = "Current Checkpoint (position";
    let (sequence, rba) = (value(&shown, current, "Sequence #"), value(&shown, current, "RBA"));
    assert_eq!(stage.target.run("SELECT seqno || '|' || rba FROM checkpoints"), format!("{sequence}|{rba}"));
    let sequence: u32 = sequence.parse().expect("a number");
    let ends = record_ends(&stage.home().join(format!("dirdat/aa{sequence:09}")));
    let last = ends.iter().rev().find(|(_, is_end)| *is_end).expect("a transaction");
    assert_eq!(rba, last.0.to_string());
}
