//! Which source transactions share a target transaction.
//!
//! A commit costs a disk sync, so small source transactions are applied together until a number of operations is
//! reached or the trail has nothing more to give. A source transaction is never split: one that is too large to hold in
//! memory gets a target transaction of its own and is streamed into it in chunks, before its end is known. That is why a
//! large one never joins a group: when it turns out to be abandoned, its target transaction is rolled back, and nothing
//! else may be lost with it.
//!
//! This is a brain: it sees the places of changes in their transactions, and answers with [`Command`]s. The changes
//! themselves are in the caller's buffer, oldest first.

use trail::TransactionPlace;

/// Source transactions in one group at most, whatever GROUPTRANSOPS says: their commits are kept in memory until the group
/// is committed, and a commit that is shared by so many costs each of them nothing.
const GROUP_TRANSACTIONS_MAX: usize = 10_000;

/// How much is held in memory and applied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// GROUPTRANSOPS: a group is committed when it has at least this many operations. 1 keeps source transactions apart.
    pub operations: u32,
    /// Buffered operations that are sent to the session at once.
    pub chunk_operations: usize,
    /// Bytes kept in memory by buffered changes that are sent to the session at once.
    pub chunk_bytes: usize,
}

impl GroupLimits {
    /// Limits with the given GROUPTRANSOPS and the usual chunk: a call to a session is paid off by some thousand small rows,
    /// and 4 MB keep wide rows from filling memory.
    pub fn with_operations(operations: u32) -> GroupLimits {
        GroupLimits { operations: operations.max(1), chunk_operations: 4000, chunk_bytes: 4 << 20 }
    }
}

/// What the loop has to do next, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start a target transaction.
    Begin,
    /// Send the oldest so many buffered changes to the session and forget them.
    Write(usize),
    /// Run the statement that defines objects.
    Define,
    /// Save the position after the last whole source transaction, and commit.
    Commit,
    /// Forget the newest so many buffered changes: their source transaction was abandoned.
    Drop(usize),
    /// Roll the target transaction back: it holds a part of an abandoned source transaction and nothing else.
    Rollback,
}

/// A change that says of itself a place that it can't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfPlace {
    /// The place that the change names.
    pub place: TransactionPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Closed,
    Group,
    Stream,
}

/// The grouping of one stream of changes.
///
/// Invariants
/// - buffered changes are `whole` of complete source transactions, then `open` of one that is not complete;
/// - a `Stream` target transaction holds changes of one source transaction only;
/// - fewer than two chunks, and the change that completes one, are buffered.
#[derive(Debug)]
pub struct Grouping {
    limits: GroupLimits,
    target: Target,
    inside: bool,
    whole: usize,
    whole_bytes: usize,
    open: usize,
    open_bytes: usize,
    operations: u32,
    transactions: usize,
}

impl Grouping {
    /// A grouping with nothing buffered.
    pub fn new(limits: GroupLimits) -> Grouping {
        Grouping {
            limits,
            target: Target::Closed,
            inside: false,
            whole: 0,
            whole_bytes: 0,
            open: 0,
            open_bytes: 0,
            operations: 0,
            transactions: 0,
        }
    }

    /// Changes GROUPTRANSOPS from the next source transaction on.
    pub fn set_operations(&mut self, operations: u32) {
        self.limits.operations = operations.max(1);
    }

    /// Forgets everything: the caller has rolled back and emptied its buffer.
    pub fn reset(&mut self) {
        *self = Grouping::new(self.limits);
    }

    /// Whether a source transaction has started and not ended.
    pub fn is_inside(&self) -> bool {
        self.inside
    }

    /// Whether a part of a source transaction that has not ended is written to the target.
    pub fn is_streaming(&self) -> bool {
        self.target == Target::Stream
    }

    /// Whether complete source transactions wait for their commit, be it only to move the position.
    pub fn has_whole(&self) -> bool {
        self.target != Target::Stream && self.transactions > 0
    }

