//! Where each thread of a coordinated group stands, as the rows of the checkpoint table tell it.
//!
//! Each thread's row speaks for the thread alone: what is at most its LOG_CSN is applied, as far as it is the thread's. The
//! group's row speaks for all. Reading goes on where the slowest thread stands, and each thread leaves out what it has applied.

use crate::{Applied, RowError, Watermarks};
use change::Commit;
use database::{CheckpointRow, CheckpointSet};

/// The rows of a coordinated group.
#[derive(Clone, Debug)]
pub(crate) struct ThreadMarks {
    /// What all threads have applied, and how far the fastest is.
    pub(crate) united: Watermarks,
    /// What counts for each thread, from number 1 on: its own row, or the group's where that is further.
    threads: Vec<Applied>,
}

fn place(row: &CheckpointRow) -> (Option<&str>, u32, u64) {
    (row.log_complete_csn.as_deref(), row.sequence, row.rba)
}

impl ThreadMarks {
    /// Takes all that the table holds of a group with so many threads. `map_hash` is that of the MAP rules under which it goes
    /// on.
    ///
    /// # Errors
    /// [`RowError`] when a row has a layout of the future or contradicts itself, when a thread's row is gone, and when threads
    /// stand at different places and the rules changed: which thread has applied what is not known then.
    pub(crate) fn of(set: &CheckpointSet, threads: u32, map_hash: &str) -> Result<ThreadMarks, RowError> {
        let group = || set.group.group_name.clone();
        if let Some(number) = set.missing_applier() {
            return Err(RowError::ApplierGone { group: group(), number, appliers: set.appliers_wanted });
        }
        let further = |row: &CheckpointRow| {
            let row = if place(row) < place(&set.group) { &set.group } else { row };
            Applied::from_row(row.clone())
        };
        let mut rows = set.appliers.iter().map(further).collect::<Result<Vec<_>, _>>()?;
        let group_row = Applied::from_row(set.group.clone())?;
        let alone = [group_row.clone()];
        let all = if rows.is_empty() { &alone[..] } else { &rows };
        let slowest = all.iter().min_by_key(|applied| place(applied.row())).expect("one at least");
        let fastest = all.iter().max_by_key(|applied| place(applied.row())).expect("one at least");
        let united = Watermarks::between(slowest.row(), fastest.row());
        let is_known = set.map_hash.as_deref() == Some(map_hash) && set.appliers_wanted == threads;
        if united.are_apart() && !is_known && !change::sabotage::is_on("trust-changed-rules") {
            let text = |row: &CheckpointRow| row.log_csn.clone().unwrap_or_else(|| "the beginning".to_owned());
            let (low, high) = (text(slowest.row()), text(fastest.row()));
            return Err(RowError::RulesChanged { group: group(), low, high });
        }
        if rows.len() != threads as usize {
            rows = vec![slowest.clone(); threads as usize];
        }
        Ok(ThreadMarks { united, threads: rows })
    }

    /// Whether thread `number` has applied its part of the transaction.
    pub(crate) fn covers(&self, number: u32, commit: &Commit) -> bool {
        Some(&commit.csn) <= self.united.high() && self.threads[number as usize - 1].covers(commit)
    }

    /// What counts for each thread, from number 1 on.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &CheckpointRow> {
        self.threads.iter().map(Applied::row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_rows::{self, commit, set};
    use change::Csn;
    use database::CheckpointRow;
    use trail::Position;

    fn row(number: u32, rba: u64, csn: Option<&str>, listed: &[&str]) -> CheckpointRow {
        let name = if number == 0 { "FIN".to_owned() } else { CheckpointRow::thread_name("FIN", number) };
        CheckpointRow { group_name: name, ..sample_rows::row(number, rba, csn, csn, listed) }
    }

    #[test]
    fn each_thread_leaves_out_what_it_has_applied_and_reading_starts_for_the_slowest() {
        let group = row(0, 100, Some("10"), &["j"]);
        let rows =
            vec![row(1, 300, Some("30"), &["c"]), row(2, 50, Some("05"), &["e"]), row(3, 200, Some("20"), &["a", "b"])];
        let marks = ThreadMarks::of(&set(group, rows), 3, "rules").unwrap();
        assert_eq!(marks.united.position(), Position::new(0, 100), "the group's row says more than that of thread 2");
        assert_eq!((marks.united.low(), marks.united.high()), (Some(&Csn::new("10")), Some(&Csn::new("30"))));
        for (number, csn, transaction, is_applied) in [
            (1, "30", "c", true),
            (1, "31", "d", false),
            (2, "09", "i", true),
            (2, "10", "j", true),
            (2, "10", "another of this csn", false),
            (2, "11", "k", false),
            (3, "20", "a", true),
            (3, "20", "c", false),
            (3, "19", "x", true),
        ] {
            assert_eq!(marks.covers(number, &commit(csn, transaction)), is_applied, "{number} {csn} {transaction}");
        }
    }

    #[test]
    fn other_rules_are_refused_while_threads_stand_at_different_places() {
        let group = || row(0, 100, Some("10"), &["j"]);
        let apart = || set(group(), vec![row(1, 300, Some("30"), &["c"]), row(2, 100, Some("10"), &["j"])]);
        assert!(ThreadMarks::of(&apart(), 2, "rules").is_ok());
        assert!(matches!(ThreadMarks::of(&apart(), 2, "others"), Err(RowError::RulesChanged { .. })));
        assert!(matches!(ThreadMarks::of(&apart(), 3, "rules"), Err(RowError::RulesChanged { .. })));
        let together = || set(group(), vec![row(1, 300, Some("30"), &["c"]), row(2, 300, Some("30"), &["c"])]);
        assert!(ThreadMarks::of(&together(), 5, "others").is_ok());
        let mut gone = apart();
        gone.appliers.pop();
        assert!(matches!(ThreadMarks::of(&gone, 2, "rules"), Err(RowError::ApplierGone { number: 2, .. })));
        let new = ThreadMarks::of(&set(row(0, 0, None, &[]), vec![]), 4, "rules").unwrap();
        assert_eq!(new.rows().count(), 4);
    }
}
