//! Every order of events, for every small set of transactions: what the schedule promises holds in each state that can be
//! reached, and from each state everything gets done.
//!
//! Events are an arrival, an applier's question for work while the trail flows or pauses, a commit, and a refusal (two at most).
//! Each of the transactions touches things in one of a few ways. What may be given out is said by the model, which knows nothing
//! but who touches what.

use apply::schedule::{Arrival, Group, Parallelism, Schedule, ScheduleLimits, Supply, Verdict, WriteSet};
use std::collections::HashSet;

const APPLIERS: u32 = 2;
const REFUSALS: usize = 2;

/// What a transaction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Writes(u64),
    Reads(u64),
    /// Both things.
    WritesAll,
    Barrier,
}

const KINDS: [Kind; 6] =
    [Kind::Nothing, Kind::Writes(1), Kind::Writes(2), Kind::Reads(1), Kind::WritesAll, Kind::Barrier];

impl Kind {
    fn touches(self) -> Option<WriteSet> {
        let mut set = WriteSet::new();
        match self {
            Kind::Nothing => return None,
            Kind::Writes(thing) => set.write(thing),
            Kind::Reads(thing) => set.read(thing),
            Kind::WritesAll => [1, 2].into_iter().for_each(|thing| set.write(thing)),
            Kind::Barrier => set.barrier(),
        }
        Some(set)
    }

    fn meets(self, other: Kind) -> bool {
        match (self, other) {
            (Kind::Nothing, _) | (_, Kind::Nothing) | (Kind::Reads(_), Kind::Reads(_)) => false,
            (Kind::Barrier | Kind::WritesAll, _) | (_, Kind::Barrier | Kind::WritesAll) => true,
            (Kind::Writes(one) | Kind::Reads(one), Kind::Writes(other) | Kind::Reads(other)) => one == other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Arrive,
    Take(u32, Supply),
    Commit(u32),
    Refuse(u32),
}

/// What the model knows.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct State {
    arrived: usize,
    done: Vec<bool>,
    /// Groups in the hands of appliers.
    held: [Vec<u64>; APPLIERS as usize],
    /// Transactions that were rolled back: they come by themselves, when they are the oldest.
    rolled_back: Vec<bool>,
    refusals: usize,
    is_judged: bool,
}

struct Run<'k> {
    kinds: &'k [Kind],
    schedule: Schedule,
    state: State,
}

