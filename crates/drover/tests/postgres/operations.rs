//! What administrators do to servers while they are captured.

use super::stage::{Pair, Stage};
use crate::stage::drover;
use std::process::Output;
use std::time::{Duration, Instant};

fn run(command: &mut std::process::Command) -> Output {
    command.output().expect("the binary runs")
}

/// An orderly stop waits for what we have not confirmed, so we must confirm at once, or go.
#[test]
fn a_source_that_is_stopped_fast_does_not_wait_for_us() {
    let pair = Pair::start(&[]);
    let stage = Stage::on(&pair.source, &pair.target, "CREATE TABLE t (id int PRIMARY KEY, a text)");
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    for mode in ["fast", "smart", "immediate"] {
        stage.source.run(&format!("INSERT INTO t SELECT n, '{mode}' FROM generate_series(1, 20000) AS n ON CONFLICT (id) DO UPDATE SET a = excluded.a"));
        let started = Instant::now();
        pair.source.stop(mode);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(30), "{mode}: {took:?}");
        pair.source.start_again();
    }
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 20_000);
}

/// The other side of it: the target may be stopped too.
#[test]
fn a_target_that_is_stopped_fast_does_not_wait_for_us() {
    let pair = Pair::start(&[]);
    let stage = Stage::on(&pair.source, &pair.target, "CREATE TABLE t (id int PRIMARY KEY, a text)");
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.source.run("INSERT INTO t SELECT n, 'a' FROM generate_series(1, 20000) AS n");
    let started = Instant::now();
    pair.target.stop("fast");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    pair.target.start_again();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 20_000);
}

#[test]
fn a_table_whose_policies_hide_rows_from_the_role_is_refused_on_every_path() {
    let stage = Stage::bare("CREATE TABLE secret (id int PRIMARY KEY, whose text)");
    for (side, role) in [(&stage.source, "peeking"), (&stage.target, "writing")] {
        side.run(&format!(
            "CREATE ROLE {role} LOGIN REPLICATION; CREATE ROLE {role}_owner NOLOGIN; GRANT {role}_owner TO {role}; \
             GRANT CREATE ON DATABASE {} TO {role}; GRANT ALL ON SCHEMA public TO {role}; \
             GRANT SET ON PARAMETER session_replication_role TO {role}; \
             ALTER TABLE signal OWNER TO {role}_owner; ALTER TABLE secret OWNER TO {role}_owner; \
             ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY; \
             CREATE POLICY own ON secret USING (whose = current_user)",
            side.database
        ));
    }
    stage.source.run("INSERT INTO secret VALUES (1, 'peeking'), (2, 'somebody')");
    let (source, target) = (stage.source.url_of("peeking"), stage.target.url_of("writing"));
    let set_up = stage.set_up().replace(&stage.source.url(), &source).replace(&stage.target.url(), &target);
    stage.parameters("e1", &format!("EXTRACT e1\nSOURCEDB {source}\nEXTTRAIL ./dirdat/aa\nTABLE public.*;\n"));
    stage.parameters("r1", &format!("REPLICAT r1\nTARGETDB {target}\nMAP *.*, TARGET *.*;\n"));
    stage.console(&set_up);
    let refused = |output: Output| {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_ne!(output.status.code(), Some(0), "{message}");
        assert!(message.contains("secret") && message.contains("row-level security"), "{message}");
    };
    // The copy would take a part for the whole, and so would the comparison.
    let extract = stage.extract();
    refused(run(drover().args(["copy", "r1", "--extract", "e1", "--home"]).arg(stage.home())));
    refused(run(drover().args(["compare", &source, &target])));
    extract.stop();
    // The log tells all rows, whoever may see them; where the target's policies would hide one, nothing is written.
    stage.console(&format!("DBLOGIN SOURCEDB '{target}'; DELETE REPLICAT r1 !; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE public.checkpoints"));
    stage.source.run("UPDATE secret SET whose = 'other' WHERE id = 2");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("row-level security"), "{message}");
    extract.stop();
}
