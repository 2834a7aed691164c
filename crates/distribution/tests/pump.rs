//! A Pump on disks that forget: each transaction arrives once, whatever dies when.

mod world;

use distribution::{GroupLedger, Pump, PumpSetup, Step};
use fastrand::Rng;
use process::{CheckpointFile, GroupKind};
use std::sync::Arc;
use std::time::Duration;
use trail::copy::CopyEverything;
use trail::storage::Forgetful;
use world::{Source, copy_options, create_checkpoint, group, history, judge, now, source_name};

fn open(source: &Source, target: &Forgetful, home: &Forgetful, random: &mut Rng) -> Result<Pump, distribution::Error> {
    let checkpoint = CheckpointFile::open(Arc::new(home.clone()), GroupKind::Extract, &group())
        .map_err(|error| distribution::Error::Checkpoint(Box::new(error)))?;
    Pump::open(PumpSetup {
        source: Arc::new(source.disk.another_process()),
        source_trail: source_name(),
        rules: Box::new(CopyEverything),
        keys: None,
        target: Arc::new(target.clone()),
        options: copy_options(random),
        ledger: Box::new(GroupLedger::new(checkpoint, Box::new(now))),
        notice: Box::new(|text| panic!("nothing was lost: {text}")),
        since: now(),
    })
}

/// Runs the world of one seed.
fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let history = history(&mut random, 40);
    let mut source = Source::new(seed);
    let (target, home) = (Forgetful::new(seed + 1), Forgetful::new(seed + 2));
    create_checkpoint(&home);
    let mut pump: Option<Pump> = None;
    let mut deaths = 0;
    for _ in 0..100_000 {
        let may_die = deaths < 30;
        deaths += usize::from(!random.bool() && random.u16(..50) == 0);
        if may_die && random.u16(..200) == 0 {
            source.kill();
            source.disk.crash();
            // A reader on the other side of a power failure is dead, too, if it shares the machine.
            pump = None;
            deaths += 1;
        }
        if may_die && random.u16(..100) == 0 {
            target.fail_after(random.u64(..20));
            home.fail_after(random.u64(..20));
        }
        let is_written = source.step(&history, &mut random).expect("the source's disk is well");
        for _ in 0..random.usize(..4) {
            let result = match &mut pump {
                None => open(&source, &target, &home, &mut random).map(|opened| {
                    pump = Some(opened);
                    Step::Worked
                }),
                Some(open) => open.step(Duration::ZERO),
            };
            match result {
                Ok(Step::Idle) if is_written && deaths >= 30 => {
                    // Whatever was still to fail fails no more.
                    [&target, &home].into_iter().for_each(Forgetful::kill);
                    judge(&target, &history, &format!("seed {seed}"));
                    return;
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(target.has_failed() || home.has_failed(), "seed {seed}: {error:?}");
                    pump = None;
                    match random.bool() {
                        true => [&target, &home].into_iter().for_each(Forgetful::crash),
                        false => [&target, &home].into_iter().for_each(Forgetful::kill),
                    }
                    deaths += 1;
                }
            }
        }
    }
    panic!("seed {seed}: the Pump never came to rest");
}

#[test]
fn a_pump_sends_each_transaction_once_whatever_dies() {
    let seeds = std::env::var("DROVER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    (0..seeds).for_each(run);
}

/// A home in which 40 transactions were sent and the Pump has stopped.
fn sent(seed: u64) -> (Source, Forgetful, Forgetful, Vec<world::Transaction>) {
    let mut random = Rng::with_seed(seed);
    let history = history(&mut random, 40);
    let mut source = Source::new(seed);
    let (target, home) = (Forgetful::new(seed + 1), Forgetful::new(seed + 2));
    create_checkpoint(&home);
    while !source.step(&history, &mut random).expect("writes") {}
    let mut pump = open(&source, &target, &home, &mut random).expect("opens");
    while pump.step(Duration::ZERO).expect("works") == Step::Worked {}
    pump.stop().expect("stops");
    (source, target, home, history)
}

#[test]
fn a_target_trail_that_is_lost_is_named_and_nothing_is_sent() {
    let (source, _, home, history) = sent(7);
    let empty = Forgetful::new(1);
    let error = open(&source, &empty, &home, &mut Rng::with_seed(1)).err().expect("is lost");
    let last = &history.last().expect("some").commit;
    let text = error.to_string();
    assert!(matches!(error, distribution::Error::TargetLost { .. }), "{text}");
    assert!(text.contains(last.csn.as_str()) && text.contains(last.transaction.as_str()), "{text}");
}

#[test]
fn a_target_trail_of_somebody_else_is_named_and_not_written() {
    let (_, target, home, _) = sent(7);
    let mut random = Rng::with_seed(9);
    let mut other = Source::new(9);
    let history: Vec<_> = world::history(&mut random, 80).into_iter().skip(50).collect();
    while !other.step(&history, &mut random).expect("writes") {}
    let before = target.bytes();
    let error = open(&other, &target, &home, &mut random).err().expect("does not fit");
    assert!(matches!(&error, distribution::Error::Source(_) | distribution::Error::TargetUnlike { .. }), "{error:?}");
    assert_eq!(target.bytes(), before);
}