impl<'k> Run<'k> {
    fn new(kinds: &'k [Kind], limits: ScheduleLimits) -> Run<'k> {
        let nothing = vec![false; kinds.len()];
        let state = State { done: nothing.clone(), rolled_back: nothing, ..State::default() };
        Run { kinds, schedule: Schedule::new(limits, Parallelism::fixed(APPLIERS as usize)), state }
    }

    fn base(&self) -> u64 {
        self.state.done.iter().take(self.state.arrived).take_while(|done| **done).count() as u64
    }

    fn given(&self, number: u64) -> bool {
        self.state.held.iter().flatten().any(|held| *held == number)
    }

    /// Lets an event happen. Returns whether it changed anything.
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Arrive => {
                let number = self.state.arrived;
                let touches = self.kinds[number].touches();
                let arrival = Arrival { touches: touches.as_ref(), operations: 1, bytes: 1 };
                assert_eq!(self.schedule.arrive(&arrival), number as u64);
                self.state.done[number] = touches.is_none();
                self.state.arrived += 1;
            }
            Event::Take(applier, supply) => {
                let Some(group) = self.schedule.take(supply, applier) else { return false };
                self.may_be_given(&group);
                self.state.held[applier as usize - 1] = group.transactions;
            }
            Event::Commit(applier) => {
                let transactions = std::mem::take(&mut self.state.held[applier as usize - 1]);
                transactions.iter().for_each(|number| self.state.done[*number as usize] = true);
                let group = Group { transactions };
                let after = self.schedule.base_after(&group);
                self.schedule.committed(&group);
                assert_eq!(self.schedule.base(), after, "what the row tells is what is committed");
            }
            Event::Refuse(applier) => {
                let transactions = std::mem::take(&mut self.state.held[applier as usize - 1]);
                let verdict = self.schedule.rolled_back(&Group { transactions: transactions.clone() });
                let is_oldest_alone = transactions == [self.base()];
                assert_eq!(verdict == Verdict::Judge, is_oldest_alone, "a refusal counts for the oldest, by itself");
                transactions.iter().for_each(|number| self.state.rolled_back[*number as usize] = true);
                self.state.refusals += 1;
                self.state.is_judged = verdict == Verdict::Judge;
            }
        }
        assert_eq!(self.schedule.base(), self.base());
        assert_eq!(self.schedule.busy(), self.state.held.iter().filter(|held| !held.is_empty()).count());
        true
    }

    fn may_be_given(&self, group: &Group) {
        let members = &group.transactions;
        assert!(!members.is_empty() && members.is_sorted(), "{members:?}");
        for number in members {
            let place = *number as usize;
            assert!(place < self.state.arrived && !self.state.done[place] && !self.given(*number), "{members:?}");
            let is_alone = self.kinds[place] == Kind::Barrier || self.state.rolled_back[place];
            assert!(!is_alone || *members == [self.base()], "{number} comes by itself, as the oldest: {members:?}");
            for earlier in 0..place {
                let is_before = self.state.done[earlier] || members.contains(&(earlier as u64));
                assert!(is_before || !self.kinds[earlier].meets(self.kinds[place]), "{number} passes {earlier}");
            }
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.state.is_judged {
            return events;
        }
        if self.state.arrived < self.kinds.len() && !self.schedule.is_full() {
            events.push(Event::Arrive);
        }
        for applier in 1..=APPLIERS {
            if self.state.held[applier as usize - 1].is_empty() {
                events.extend([Event::Take(applier, Supply::Flows), Event::Take(applier, Supply::Pauses)]);
            } else {
                events.push(Event::Commit(applier));
                if self.state.refusals < REFUSALS {
                    events.push(Event::Refuse(applier));
                }
            }
        }
        events
    }

    /// Without further refusals everything that has arrived gets done.
    fn ends(mut self) {
        while self.state.done.iter().take(self.state.arrived).any(|done| !done) {
            let held = (1..=APPLIERS).find(|applier| !self.state.held[*applier as usize - 1].is_empty());
            let moves = match held {
                Some(applier) => self.happen(Event::Commit(applier)),
                None => self.happen(Event::Take(1, Supply::Pauses)),
            };
            assert!(moves, "nothing moves");
        }
        assert!(self.schedule.is_empty());
    }
}

/// Looks at all that can happen after `path`; returns how many states are new.
fn explore(kinds: &[Kind], limits: ScheduleLimits, path: &mut Vec<Event>, known: &mut HashSet<State>) {
    let replay = |path: &[Event]| {
        let mut run = Run::new(kinds, limits);
        path.iter().for_each(|event| assert!(run.happen(*event), "the same events have the same effect"));
        run
    };
    let run = replay(path);
    let events = run.events();
    if !run.state.is_judged {
        run.ends();
    }
    for event in events {
        let mut run = replay(path);
        if run.happen(event) && known.insert(run.state) {
            path.push(event);
            explore(kinds, limits, path, known);
            path.pop();
        }
    }
}

#[test]
fn what_is_promised_holds_in_every_state_that_small_sets_of_transactions_reach() {
    let mut states = 0;
    for group_operations in [1, 2, 10] {
        for (look_ahead, serial) in [(2, false), (10, false), (10, true)] {
            let limits = ScheduleLimits {
                group_operations,
                group_transactions: 3,
                group_bytes: 100,
                look_ahead,
                bytes: 100,
                serial,
            };
            for set in 0..KINDS.len().pow(4) {
                let kinds = [0, 1, 2, 3].map(|place| KINDS[set / KINDS.len().pow(place) % KINDS.len()]);
                let told = std::panic::catch_unwind(|| {
                    let mut known = HashSet::new();
                    explore(&kinds, limits, &mut Vec::new(), &mut known);
                    known.len()
                });
                states += told.unwrap_or_else(|_| panic!("{kinds:?} with {limits:?}"));
            }
        }
    }
    assert!(states > 100_000, "{states} states were looked at");
}
