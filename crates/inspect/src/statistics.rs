//! What a count found (COUNT).

use crate::environment::{RecordEnvironment, is_change};
use crate::filter::wildcard_matches;
use crate::session::TransactionLimits;
use crate::time::duration_text;
use change::Timestamp;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt::Write;
use trail::format::bytes::from_julian_micros;
use trail::format::operation;
use trail::format::record::{Object, RecordHeader, transaction};

/// Tables of one transaction that are told apart.
const TABLES_OF_TRANSACTION_MAX: usize = 256;

/// Records, bytes and operations.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Bytes of their data.
    pub bytes: u64,
    operations: [u64; 256],
    before: u64,
    after: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { records: 0, bytes: 0, operations: [0; 256], before: 0, after: 0 }
    }
}

impl Tally {
    #[inline]
    fn add(&mut self, header: &RecordHeader) {
        self.records += 1;
        self.bytes += u64::from(header.data_length);
        self.operations[usize::from(header.operation)] += 1;
        if header.before_after == b'B' { self.before += 1 } else { self.after += 1 }
    }

    fn show(&self, text: &mut String) {
        let mut line = |label: &str, value: u64| _ = writeln!(text, "{label:<18}{value:>12}");
        line("Total Data Bytes", self.bytes);
        line("  Avg Bytes/Record", self.bytes.checked_div(self.records).unwrap_or(0));
        for (number, count) in (0..=u8::MAX).zip(self.operations).filter(|(_, count)| *count > 0) {
            match operation::find(number) {
                Some(known) => line(known.name, count),
                None => line(&format!("Unknown-{number}"), count),
            }
        }
        line("Before Images", self.before);
        line("After Images", self.after);
    }

    /// Records of an operation.
    pub fn of(&self, operation: u8) -> u64 {
        self.operations[usize::from(operation)]
    }
}

/// A transaction as far as it was read.
#[derive(Clone, Debug, Default)]
struct Open {
    start: u64,
    first_time: u64,
    last_time: u64,
    records: u64,
    bytes: u64,
    tables: Vec<u64>,
}

/// A transaction that is large enough to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeTransaction {
    /// When it was committed.
    pub time: Timestamp,
    /// Microseconds from its first record to its last.
    pub duration: i64,
    /// Number of the file that it starts in.
    pub sequence: u32,
    /// Where it starts.
    pub rba: u64,
    /// Bytes of its data.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
    /// Its tables.
    pub files: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Transactions {
    count: u64,
    files: u64,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// A count for each table.
    pub by_table: bool,
    /// Records from here on.
    pub start: Option<Timestamp>,
    /// Records up to here.
    pub end: Option<Timestamp>,
    /// A count for each span of so many microseconds.
    pub interval: Option<i64>,
    /// Tables whose names fit.
    pub table: Option<String>,
    /// Which transactions are listed.
    pub limits: TransactionLimits,
}

/// A count under way.
pub struct Count {
    question: Question,
    total: Tally,
    tables: HashMap<String, (u8, Tally)>,
    intervals: BTreeMap<i64, Tally>,
    transactions: Transactions,
    open: Open,
    is_open: bool,
    large: Vec<LargeTransaction>,
    damaged: u64,
    first_damage: Option<(u64, String)>,
    /// The table of the record before, which mostly is that of the next one.
    names_by_index: HashMap<u16, String>,
}

impl Count {
    /// Nothing counted yet.
    pub fn new(question: Question) -> Count {
        Count {
            question,
            total: Tally::default(),
            tables: HashMap::new(),
            intervals: BTreeMap::new(),
            transactions: Transactions::default(),
            open: Open::default(),
            is_open: false,
            large: Vec::new(),
            damaged: 0,
            first_damage: None,
            names_by_index: HashMap::new(),
        }
    }

    /// All records.
    pub fn total(&self) -> &Tally {
        &self.total
    }

    /// The tables with their counts.
    pub fn tables(&self) -> Vec<(&str, &Tally)> {
        let mut tables: Vec<(&str, &Tally)> =
            self.tables.iter().map(|(name, (_, tally))| (name.as_str(), tally)).collect();
        tables.sort_by_key(|(name, _)| *name);
        tables
    }

    /// Large transactions, the largest first.
    pub fn large(&self) -> &[LargeTransaction] {
        &self.large
    }

    /// Transactions that ended.
    pub fn transactions(&self) -> u64 {
        self.transactions.count
    }

    /// Counts of spans of time by their start, in microseconds since 1970.
    pub fn intervals(&self) -> &BTreeMap<i64, Tally> {
        &self.intervals
    }

    /// Whether the question is about tables by name.
    pub fn needs_names(&self) -> bool {
        self.question.by_table || self.question.table.is_some()
    }

    /// Starts another file.
    pub fn start_file(&mut self) {
        self.names_by_index.clear();
    }

    /// Takes note of something that is no whole record.
    pub fn damage(&mut self, rba: u64, what: String) {
        self.damaged += 1;
        self.first_damage.get_or_insert((rba, what));
    }

    /// Counts a record, if the question is about it.
    #[inline]
    pub fn add(&mut self, record: &RecordEnvironment<'_>, sequence: u32) {
        let header = &record.view.header;
        let time = from_julian_micros(header.time);
        if self.question.start.is_some_and(|start| time < start) || self.question.end.is_some_and(|end| time > end) {
            return;
        }
        if let Some(table) = &self.question.table
            && !wildcard_matches(table, &record.table_name())
        {
            return;
        }
        self.total.add(header);
        if self.question.by_table {
            self.add_to_table(record);
        }
        if let Some(interval) = self.question.interval {
            let start = time.unix_micros.div_euclid(interval) * interval;
            self.intervals.entry(start).or_default().add(header);
        }
        if is_change(record.view) {
            self.add_to_transaction(record, sequence);
        }
    }

