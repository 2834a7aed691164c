//! The whole pipeline under seeds, for as long as there is time.
//!
//! `DROVER_SIM_SECONDS` sets the time (10 s by default), `DROVER_SIM_SEED` replays one seed, `DROVER_SIM_START` moves the
//! first seed.

use std::time::{Duration, Instant};
use testkit::world::{self, Outcome};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

fn run_seeds(run: impl Fn(u64) -> Result<Outcome, world::Broken>) {
    if let Some(seed) = number("DROVER_SIM_SEED") {
        let outcome = run(seed).unwrap_or_else(|broken| panic!("{broken}"));
        println!("seed {seed}: {outcome:?}");
        return;
    }
    let time = Duration::from_secs(number("DROVER_SIM_SECONDS").unwrap_or(10));
    let first = number("DROVER_SIM_START").unwrap_or(1);
    let started = Instant::now();
    let mut total = Outcome::default();
    let mut seeds = 0;
    // At least a few, however slow the machine: a run of nothing proves nothing.
    while seeds < 20 || started.elapsed() < time {
        let outcome = run(first + seeds);
        let outcome = outcome.unwrap_or_else(|broken| panic!("replay with DROVER_SIM_SEED={}\n{broken}", broken.seed));
        total.transactions += outcome.transactions;
        total.commits += outcome.commits;
        total.deaths += outcome.deaths;
        seeds += 1;
    }
    println!("{seeds} seeds in {:.1} s: {total:?}", started.elapsed().as_secs_f64());
    assert!(total.transactions > 0 && total.deaths > 0, "the seeds must do something: {total:?}");
}

#[test]
fn after_any_crashes_the_target_equals_the_source() {
    run_seeds(world::run);
}

#[test]
fn after_any_crashes_a_target_with_several_appliers_equals_the_source() {
    run_seeds(world::run_parallel);
}

#[test]
fn after_any_crashes_a_coordinated_target_equals_the_source() {
    run_seeds(world::run_coordinated);
}

#[test]
fn after_any_crashes_a_target_of_split_transactions_equals_the_source() {
    run_seeds(world::run_split);
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    for seed in 1..6 {
        assert_eq!(world::run(seed), world::run(seed));
        assert_eq!(world::run_parallel(seed), world::run_parallel(seed));
    }
}
