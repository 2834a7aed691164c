//! Which transactions may be applied at the same time, and which share a target transaction.
//!
//! This is a brain: transactions come in the order of the trail with their [`WriteSet`]s, appliers ask for work and tell what
//! became of it. It holds no rows, no session, no clock.
//!
//! # What holds
//! - A transaction is given out when every earlier one that touches the same things is committed, or is given out before it in
//!   the same group. So a group depends on nothing that is still open: groups can't wait for each other in a circle,
//!   whatever their number, and appliers never wait inside a transaction for one of ours.
//! - Within a group the order is that of the trail.
//! - Write sets don't show everything: what a source does not tell of old rows, for one. So a refusal counts only when the
//!   transaction is the oldest one that is not committed, and is by itself ([`Verdict::Judge`]); before that it is rolled
//!   back, and given out again when it is the oldest.
//! - A barrier is given out when it is the oldest, and nothing after it before it is committed.
//! - What is [assigned](WriteSet::assign) to an applier is given to that one alone: in a coordinated group a rule decides in
//!   place of the write sets, and everything else is as in any other.

mod adapt;
mod footprint;
mod thread;
mod write_set;

pub use adapt::Parallelism;
pub use footprint::Footprint;
pub use thread::{Lane, ThreadPlan};
pub(crate) use write_set::ItemHasher;
pub use write_set::{Item, WriteSet};

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Things remembered beyond which those of committed transactions are looked for and forgotten.
const TOUCHED_MIN: usize = 4096;

/// How much is looked at and given out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleLimits {
    /// GROUPTRANSOPS: a group has at least so many operations, when there are.
    pub group_operations: u32,
    /// Source transactions in a group at most: their names go into the checkpoint row.
    pub group_transactions: usize,
    /// Bytes of changes in a group about at most.
    pub group_bytes: usize,
    /// LOOK_AHEAD_TRANSACTIONS: transactions that are known and not below the low watermark, at most.
    pub look_ahead: usize,
    /// Bytes of their changes at most, beside one that is larger.
    pub bytes: usize,
    /// COMMIT_SERIALIZATION: one group at a time, in the order of the trail.
    pub serial: bool,
}

/// A transaction as it arrives.
#[derive(Debug, Default)]
pub struct Arrival<'s> {
    /// What it touches; `None` when there is nothing to do for it but to move the position.
    pub touches: Option<&'s WriteSet>,
    /// How many operations it has.
    pub operations: u32,
    /// Bytes that its changes keep in memory.
    pub bytes: usize,
}

/// Transactions that are applied in one target transaction by one applier, by their numbers in ascending order. Numbers count
/// transactions in the order of their arrival, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The numbers.
    pub transactions: Vec<u64>,
}

/// How things stand with the trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// More is being read.
    Flows,
    /// The trail has nothing more for now, or the limits are reached: what is there is given out, however little.
    Pauses,
}

/// What is to be done about a group that was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it was taken back, and comes again.
    Again,
    /// The refusal is the truth about its only transaction: everything before it is committed.
    Judge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Given,
    Done,
}

struct Slot {
    state: State,
    /// Earlier transactions that it must come after and that are not done.
    blockers: u32,
    /// Later transactions that must come after it.
    successors: Vec<u64>,
    operations: u32,
    bytes: usize,
    /// It depended on another one when it arrived, and was not given out since.
    is_dependent: bool,
    /// Given out only by itself, when it is the oldest.
    is_alone: bool,
    /// Who alone may have it.
    applier: Option<u32>,
    /// How many of its blockers are in the group that is being put together, and in which.
    met: (u64, u32),
}

/// Who touched a thing last.
#[derive(Default)]
struct Touched {
    writer: Option<u64>,
    /// Those who read it after that.
    readers: Vec<u64>,
}

/// Hashes are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How much came and how much of it had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions with something to write.
    pub transactions: u64,
    /// Those of them that touched what an open one had touched before.
    pub dependent: u64,
    /// Those of the dependent ones that were given out after what they depend on was committed; the others share a group with it.
    pub waited: u64,
    /// Groups given out.
    pub groups: u64,
    /// Groups that were taken back and came again.
    pub repeated: u64,
}

