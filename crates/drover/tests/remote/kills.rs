//! kill -9 of every process of two homes while work is in flight.

use super::homes::Homes;
use crate::stage::Running;
use std::time::Duration;

#[test]
fn kills_of_every_process_of_two_homes_under_load_end_equal() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let homes = Homes::new(if random.bool() { ", COMPRESS" } else { "" }, "PASSTHRU");
    let stage = &homes.stage;
    let start = |which: usize| match which {
        0 => homes.receiver(),
        1 => stage.start("extract", "p1"),
        2 => stage.extract(),
        _ => homes.replicat(),
    };
    let source = stage.source();
    let mut running: Vec<Option<Running>> = (0..4).map(|which| Some(start(which))).collect();
    for round in 0..40 {
        for id in 0..random.u32(1..120) {
            let id = round * 1000 + id;
            source.execute("INSERT INTO t VALUES (?1, 'x', ?1)", [id]).expect("an insert");
        }
        source.execute_batch("UPDATE t SET b = b + 1 WHERE id % 7 = 0").expect("an update");
        // The moment of a kill is the test's input.
        std::thread::sleep(Duration::from_millis(random.u64(0..80)));
        let victim = if random.bool() { random.usize(..2) } else { random.usize(..4) };
        running[victim].take().expect("runs").kill();
        running[victim] = Some(start(victim));
    }
    let running: Vec<Running> = running.into_iter().flatten().collect();
    homes.wait_until_equal(&["t"], &running.iter().collect::<Vec<_>>());
    running.into_iter().for_each(|process| drop(process.stop()));
    stage.assert_equal(&["t"]);
    assert!(!homes.stage.event_log().contains("DRV-00462"), "the target trail never lost what was answered for");
}
