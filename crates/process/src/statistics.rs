//! What a group read, and what became of it.

use change::{OperationKind, TableName, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Why an operation that was read was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FilterReason {
    /// No TABLE or MAP statement matches its table.
    NotMapped,
    /// An exclusion matches its table.
    Excluded,
    /// An earlier run of the group has passed it on already.
    AlreadyDone,
    /// The writer of the trail broke off in the middle of its transaction, and wrote that again.
    Abandoned,
    /// The initial copy of its table holds it.
    Copied,
    /// START REPLICAT asked to leave its transaction out.
    Skipped,
    /// REPERROR or a conflict sent it to the discard file.
    Discarded,
    /// REPERROR dropped it.
    Ignored,
    /// REPERROR sent it to an exceptions table.
    Exception,
    /// HANDLECOLLISIONS dropped it.
    Collision,
    /// A conflict was settled for the row that stood there.
    Conflict,
    /// There was nothing to set.
    NothingToSet,
    /// SKIPTRANS asked to leave its transaction out.
    LeftOut,
    /// Its transaction is parked in the error queue.
    Parked,
}

impl FilterReason {
    /// All reasons.
    pub const ALL: [FilterReason; 14] = [
        FilterReason::NotMapped,
        FilterReason::Excluded,
        FilterReason::AlreadyDone,
        FilterReason::Abandoned,
        FilterReason::Copied,
        FilterReason::Skipped,
        FilterReason::Discarded,
        FilterReason::Ignored,
        FilterReason::Exception,
        FilterReason::Collision,
        FilterReason::Conflict,
        FilterReason::NothingToSet,
        FilterReason::LeftOut,
        FilterReason::Parked,
    ];

    fn in_words(self) -> &'static str {
        match self {
            FilterReason::NotMapped => "not mapped",
            FilterReason::Excluded => "excluded",
            FilterReason::AlreadyDone => "already done",
            FilterReason::Abandoned => "abandoned by the writer",
            FilterReason::Copied => "in the initial copy",
            FilterReason::Skipped => "left out at the start",
            FilterReason::Discarded => "in the discard file",
            FilterReason::Ignored => "ignored by REPERROR",
            FilterReason::Exception => "in an exceptions table",
            FilterReason::Collision => "dropped by HANDLECOLLISIONS",
            FilterReason::Conflict => "lost a conflict",
            FilterReason::NothingToSet => "nothing to set",
            FilterReason::LeftOut => "left out by SKIPTRANS",
            FilterReason::Parked => "in the error queue",
        }
    }
}

/// Operations of one kind on one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came in.
    pub read: u64,
    /// Went out: into the trail, or into the target in a transaction that was committed. An operation that several MAP
    /// statements apply counts once.
    pub written: u64,
    filtered: [u64; FilterReason::ALL.len()],
}

impl Counts {
    /// Counts `operations` that were not passed on.
    pub fn filter(&mut self, reason: FilterReason, operations: u64) {
        self.filtered[reason as usize] += operations;
    }

    /// Operations that were not passed on for `reason`.
    pub fn filtered(&self, reason: FilterReason) -> u64 {
        self.filtered[reason as usize]
    }

    /// Operations that were not passed on for any reason.
    pub fn filtered_total(&self) -> u64 {
        self.filtered.iter().sum()
    }

    /// Whether everything that came in went out or was filtered.
    pub fn is_balanced(&self) -> bool {
        self.read == self.written + self.filtered_total()
    }

    /// Takes away what `earlier` counted, which is never more.
    fn subtract(&mut self, earlier: &Counts) {
        self.read = self.read.saturating_sub(earlier.read);
        self.written = self.written.saturating_sub(earlier.written);
        self.filtered.iter_mut().zip(earlier.filtered).for_each(|(left, count)| *left = left.saturating_sub(count));
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Counts) {
        self.read += other.read;
        self.written += other.written;
        self.filtered.iter_mut().zip(other.filtered).for_each(|(sum, count)| *sum += count);
    }
}

/// A table's place in [`Statistics`], so that counting needs no look-up by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableIndex(usize);

impl TableIndex {
    /// The place of what is no table of a user's, such as heartbeats: nothing of it is ever counted.
    pub const UNCOUNTED: TableIndex = TableIndex(usize::MAX);
}

