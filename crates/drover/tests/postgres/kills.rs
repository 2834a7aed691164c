//! kill -9 of groups and of both servers, at any moment.

use super::stage::{Pair, Side, Stage};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Seconds of work and kills.
fn seconds() -> u64 {
    std::env::var("DROVER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

fn random() -> (u64, fastrand::Rng) {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    (seed, fastrand::Rng::with_seed(seed))
}

/// TPC-B as pgbench knows it, but for a history whose numbers come in commit order: whoever has counted up the branch
/// keeps it locked until the commit.
const SCRIPT: &str = "\
\\set aid random(1, 100000)
\\set tid random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1 RETURNING bbalance AS number \\gset
INSERT INTO history VALUES (:number, :aid, :delta, repeat('x', abs(:delta) % 300));
END;
";

/// One run of pgbench, which ends when its server does.
fn pgbench(side: &Side<'_>, script: &str, seconds: u64, seed: u64) -> Child {
    let mut command = side.cluster.command("pgbench");
    command.args(["-n", "-c", "4", "-R", "400", "-U", "postgres", "-f", script, "-h"]).arg(side.cluster.directory());
    command.args([&format!("-T{seconds}"), &format!("--random-seed={seed}"), "-p", &side.cluster.port().to_string()]);
    command.arg(&side.database).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench starts")
}

#[test]
fn pgbench_ends_equal_with_each_history_row_once_and_in_order_whatever_is_killed() {
    let (seed, mut random) = random();
    let pair = Pair::start(&[]);
    let stage =
        Stage::on(&pair.source, &pair.target, "CREATE TABLE history (number int, aid int, delta int, filler text)");
    for side in [&stage.source, &stage.target] {
        let mut command = side.cluster.command("pgbench");
        command.args(["-i", "-q", "-s", "1", "-U", "postgres", "-h"]).arg(side.cluster.directory());
        command.args(["-p", &side.cluster.port().to_string(), &side.database]);
        let output = command.output().expect("pgbench starts");
        assert!(output.status.success(), "{output:?}");
        side.run("DROP TABLE pgbench_history");
    }
    stage.source.run("ALTER TABLE history REPLICA IDENTITY FULL");
    stage.target.run("ALTER TABLE history ADD arrival bigserial");
    stage.add_groups();
    // The servers' user must be able to read it.
    let script = stage.source.cluster.directory().join("script.sql");
    std::fs::write(&script, SCRIPT).expect("a script");
    let script = script.to_str().expect("UTF-8");

    let start = Instant::now();
    let left = || seconds().saturating_sub(start.elapsed().as_secs());
    let mut work = pgbench(&stage.source, script, left(), seed);
    let (mut extract, mut replicat) = (stage.extract(), stage.replicat());
    let mut kills = [0; 4];
    while left() > 0 {
        // The moment of a kill is the test's input: from before a process has started up to the middle of its work.
        std::thread::sleep(Duration::from_millis(random.u64(0..700)));
        extract.assert_running();
        replicat.assert_running();
        let victim = [0, 0, 0, 1, 1, 1, 2, 3][random.usize(0..8)];
        kills[victim] += 1;
        match victim {
            0 => {
                extract.kill();
                extract = stage.extract();
            }
            1 => {
                replicat.kill();
                replicat = stage.replicat();
            }
            server => {
                let cluster = if server == 2 { stage.source.cluster } else { stage.target.cluster };
                match random.usize(0..4) {
                    0 => cluster.stop("immediate"),
                    1 => cluster.stop("fast"),
                    _ => cluster.kill(),
                }
                cluster.start_again();
            }
        }
        if work.try_wait().expect("its status").is_some() {
            work = pgbench(&stage.source, script, left().max(1), random.u64(..1_000_000));
        }
    }
    work.wait().expect("pgbench ends");
    println!("killed: Extract {}, Replicat {}, source {}, target {}", kills[0], kills[1], kills[2], kills[3]);
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();

    stage.assert_equal_but(&["public.history"]);
    let told = "SELECT number, aid, delta, filler FROM history ORDER BY number";
    assert_eq!(stage.source.run(told), stage.target.run(told));
    let written: u32 = stage.source.run("SELECT bbalance FROM pgbench_branches").parse().expect("a number");
    assert!(written > 500, "there was work: {written}");
    let whole = format!("{written}|{written}|1|{written}");
    assert_eq!(
        stage.target.run("SELECT count(*), count(DISTINCT number), min(number), max(number) FROM history"),
        whole
    );
    let swapped = "SELECT count(*) FROM (SELECT number, lag(number) OVER (ORDER BY arrival) AS before FROM history) AS h \
                   WHERE before >= number";
    assert_eq!(stage.target.run(swapped), "0");
}
