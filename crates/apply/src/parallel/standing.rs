//! Where the threads of a coordinated group stand, and what their rows of the checkpoint table say.
//!
//! Each thread applies what is its own in the order of the source, so one place tells all about it. What all of them have
//! passed is told by the group's row, which the reader's thread saves, and nobody else.

use super::work::Mark;
use change::TransactionId;
use database::CheckpointRow;

/// The last transaction that is applied, and those that share its CSN, it included.
#[derive(Clone, Debug)]
struct Standing {
    mark: Mark,
    shared: Vec<TransactionId>,
}

impl Standing {
    /// Moves to a transaction that comes later.
    fn go(&mut self, mark: &Mark) {
        let csn = |mark: &Mark| mark.commit.as_ref().map(|commit| commit.csn.clone());
        if csn(&self.mark) != csn(mark) {
            self.shared.clear();
        }
        self.shared.extend(mark.commit.iter().map(|commit| commit.transaction.clone()));
        self.mark = mark.clone();
    }

    fn tell(&self, row: &mut CheckpointRow) {
        let trail::Position { sequence, rba } = self.mark.next;
        (row.sequence, row.rba) = (sequence, rba);
        let commit = self.mark.commit.as_ref();
        row.log_csn = commit.map(|commit| commit.csn.as_str().to_owned());
        row.log_complete_csn.clone_from(&row.log_csn);
        row.audit_time = commit.map(|commit| commit.time);
        row.log_complete_transactions = self.shared.iter().map(|name| name.as_str().to_owned()).collect();
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Standings {
    group: String,
    /// What the group's row says.
    all: Standing,
    /// What threads' rows say, from number 1 on.
    threads: Vec<Standing>,
    /// What all have passed, whether a row says it or not.
    passed: Standing,
}

impl Standings {
    /// As the rows say it: the group's, those that count for the threads, and how far all are.
    pub(super) fn of<'r>(
        group: &CheckpointRow,
        rows: impl Iterator<Item = &'r CheckpointRow>,
        low: &Mark,
        mark_of: impl Fn(&CheckpointRow) -> Mark,
    ) -> Standings {
        let standing = |row: &CheckpointRow| Standing {
            mark: mark_of(row),
            shared: row.log_complete_transactions.iter().map(|name| TransactionId::new(name.as_str())).collect(),
        };
        let threads: Vec<Standing> = rows.map(standing).collect();
        let slowest = threads.iter().find(|standing| standing.mark.next == low.next);
        let all = standing(group);
        let passed = slowest.cloned().unwrap_or_else(|| all.clone());
        Standings { group: group.group_name.clone(), all, threads, passed }
    }

    /// The row that thread `number`, or the group with 0, saves with these transactions, made after the group's `row`; and its
    /// place.
    pub(super) fn row<'m>(
        &self,
        number: usize,
        marks: impl Iterator<Item = &'m Mark>,
        row: &CheckpointRow,
    ) -> (CheckpointRow, Mark) {
        let mut standing = if number == 0 { self.passed.clone() } else { self.threads[number - 1].clone() };
        marks.for_each(|mark| standing.go(mark));
        let mut row = row.clone();
        self.name(number as u32, &mut row);
        standing.tell(&mut row);
        (row, standing.mark)
    }

    /// Makes `row` say that everything up to `mark`, which all threads have passed or come to with it, is applied.
    pub(super) fn tell_all(&self, mark: &Mark, number: u32, row: &mut CheckpointRow) {
        let mut standing = self.passed.clone();
        if mark.next > standing.mark.next {
            standing.go(mark);
        }
        standing.tell(row);
        if number > 0 {
            row.group_name = CheckpointRow::thread_name(&self.group, number);
        }
    }

    fn name(&self, number: u32, row: &mut CheckpointRow) {
        if number > 0 {
            row.group_name = CheckpointRow::thread_name(&self.group, number);
            row.group_key = CheckpointRow::applier_key(row.group_key, number);
        }
    }

    /// Thread `number`, or with 0 the group, has saved a row with these transactions.
    pub(super) fn stand(&mut self, number: usize, marks: impl Iterator<Item = Mark>) {
        let mut standing = if number == 0 { self.passed.clone() } else { self.threads[number - 1].clone() };
        marks.for_each(|mark| standing.go(&mark));
        if number == 0 { self.all = standing } else { self.threads[number - 1] = standing }
    }

    /// The group has saved its row at what all have passed.
    pub(super) fn stand_all(&mut self, mark: Mark) {
        let mut standing = self.passed.clone();
        standing.mark = mark;
        self.all = standing;
    }

    /// All have passed this transaction.
    pub(super) fn pass(&mut self, mark: &Mark) {
        if mark.next > self.passed.mark.next {
            self.passed.go(mark);
        }
    }

    /// Where the slowest thread would go on.
    pub(super) fn slowest(&self) -> &Mark {
        let all = &self.all.mark;
        let own = self.threads.iter().map(|standing| &standing.mark).min_by_key(|mark| mark.next);
        own.filter(|own| own.next > all.next).unwrap_or(all)
    }
}