    /// Takes the next change of the stream. `bytes` is what it keeps in memory when it was put into the buffer, `None` when
    /// there is nothing to write for it.
    ///
    /// # Errors
    /// [`OutOfPlace`] when a transaction starts inside another or goes on outside of one: the trail is damaged.
    pub fn change(
        &mut self,
        place: TransactionPlace,
        bytes: Option<usize>,
        commands: &mut Vec<Command>,
    ) -> Result<(), OutOfPlace> {
        if place.starts() == self.inside {
            return Err(OutOfPlace { place });
        }
        self.inside = !place.ends();
        if let Some(bytes) = bytes {
            self.open += 1;
            self.open_bytes += bytes;
        }
        if place.ends() {
            self.complete(commands);
        } else if (self.open >= self.limits.chunk_operations || self.open_bytes >= self.limits.chunk_bytes)
            && !change::sabotage::is_on("buffer-without-limit")
        {
            self.stream(commands);
        }
        Ok(())
    }

    /// Takes a statement that defines objects, which is the next thing in the stream. Its transaction gets a target transaction
    /// of its own, when everything before it is committed.
    ///
    /// # Errors
    /// As [`change`](Grouping::change).
    pub fn statement(&mut self, place: TransactionPlace, commands: &mut Vec<Command>) -> Result<(), OutOfPlace> {
        if place.starts() == self.inside {
            return Err(OutOfPlace { place });
        }
        self.inside = !place.ends();
        self.stream(commands);
        commands.push(Command::Define);
        if place.ends() {
            self.complete(commands);
        }
        Ok(())
    }

    /// The trail has nothing more for now: commits what is complete. With `position_only` also when all there is to commit
    /// is the position of transactions without anything to write.
    pub fn caught_up(&mut self, position_only: bool, commands: &mut Vec<Command>) {
        let rows = self.whole > 0 || self.target == Target::Group;
        if self.has_whole() && (rows || position_only) {
            self.commit(commands);
        }
    }

    /// The writer was restarted: a transaction that is still open was abandoned and comes again as a whole.
    pub fn restart(&mut self, commands: &mut Vec<Command>) {
        if !self.inside {
            return;
        }
        self.inside = false;
        if change::sabotage::is_on("ignore-restart-marker") {
            return self.complete(commands);
        }
        if self.open > 0 {
            commands.push(Command::Drop(self.open));
            self.open = 0;
            self.open_bytes = 0;
        }
        if self.target == Target::Stream {
            commands.push(Command::Rollback);
            self.target = Target::Closed;
        }
    }

    fn complete(&mut self, commands: &mut Vec<Command>) {
        // A transaction without anything to write counts as one operation, so that a run of them moves the position too.
        let operations = u32::try_from(self.open).unwrap_or(u32::MAX).max(1);
        self.operations = self.operations.saturating_add(operations);
        self.transactions += 1;
        self.whole += std::mem::take(&mut self.open);
        self.whole_bytes += std::mem::take(&mut self.open_bytes);
        let full = self.operations >= self.limits.operations || self.transactions >= GROUP_TRANSACTIONS_MAX;
        if self.target == Target::Stream || full {
            self.commit(commands);
        } else if self.whole >= self.limits.chunk_operations || self.whole_bytes >= self.limits.chunk_bytes {
            self.write_whole(commands);
        }
    }

    fn write_whole(&mut self, commands: &mut Vec<Command>) {
        if self.target == Target::Closed {
            commands.push(Command::Begin);
            self.target = Target::Group;
        }
        if self.whole > 0 {
            commands.push(Command::Write(self.whole));
        }
        self.whole = 0;
        self.whole_bytes = 0;
    }

    fn commit(&mut self, commands: &mut Vec<Command>) {
        self.write_whole(commands);
        commands.push(Command::Commit);
        self.target = Target::Closed;
        self.operations = 0;
        self.transactions = 0;
    }

    fn stream(&mut self, commands: &mut Vec<Command>) {
        if self.target != Target::Stream {
            if self.transactions > 0 {
                self.commit(commands);
            }
            commands.push(Command::Begin);
            self.target = Target::Stream;
        }
        if self.open > 0 {
            commands.push(Command::Write(self.open));
        }
        self.open = 0;
        self.open_bytes = 0;
        if change::sabotage::is_on("split-transactions") {
            commands.push(Command::Commit);
            self.target = Target::Closed;
        }
    }
}