impl Tally {
    /// Adds what `other` counted.
    pub fn take_in(&mut self, other: Tally) {
        self.transactions += other.transactions;
        self.dependent += other.dependent;
        self.waited += other.waited;
        self.groups += other.groups;
        self.repeated += other.repeated;
    }
}

/// The schedule of one run.
///
/// Invariants
/// - `window` holds the transactions from `base` on: the first one is not done;
/// - `ready` are those that wait for nobody.
pub struct Schedule {
    limits: ScheduleLimits,
    parallelism: Parallelism,
    base: u64,
    window: VecDeque<Slot>,
    touched: HashMap<u64, Touched, BuildHasherDefault<Identity>>,
    touched_limit: usize,
    ready: BTreeSet<u64>,
    /// The last barrier that is not done.
    barrier: Option<u64>,
    /// Something was assigned to an applier: what one leaves waits for another one.
    is_assigned: bool,
    busy: usize,
    bytes: usize,
    waiting_operations: u64,
    takes: u64,
    tally: Tally,
}

impl Schedule {
    /// A schedule without transactions.
    pub fn new(limits: ScheduleLimits, parallelism: Parallelism) -> Schedule {
        Schedule {
            limits,
            parallelism,
            base: 0,
            window: VecDeque::new(),
            touched: HashMap::default(),
            touched_limit: TOUCHED_MIN,
            ready: BTreeSet::new(),
            barrier: None,
            is_assigned: false,
            busy: 0,
            bytes: 0,
            waiting_operations: 0,
            takes: 0,
            tally: Tally::default(),
        }
    }

