//! Any schedule ends as the trail does, and refuses nothing that the trail would not.
//!
//! The model is a table with a key and a second unique column. Transactions are made so that they fit when they are applied one
//! after another; then appliers take them by turns that a seed decides, and each group is applied as a whole at some later
//! moment. As with a source that tells only keys of old rows, the write sets show the second column's new values and not its
//! old ones, so groups come too early now and then and are refused.

use apply::schedule::{Arrival, Group, Parallelism, Schedule, ScheduleLimits, Supply, Verdict, WriteSet};
use fastrand::Rng;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert { id: u64, code: u64 },
    Update { id: u64, code: u64 },
    Delete { id: u64 },
    Clear,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Model {
    codes: BTreeMap<u64, u64>,
}

impl Model {
    fn step(&mut self, step: Step) -> Result<(), String> {
        let refused = || Err(format!("{step:?}"));
        let is_taken = |id: u64, code: u64| self.codes.iter().any(|(other, taken)| *other != id && *taken == code);
        match step {
            Step::Insert { id, code } if self.codes.contains_key(&id) || is_taken(id, code) => return refused(),
            Step::Update { id, code } if !self.codes.contains_key(&id) || is_taken(id, code) => return refused(),
            Step::Insert { id, code } | Step::Update { id, code } => _ = self.codes.insert(id, code),
            Step::Delete { id } => {
                if self.codes.remove(&id).is_none() {
                    return refused();
                }
            }
            Step::Clear => self.codes.clear(),
        }
        Ok(())
    }

    fn apply(&mut self, steps: impl IntoIterator<Item = Step>) -> Result<(), String> {
        let mut after = self.clone();
        steps.into_iter().try_for_each(|step| after.step(step))?;
        *self = after;
        Ok(())
    }
}

/// Transactions that fit one after another.
fn transactions(random: &mut Rng) -> (Vec<Vec<Step>>, Model) {
    let mut model = Model::default();
    let keys = random.u64(2..12);
    let transactions = (0..random.usize(5..80)).map(|_| {
        let mut steps = Vec::new();
        for _ in 0..random.usize(0..6) {
            let (id, code) = (random.u64(..keys), random.u64(..keys));
            let step = match random.u8(..) {
                0..=109 => Step::Insert { id, code },
                110..=199 => Step::Update { id, code },
                200..=252 => Step::Delete { id },
                _ => Step::Clear,
            };
            if model.step(step).is_ok() {
                steps.push(step);
            }
        }
        steps
    });
    let transactions: Vec<_> = transactions.collect();
    (transactions, model)
}

fn touches(steps: &[Step]) -> WriteSet {
    let mut set = WriteSet::new();
    let (key, unique) = (|id: u64| 2 * id, |code: u64| 2 * code + 1);
    for step in steps {
        match *step {
            Step::Insert { id, code } | Step::Update { id, code } => {
                set.write(key(id));
                set.write(unique(code));
            }
            Step::Delete { id } => set.write(key(id)),
            Step::Clear => set.barrier(),
        }
    }
    set
}

#[derive(Debug, Default)]
struct Seen {
    early: u32,
    together: u32,
    out_of_order: u32,
}