/// Counts of one run of a group, per table and kind of operation.
///
/// Between transactions everything that was read must have been written or filtered: [`balanced`](Statistics::balanced).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    since: Timestamp,
    tables: Vec<(TableName, [Counts; OperationKind::ALL.len()])>,
    places: HashMap<TableName, TableIndex>,
}

impl Statistics {
    /// Nothing counted since `since`.
    pub fn new(since: Timestamp) -> Statistics {
        Statistics { since, tables: Vec::new(), places: HashMap::new() }
    }

    /// The place of `table`, which is the source's name for it.
    pub fn table(&mut self, table: &TableName) -> TableIndex {
        if let Some(place) = self.places.get(table) {
            return *place;
        }
        let place = TableIndex(self.tables.len());
        self.tables.push((table.clone(), Default::default()));
        self.places.insert(table.clone(), place);
        place
    }

    /// The counts to add to.
    pub fn counts_mut(&mut self, table: TableIndex, kind: OperationKind) -> &mut Counts {
        &mut self.tables[table.0].1[kind as usize]
    }

    /// The counts of one table and kind of operation; all zero for a table that was never seen.
    pub fn counts(&self, table: &TableName, kind: OperationKind) -> Counts {
        self.places.get(table).map(|place| self.tables[place.0].1[kind as usize]).unwrap_or_default()
    }

    /// The counts of all tables and kinds together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.tables.iter().flat_map(|(_, kinds)| kinds).for_each(|counts| total.add(counts));
        total
    }

    /// Whether each operation that came in went out or was filtered, per table and kind.
    pub fn balanced(&self) -> bool {
        self.tables.iter().flat_map(|(_, kinds)| kinds).all(Counts::is_balanced)
    }

    /// The table of counts that reports show; `written` heads the column of what went out, such as `Applied`.
    pub fn render(&self, written: &str) -> String {
        let mut rows: Vec<[String; 5]> = Vec::new();
        let by_name: BTreeMap<&TableName, &[Counts; OperationKind::ALL.len()]> =
            self.tables.iter().map(|(name, kinds)| (name, kinds)).collect();
        for (table, kinds) in by_name {
            let mut name = table.to_string();
            for (kind, counts) in
                OperationKind::ALL.iter().zip(kinds).filter(|(_, counts)| **counts != Counts::default())
            {
                rows.push(row(std::mem::take(&mut name), &kind.to_string(), counts));
            }
        }
        if rows.is_empty() {
            return "No operations have been processed.\n".to_owned();
        }
        rows.push(row("Total".to_owned(), "", &self.total()));
        rows.insert(0, ["Table", "Operation", "Read", written, "Filtered"].map(str::to_owned));
        let mut text = String::new();
        let widths: [usize; 5] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in rows {
            let [table, operation, read, written, filtered] = widths;
            let line = format!(
                "{:table$}  {:operation$}  {:>read$}  {:>written$}  {:>filtered$}",
                row[0], row[1], row[2], row[3], row[4]
            );
            _ = writeln!(text, "{}", line.trim_end());
        }
        let total = self.total();
        for reason in FilterReason::ALL.into_iter().filter(|reason| total.filtered(*reason) > 0) {
            _ = writeln!(text, "Filtered because {}: {}", reason.in_words(), total.filtered(reason));
        }
        if !self.balanced() {
            let open = total.read.saturating_sub(total.written + total.filtered_total());
            _ = writeln!(text, "In transactions that are not complete: {open}");
        }
        text
    }

    /// Each table with its counts, in the order of [`OperationKind::ALL`].
    pub fn tables(&self) -> impl Iterator<Item = (&TableName, &[Counts; OperationKind::ALL.len()])> {
        self.tables.iter().map(|(name, kinds)| (name, kinds))
    }

    /// What was counted beyond `earlier`, an earlier state of these statistics.
    pub fn beyond(&self, earlier: &Statistics) -> Statistics {
        let mut beyond = self.clone();
        for ((_, kinds), (_, before)) in beyond.tables.iter_mut().zip(&earlier.tables) {
            kinds.iter_mut().zip(before).for_each(|(counts, before)| counts.subtract(before));
        }
        beyond
    }

    /// When counting started.
    pub fn since(&self) -> Timestamp {
        self.since
    }
}

fn row(table: String, operation: &str, counts: &Counts) -> [String; 5] {
    [
        table,
        operation.to_owned(),
        counts.read.to_string(),
        counts.written.to_string(),
        counts.filtered_total().to_string(),
    ]
}