    /// The number of the oldest transaction that is not done, or of the next to arrive: everything below it is committed.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The number that the next transaction gets.
    pub fn next(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    /// Whether everything that arrived is committed.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Whether the limits are reached: nothing more should arrive before something is committed.
    pub fn is_full(&self) -> bool {
        self.window.len() >= self.limits.look_ahead || self.bytes >= self.limits.bytes
    }

    /// Whether half of what the limits allow is there: it pays to read on.
    pub fn is_half_empty(&self) -> bool {
        2 * self.window.len() <= self.limits.look_ahead && 2 * self.bytes <= self.limits.bytes
    }

    /// Appliers at work.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Operations of transactions that are not given out.
    pub fn waiting_operations(&self) -> u64 {
        self.waiting_operations
    }

    /// About how many appliers would find a whole group now, none more than may be at work.
    pub fn groups_waiting(&self) -> usize {
        if self.is_assigned {
            return self.ready.len();
        }
        let groups = self.waiting_operations / u64::from(self.limits.group_operations.max(1));
        usize::try_from(groups).unwrap_or(usize::MAX).min(self.ready.len()).min(self.parallelism.now())
    }

    /// How many appliers may be at work.
    pub fn parallelism(&self) -> Parallelism {
        self.parallelism
    }

    /// What came so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes the next transaction of the trail and returns its number.
    pub fn arrive(&mut self, arrival: &Arrival<'_>) -> u64 {
        let number = self.next();
        self.window.push_back(Slot {
            state: State::Waiting,
            blockers: 0,
            successors: Vec::new(),
            operations: arrival.operations,
            bytes: arrival.bytes,
            is_dependent: false,
            is_alone: false,
            applier: arrival.touches.and_then(WriteSet::applier),
            met: (0, 0),
        });
        self.bytes += arrival.bytes;
        let Some(set) = arrival.touches else {
            self.finish(number);
            return number;
        };
        self.waiting_operations += u64::from(arrival.operations);
        self.is_assigned |= set.applier().is_some();
        if let Some(barrier) = self.barrier {
            self.depend(barrier, number);
        }
        if set.is_barrier() {
            self.barrier = Some(number);
            self.slot_mut(number).is_alone = true;
        }
        self.touch(set, number);
        self.tally.transactions += 1;
        if self.slot(number).blockers == 0 {
            self.ready.insert(number);
        } else {
            self.tally.dependent += 1;
            self.slot_mut(number).is_dependent = true;
        }
        number
    }

    fn touch(&mut self, set: &WriteSet, number: u64) {
        let mut dropped = change::sabotage::is_on("drop-one-dependency-edge") && number.is_multiple_of(5);
        let mut all = std::mem::take(&mut self.touched);
        for item in set.items() {
            let touched = all.entry(item.hash).or_default();
            if !std::mem::take(&mut dropped) {
                if let Some(writer) = touched.writer {
                    self.depend(writer, number);
                }
                if item.is_written {
                    touched.readers.iter().for_each(|reader| self.depend(*reader, number));
                }
            }
            if item.is_written {
                touched.writer = Some(number);
                touched.readers.clear();
            } else if touched.writer != Some(number) && touched.readers.last() != Some(&number) {
                // A thing that everybody reads and nobody writes keeps no more readers than there are.
                if touched.readers.len() == touched.readers.capacity() {
                    touched.readers.retain(|reader| !self.is_done(*reader));
                }
                touched.readers.push(number);
            }
        }
        self.touched = all;
        if self.touched.len() > self.touched_limit {
            self.forget_committed();
        }
    }

    fn forget_committed(&mut self) {
        let (base, window) = (self.base, &self.window);
        let is_open =
            |number: u64| number.checked_sub(base).is_some_and(|place| window[place as usize].state != State::Done);
        self.touched.retain(|_, touched| {
            touched.readers.retain(|reader| is_open(*reader));
            touched.writer = touched.writer.filter(|writer| is_open(*writer));
            touched.writer.is_some() || !touched.readers.is_empty()
        });
        self.touched_limit = TOUCHED_MIN.max(2 * self.touched.len());
    }

    /// `later` must come after `earlier`.
    fn depend(&mut self, earlier: u64, later: u64) {
        if earlier == later || self.is_done(earlier) {
            return;
        }
        let slot = self.slot_mut(earlier);
        // All that a transaction depends on is found at once, so a repetition stands last.
        if slot.successors.last() != Some(&later) {
            slot.successors.push(later);
            self.slot_mut(later).blockers += 1;
        }
    }

    /// Whether what is waiting is for the appliers that it is assigned to.
    pub fn is_assigned(&self) -> bool {
        self.is_assigned
    }

    /// Work for applier `applier`, if there is any for it.
    ///
    /// Less than a whole group is given out only when the trail pauses, and then to two appliers at most: more small commits
    /// would cost more than they bring forward.
    pub fn take(&mut self, supply: Supply, applier: u32) -> Option<Group> {
        if self.limits.serial && self.busy > 0 {
            return None;
        }
        let is_allowed = self.busy < self.parallelism.now();
        let supply = if self.is_full() { Supply::Pauses } else { supply };
        if !is_allowed {
            if self.busy < self.parallelism.maximum() && self.put_together(supply, applier).is_some() {
                self.parallelism.wanted();
            }
            return None;
        }
        let Some(group) = self.put_together(supply, applier) else {
            if self.busy > 0 {
                self.parallelism.idle();
            }
            return None;
        };
        for number in &group.transactions {
            self.ready.remove(number);
            let slot = self.slot_mut(*number);
            slot.state = State::Given;
            let has_waited = std::mem::take(&mut slot.is_dependent) && slot.blockers == 0;
            let operations = slot.operations;
            self.tally.waited += u64::from(has_waited);
            self.waiting_operations -= u64::from(operations);
        }
        self.busy += 1;
        self.tally.groups += 1;
        Some(group)
    }

    fn put_together(&mut self, supply: Supply, applier: u32) -> Option<Group> {
        let is_free = |slot: &Slot| slot.applier.is_none_or(|assigned| assigned == applier);
        let first = self.ready.iter().copied().find(|number| is_free(self.slot(*number)))?;
        if self.slot(first).is_alone && first == self.base {
            return Some(Group { transactions: vec![first] });
        }
        // Whatever is put together of less than this is not given out, so there is no need to look.
        let may_be_short = match supply {
            Supply::Flows => false,
            Supply::Pauses => self.is_assigned || self.busy == 0 || (self.busy < 2 && !self.is_full()),
        };
        let wanted = u64::from(self.limits.group_operations);
        if !may_be_short && self.waiting_operations < wanted && self.bytes < self.limits.group_bytes {
            return None;
        }
        self.takes += 1;
        let (take, limits) = (self.takes, self.limits);
        let mut group = Vec::new();
        let (mut operations, mut bytes) = (0_u64, 0_usize);
        let mut freed: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let mut after = 0;
        let is_whole = loop {
            let ready = self.ready.range(after..).next().copied();
            let next_freed = freed.peek().map(|Reverse(number)| *number);
            let Some(number) = ready.into_iter().chain(next_freed).min() else { break false };
            if next_freed == Some(number) {
                freed.pop();
            } else {
                after = number + 1;
            }
            let slot = self.slot(number);
            if !is_free(slot) {
                continue;
            }
            if slot.is_alone {
                if limits.serial {
                    break true;
                }
                continue;
            }
            operations += u64::from(slot.operations);
            bytes += slot.bytes;
            group.push(number);
            let successors = std::mem::take(&mut self.slot_mut(number).successors);
            for successor in &successors {
                let slot = self.slot_mut(*successor);
                slot.met = if slot.met.0 == take { (take, slot.met.1 + 1) } else { (take, 1) };
                if slot.met.1 == slot.blockers && slot.state == State::Waiting {
                    freed.push(Reverse(*successor));
                }
            }
            self.slot_mut(number).successors = successors;
            if operations >= wanted || bytes >= limits.group_bytes || group.len() >= limits.group_transactions {
                break true;
            }
        };
        let transactions = group;
        (!transactions.is_empty() && (is_whole || may_be_short)).then_some(Group { transactions })
    }

    /// The number up to which everything would be committed, were `group`.
    pub fn base_after(&self, group: &Group) -> u64 {
        let mut members = group.transactions.iter().peekable();
        let mut base = self.base;
        for slot in &self.window {
            let is_member = members.next_if_eq(&&base).is_some();
            if !is_member && slot.state != State::Done {
                break;
            }
            base += 1;
        }
        base
    }

    /// A group that was given out is committed.
    pub fn committed(&mut self, group: &Group) {
        self.busy -= 1;
        self.parallelism.committed();
        group.transactions.iter().for_each(|number| self.finish(*number));
    }

    /// A group that was given out was rolled back: the target refused a row, or could not do its work now.
    pub fn rolled_back(&mut self, group: &Group) -> Verdict {
        self.busy -= 1;
        self.tally.repeated += 1;
        for number in &group.transactions {
            let slot = self.slot_mut(*number);
            slot.state = State::Waiting;
            let was_alone = std::mem::replace(&mut slot.is_alone, true);
            let (is_free, operations) = (slot.blockers == 0, slot.operations);
            self.waiting_operations += u64::from(operations);
            if is_free {
                self.ready.insert(*number);
            }
            let is_early = *number != self.base && !change::sabotage::is_on("judge-errors-early");
            let is_single = was_alone || group.transactions.len() == 1;
            if is_single && !is_early {
                return Verdict::Judge;
            }
        }
        Verdict::Again
    }

    fn finish(&mut self, number: u64) {
        let slot = self.slot_mut(number);
        slot.state = State::Done;
        let bytes = std::mem::take(&mut slot.bytes);
        let successors = std::mem::take(&mut slot.successors);
        self.bytes -= bytes;
        if self.barrier == Some(number) {
            self.barrier = None;
        }
        for successor in successors {
            let slot = self.slot_mut(successor);
            slot.blockers -= 1;
            if slot.blockers == 0 && slot.state == State::Waiting {
                self.ready.insert(successor);
            }
        }
        while self.window.front().is_some_and(|slot| slot.state == State::Done) {
            self.window.pop_front();
            self.base += 1;
        }
    }

    fn is_done(&self, number: u64) -> bool {
        number < self.base || self.slot(number).state == State::Done
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.window[(number - self.base) as usize]
    }

    fn slot_mut(&mut self, number: u64) -> &mut Slot {
        &mut self.window[(number - self.base) as usize]
    }
}