fn run(seed: u64) -> Result<Seen, String> {
    let mut random = Rng::with_seed(seed);
    let (transactions, wanted) = transactions(&mut random);
    let limits = ScheduleLimits {
        group_operations: *random.choice([1, 2, 5, 100].iter()).unwrap(),
        group_transactions: random.usize(1..20),
        group_bytes: 1 << 20,
        look_ahead: *random.choice([1, 3, 20, 1000].iter()).unwrap(),
        bytes: 1 << 20,
        serial: random.u8(..) < 30,
    };
    let mut schedule = Schedule::new(limits, Parallelism::between(random.usize(1..4), random.usize(1..8)));
    let mut model = Model::default();
    let mut committed = vec![false; transactions.len()];
    let mut open: Vec<Group> = Vec::new();
    let (mut arrived, mut seen, mut idle) = (0, Seen::default(), 0);
    while arrived < transactions.len() || !schedule.is_empty() {
        idle += 1;
        if idle > 10_000 {
            return Err(format!("nothing moves: {open:?}"));
        }
        match random.u8(0..3) {
            0 if arrived < transactions.len() && !schedule.is_full() => {
                let steps = &transactions[arrived];
                let set = touches(steps);
                let arrival = Arrival {
                    touches: (!steps.is_empty()).then_some(&set),
                    operations: steps.len() as u32,
                    bytes: 100 * steps.len(),
                };
                committed[arrived] = steps.is_empty();
                schedule.arrive(&arrival);
                arrived += 1;
            }
            1 => {
                let supply = if arrived == transactions.len() { Supply::Pauses } else { Supply::Flows };
                if let Some(group) = schedule.take(supply, 1) {
                    if limits.serial && !open.is_empty() {
                        return Err("two groups at once".to_owned());
                    }
                    if !group.transactions.is_sorted() || group.transactions.is_empty() {
                        return Err(format!("{group:?}"));
                    }
                    open.push(group);
                    seen.together = seen.together.max(open.len() as u32);
                }
            }
            _ if !open.is_empty() => {
                idle = 0;
                let group = open.swap_remove(random.usize(..open.len()));
                let numbers = || group.transactions.iter().map(|number| *number as usize);
                let is_oldest = group.transactions[0] == schedule.base();
                let trouble = random.u8(..) < 10;
                let mut after = model.clone();
                match after.apply(numbers().flat_map(|number| transactions[number].clone())) {
                    // A deadlock, say.
                    Ok(()) if trouble && group.transactions.len() > 1 => _ = schedule.rolled_back(&group),
                    Ok(()) => {
                        model = after;
                        let after = schedule.base_after(&group);
                        numbers().for_each(|number| committed[number] = true);
                        seen.out_of_order += u32::from(!is_oldest);
                        schedule.committed(&group);
                        if after != schedule.base() {
                            return Err(format!("{after} was foretold, {} it is", schedule.base()));
                        }
                    }
                    Err(refused) => match schedule.rolled_back(&group) {
                        Verdict::Again => seen.early += 1,
                        Verdict::Judge => return Err(format!("a false conflict: {refused} in {group:?}")),
                    },
                }
                let low = committed[..arrived].iter().position(|done| !done).unwrap_or(arrived);
                if schedule.base() != low as u64 {
                    return Err(format!("the low watermark is {low}, not {}", schedule.base()));
                }
            }
            _ => {}
        }
    }
    if model == wanted { Ok(seen) } else { Err(format!("{model:?} where {wanted:?} was expected")) }
}