    fn add_to_table(&mut self, record: &RecordEnvironment<'_>) {
        let header = &record.view.header;
        let name = match record.view.object {
            Object::Index { definition, .. } => match self.names_by_index.get(&definition) {
                Some(name) => name.as_str(),
                None => {
                    let name = record.table_name().into_owned();
                    self.names_by_index.entry(definition).or_insert(name).as_str()
                }
            },
            _ => &*record.table_name(),
        };
        if name.is_empty() {
            return;
        }
        match self.tables.get_mut(name) {
            Some((_, tally)) => tally.add(header),
            None => {
                let (_, tally) = self.tables.entry(name.to_owned()).or_insert((header.partition, Tally::default()));
                tally.add(header);
            }
        }
    }

    #[inline]
    fn add_to_transaction(&mut self, record: &RecordEnvironment<'_>, sequence: u32) {
        let header = &record.view.header;
        if !self.is_open || matches!(header.transaction, transaction::FIRST | transaction::ONLY) {
            let mut tables = std::mem::take(&mut self.open.tables);
            tables.clear();
            self.open = Open { start: record.rba, first_time: header.time, tables, ..Open::default() };
            self.is_open = true;
        }
        let open = &mut self.open;
        open.records += 1;
        open.bytes += u64::from(header.data_length);
        open.last_time = header.time;
        let table = match &record.view.object {
            Object::Index { definition, .. } => u64::from(*definition),
            Object::Name(name) => name.iter().fold(1 << 32, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(*byte)),
            Object::Partition(_) => 0,
        };
        if open.tables.last() != Some(&table)
            && open.tables.len() < TABLES_OF_TRANSACTION_MAX
            && !open.tables.contains(&table)
        {
            open.tables.push(table);
        }
        if matches!(header.transaction, transaction::LAST | transaction::ONLY) {
            self.end_transaction(sequence);
        }
    }

    fn end_transaction(&mut self, sequence: u32) {
        self.is_open = false;
        let (open, limits) = (&self.open, &self.question.limits);
        let files = open.tables.len() as u64;
        self.transactions.count += 1;
        self.transactions.files += files;
        if limits.count == 0 || (open.records < limits.records && open.bytes < limits.bytes) {
            return;
        }
        let first = from_julian_micros(open.first_time);
        let found = LargeTransaction {
            time: first,
            duration: from_julian_micros(open.last_time).micros_since(first),
            sequence,
            rba: open.start,
            bytes: open.bytes,
            records: open.records,
            files,
        };
        let place = self.large.partition_point(|known| (known.bytes, known.records) >= (found.bytes, found.records));
        if place < limits.count {
            self.large.insert(place, found);
            self.large.truncate(limits.count);
        }
    }

    /// The lines of COUNT behind the one that names the file.
    pub fn text(&self, time_text: &dyn Fn(Timestamp) -> String) -> String {
        let mut text = String::new();
        if let Some(interval) = self.question.interval {
            for (start, tally) in &self.intervals {
                let [from, to] = [*start, start.saturating_add(interval)].map(Timestamp::from_unix_micros);
                _ = writeln!(text, "Interval from {} to {},", time_text(from), time_text(to));
                _ = writeln!(text, "Recs  {}", tally.records);
                tally.show(&mut text);
                text.push('\n');
            }
        }
        self.total.show(&mut text);
        if self.question.by_table {
            let mut tables: Vec<(&String, &(u8, Tally))> = self.tables.iter().collect();
            tables.sort_by_key(|(name, _)| *name);
            for (name, (partition, tally)) in tables {
                _ = writeln!(text, "\n{name:<30} Partition x{partition:02x}");
                tally.show(&mut text);
            }
        }
        let count = self.transactions.count;
        if count > 0 {
            _ = writeln!(text, "\nAverage of {count} Transactions");
            let mut line = |label: &str, value: u64| _ = writeln!(text, "    {label:<17}{value:>11}");
            line("Bytes/Trans .....", self.total.bytes / count);
            line("Records/Trans ...", self.total.records / count);
            line("Files/Trans .....", self.transactions.files / count);
        }
        self.show_large(&mut text, time_text);
        text + &self.damage_text()
    }

    /// What is damaged; empty when nothing is.
    pub fn damage_text(&self) -> String {
        match &self.first_damage {
            None => String::new(),
            Some((rba, what)) => format!("\nDamaged {}, first at RBA {rba}: {what}\n", self.damaged),
        }
    }

    fn show_large(&self, text: &mut String, time_text: &dyn Fn(Timestamp) -> String) {
        let limits = &self.question.limits;
        if limits.count == 0 {
            return;
        }
        let (records, bytes) = (limits.records, limits.bytes);
        _ = writeln!(text, "\nTransactions with at least {records} records or {bytes} bytes");
        for large in &self.large {
            let (time, duration) = (time_text(large.time), duration_text(large.duration));
            _ = writeln!(text, "{time}  {duration}, Seq {}, RBA {}", large.sequence, large.rba);
            _ = writeln!(text, "    {:<17}{:>11}", "Bytes/Trans .....", large.bytes);
            _ = writeln!(text, "    {:<17}{:>11}", "Records/Trans ...", large.records);
            _ = writeln!(text, "    {:<17}{:>11}", "Files/Trans .....", large.files);
        }
    }
}