#[test]
fn any_schedule_ends_as_the_trail_does_and_meets_no_false_conflict() {
    let mut total = Seen::default();
    for seed in 0..4000 {
        let seen = run(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        total.early += seen.early;
        total.together = total.together.max(seen.together);
        total.out_of_order += seen.out_of_order;
    }
    assert!(total.early > 100 && total.together >= 4 && total.out_of_order > 1000, "{total:?}");
}

const LIMITS: ScheduleLimits = ScheduleLimits {
    group_operations: 1,
    group_transactions: 100,
    group_bytes: 1 << 20,
    look_ahead: 100,
    bytes: 1 << 20,
    serial: false,
};

fn arrive(schedule: &mut Schedule, writes: &[u64], reads: &[u64]) -> u64 {
    let mut set = WriteSet::new();
    writes.iter().for_each(|hash| set.write(*hash));
    reads.iter().for_each(|hash| set.read(*hash));
    schedule.arrive(&Arrival { touches: Some(&set), operations: 1, bytes: 10 })
}

fn group(transactions: &[u64]) -> Option<Group> {
    Some(Group { transactions: transactions.to_vec() })
}

#[test]
fn children_of_one_parent_go_side_by_side_and_the_parent_waits_for_them() {
    let mut schedule = Schedule::new(LIMITS, Parallelism::fixed(8));
    arrive(&mut schedule, &[1], &[]);
    let one = schedule.take(Supply::Flows, 1).unwrap();
    arrive(&mut schedule, &[10], &[1]);
    arrive(&mut schedule, &[11], &[1]);
    arrive(&mut schedule, &[1], &[]);
    assert_eq!(schedule.take(Supply::Pauses, 1), None, "the parent is not there yet");
    schedule.committed(&one);
    let (two, three) = (schedule.take(Supply::Flows, 1), schedule.take(Supply::Flows, 1));
    assert_eq!((&two, &three), (&group(&[1]), &group(&[2])));
    assert_eq!(schedule.take(Supply::Pauses, 1), None);
    schedule.committed(&three.unwrap());
    assert_eq!(schedule.take(Supply::Pauses, 1), None);
    assert_eq!(schedule.base(), 1);
    schedule.committed(&two.unwrap());
    assert_eq!(schedule.take(Supply::Flows, 1), group(&[3]));
    let tally = schedule.tally();
    assert_eq!((tally.transactions, tally.dependent, tally.waited, tally.groups), (4, 3, 3, 4));
}

#[test]
fn a_group_takes_what_depends_only_on_itself() {
    let mut schedule = Schedule::new(ScheduleLimits { group_operations: 3, ..LIMITS }, Parallelism::fixed(8));
    for key in [1, 2, 1, 1, 3, 4, 5] {
        arrive(&mut schedule, &[key], &[]);
    }
    let first = schedule.take(Supply::Flows, 1).unwrap();
    assert_eq!(first.transactions, [0, 1, 2]);
    let second = schedule.take(Supply::Flows, 1).unwrap();
    assert_eq!(second.transactions, [4, 5, 6], "3 waits for 2, which another group has");
    assert_eq!(schedule.base_after(&second), 0);
    schedule.committed(&second);
    assert_eq!(schedule.base_after(&first), 3);
    schedule.committed(&first);
    assert_eq!(schedule.take(Supply::Flows, 1), None, "one operation is no whole group");
    assert_eq!(schedule.take(Supply::Pauses, 1), group(&[3]));
    let tally = schedule.tally();
    let told = (tally.transactions, tally.dependent, tally.waited, tally.groups);
    assert_eq!(told, (7, 2, 1, 3), "one of the two dependent ones shared a group with what it depends on");
}

#[test]
fn a_refusal_counts_when_the_transaction_is_the_oldest_and_by_itself() {
    let mut schedule = Schedule::new(LIMITS, Parallelism::fixed(8));
    arrive(&mut schedule, &[1], &[]);
    arrive(&mut schedule, &[2], &[]);
    let (first, second) = (schedule.take(Supply::Flows, 1).unwrap(), schedule.take(Supply::Flows, 1).unwrap());
    assert_eq!(schedule.rolled_back(&second), Verdict::Again);
    assert_eq!(schedule.take(Supply::Pauses, 1), None, "it comes again when it is the oldest");
    schedule.committed(&first);
    let second = schedule.take(Supply::Flows, 1).unwrap();
    assert_eq!(schedule.rolled_back(&second), Verdict::Judge);
}

#[test]
fn nothing_passes_a_barrier() {
    let mut schedule = Schedule::new(LIMITS, Parallelism::fixed(8));
    arrive(&mut schedule, &[1], &[]);
    let mut set = WriteSet::new();
    set.barrier();
    schedule.arrive(&Arrival { touches: Some(&set), operations: 1, bytes: 10 });
    arrive(&mut schedule, &[2], &[]);
    let first = schedule.take(Supply::Flows, 1).unwrap();
    assert_eq!(schedule.take(Supply::Pauses, 1), None);
    schedule.committed(&first);
    let barrier = schedule.take(Supply::Flows, 1).unwrap();
    assert_eq!((barrier.transactions.as_slice(), schedule.take(Supply::Pauses, 1)), ([1].as_slice(), None));
    schedule.committed(&barrier);
    assert_eq!(schedule.take(Supply::Flows, 1), group(&[2]));
}

#[test]
fn transactions_without_anything_to_write_move_the_watermark_behind_those_before() {
    let mut schedule = Schedule::new(LIMITS, Parallelism::fixed(8));
    schedule.arrive(&Arrival::default());
    assert_eq!((schedule.base(), schedule.is_empty()), (1, true));
    arrive(&mut schedule, &[1], &[]);
    schedule.arrive(&Arrival::default());
    assert_eq!(schedule.base(), 1);
    let only = schedule.take(Supply::Flows, 1).unwrap();
    schedule.committed(&only);
    assert_eq!((schedule.base(), schedule.is_empty()), (3, true));
}

#[test]
fn what_is_known_stays_within_its_limits_and_a_full_schedule_gives_out_what_it_has() {
    let limits = ScheduleLimits { group_operations: 1000, look_ahead: 5, ..LIMITS };
    let mut schedule = Schedule::new(limits, Parallelism::fixed(2));
    while !schedule.is_full() {
        assert_eq!(schedule.take(Supply::Flows, 1), None);
        arrive(&mut schedule, &[1], &[]);
    }
    assert_eq!(schedule.next(), 5);
    assert_eq!(schedule.take(Supply::Flows, 1), group(&[0, 1, 2, 3, 4]));
    let mut schedule = Schedule::new(ScheduleLimits { bytes: 25, ..LIMITS }, Parallelism::fixed(2));
    while !schedule.is_full() {
        arrive(&mut schedule, &[1], &[]);
    }
    assert_eq!(schedule.next(), 3);
}
