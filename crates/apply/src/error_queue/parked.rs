//! Reading the queue.

use super::image::{ImageError, row_of, table_of};
use super::writer::{BARRIER, QueueWriter, text_of};
use change::{Operation, Row, TableDefinition, TableName, TruncateOptions};
use database::error_queue::{CALLS, KEYS, TRANSACTIONS};
use database::{Error, OwnRows, Session};
use std::sync::Arc;

/// A transaction of the error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedTransaction {
    /// GROUP_KEY of the Replicat that parked it.
    pub group_key: i64,
    /// DEFERRED_TRAN_ID.
    pub id: String,
    /// The Replicat.
    pub group: String,
    /// Place in the trail: file, offset.
    pub place: (i64, i64),
    /// The database that it comes from, where that is known.
    pub origin: Option<String>,
    /// The source transaction.
    pub transaction: String,
    /// Its place in commit order.
    pub csn: String,
    /// When it was committed at its source, UTC.
    pub committed: String,
    /// When it was parked, UTC.
    pub parked: String,
    /// The call that met the error.
    pub failed_call: Option<i64>,
    /// The database's code of the error, or its kind.
    pub error_number: String,
    /// The error.
    pub error_message: String,
    /// The transaction behind which it is held back.
    pub held_behind: Option<String>,
}

/// A call of a parked transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCall {
    /// CALLNO, from 0.
    pub number: i64,
    /// The target table.
    pub target: TableName,
    /// The operation: `insert`, `update`, `delete`, or `truncate` with its options behind it.
    pub procedure: String,
    /// The source table's definition, in whose shape the rows are.
    pub source: Arc<TableDefinition>,
    /// Columns of the target that find the row.
    pub key_columns: Vec<String>,
    /// The row before the change, as an object; see the crate's documentation of images.
    pub old: Option<String>,
    /// The row after the change.
    pub new: Option<String>,
    /// The row that had the key when the call was parked.
    pub current: Option<String>,
}

impl ParkedCall {
    /// What is to be done.
    ///
    /// # Errors
    /// When an image is not one of the table.
    pub fn operation(&self) -> Result<Operation, ImageError> {
        let row = |text: &Option<String>| text.as_deref().map(|text| row_of(&self.source, text)).transpose();
        let missing = || ImageError { what: format!("call {}: an image is missing", self.number) };
        Ok(match self.procedure.as_str() {
            "insert" => Operation::Insert { new: row(&self.new)?.ok_or_else(missing)? },
            "update" => Operation::Update { old: row(&self.old)?, new: row(&self.new)?.ok_or_else(missing)? },
            "delete" => Operation::Delete { old: row(&self.old)?.ok_or_else(missing)? },
            truncate if truncate.starts_with("truncate") => Operation::Truncate(TruncateOptions {
                restart_identity: truncate.contains("_restart"),
                cascade: truncate.contains("_cascade"),
            }),
            other => return Err(ImageError { what: format!("call {}: there is no operation {other}", self.number) }),
        })
    }
}

/// What a parked transaction touches.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched(Vec<(i64, bool)>);

impl Touched {
    /// The things, in the order of their numbers.
    pub(super) fn items(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|(item, _)| *item)
    }

    /// Whether a thing is among them.
    pub(super) fn has(&self, wanted: i64) -> bool {
        self.0.binary_search_by_key(&wanted, |(item, _)| *item).is_ok()
    }

    /// Whether one of two transactions must keep its place before the other.
    pub(super) fn meets(&self, other: &Touched) -> bool {
        let is_barrier = |touched: &Touched| touched.0.iter().any(|(item, _)| *item == BARRIER);
        if is_barrier(self) || is_barrier(other) {
            return true;
        }
        // Both are in the order of the items.
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((one, one_writes)), Some((two, two_writes))) = (left.peek(), right.peek()) {
            match one.cmp(two) {
                std::cmp::Ordering::Less => _ = left.next(),
                std::cmp::Ordering::Greater => _ = right.next(),
                std::cmp::Ordering::Equal if *one_writes || *two_writes => return true,
                std::cmp::Ordering::Equal => _ = left.next(),
            }
        }
        false
    }
}

/// Reads the queue of a target.
pub struct QueueReader {
    pub(super) writer: QueueWriter,
}

impl QueueReader {
    /// For the target of `session`; `None` where the tables were not made.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(session: &mut dyn Session) -> Result<Option<QueueReader>, Error> {
        Ok(QueueWriter::open(session)?.map(|writer| QueueReader { writer }))
    }

    /// Parked transactions in the order of their trails, of all groups or of those called `group`; at most a million.
    ///
    /// # Errors
    /// Those of the database.
    pub fn transactions(
        &self,
        session: &mut dyn Session,
        group: Option<&str>,
    ) -> Result<Vec<ParkedTransaction>, Error> {
        let column = |name: &str| self.writer.column(TRANSACTIONS, name);
        let equal: Vec<(usize, &str)> = group.map(|group| (column("group_name"), group)).into_iter().collect();
        let order = ["group_name", "group_key", "seqno", "rba"].map(column);
        let table = &self.writer.plan(TRANSACTIONS).target;
        let rows = session.own_rows(&OwnRows { table, equal: &equal, order: &order, after: None, limit: 1_000_000 })?;
        let read = |row: &Row| {
            let text = |name: &str| text_of(row, column(name)).map(str::to_owned);
            let number = |name: &str| text_of(row, column(name)).and_then(|text| text.parse::<i64>().ok());
            ParkedTransaction {
                group_key: number("group_key").unwrap_or_default(),
                id: text("deferred_tran_id").unwrap_or_default(),
                group: text("group_name").unwrap_or_default(),
                place: (number("seqno").unwrap_or_default(), number("rba").unwrap_or_default()),
                origin: text("origin_tran_db"),
                transaction: text("origin_tran_id").unwrap_or_default(),
                csn: text("csn").unwrap_or_default(),
                committed: text("commit_time").unwrap_or_default(),
                parked: text("start_time").unwrap_or_default(),
                failed_call: number("callno"),
                error_number: text("error_number").unwrap_or_default(),
                error_message: text("error_msg").unwrap_or_default(),
                held_behind: text("held_behind"),
            }
        };
        Ok(rows.iter().map(read).collect())
    }

    /// At most `limit` calls of a transaction behind call `after`, in their order.
    ///
    /// # Errors
    /// Those of the database; a row that somebody made unreadable.
    pub fn calls(
        &self,
        session: &mut dyn Session,
        transaction: &ParkedTransaction,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ParkedCall>, Error> {
        let column = |name: &str| self.writer.column(CALLS, name);
        let key = transaction.group_key.to_string();
        let equal = [(column("group_key"), key.as_str()), (column("deferred_tran_id"), transaction.id.as_str())];
        let table = &self.writer.plan(CALLS).target;
        let rows = session.own_rows(&OwnRows { table, equal: &equal, order: &[column("callno")], after, limit })?;
        let unreadable = |error: ImageError| {
            Error::new(database::ErrorClass::Permanent, format!("could not read transaction {}", transaction.id))
                .with_cause(error)
        };
        let mut last: Option<(String, Arc<TableDefinition>)> = None;
        let mut calls = Vec::with_capacity(rows.len());
        for row in &rows {
            let text = |name: &str| text_of(row, column(name)).map(str::to_owned);
            let shape = text("source_table").unwrap_or_default();
            let source = match &last {
                Some((known, source)) if *known == shape => Arc::clone(source),
                _ => Arc::new(table_of(&shape).map_err(unreadable)?),
            };
            last = Some((shape, Arc::clone(&source)));
            let keys: Vec<String> =
                text("key_columns").and_then(|keys| serde_json::from_str(&keys).ok()).unwrap_or_default();
            calls.push(ParkedCall {
                number: text("callno").and_then(|number| number.parse().ok()).unwrap_or_default(),
                target: TableName::new(text("schemaname").unwrap_or_default(), text("packagename").unwrap_or_default()),
                procedure: text("procname").unwrap_or_default(),
                source,
                key_columns: keys,
                old: text("old_values"),
                new: text("new_values"),
                current: text("current_values"),
            });
        }
        Ok(calls)
    }

    /// What a transaction touches.
    pub(super) fn touched(&self, session: &mut dyn Session, of: &ParkedTransaction) -> Result<Touched, Error> {
        let column = |name: &str| self.writer.column(KEYS, name);
        let key = of.group_key.to_string();
        let equal = [(column("group_key"), key.as_str()), (column("deferred_tran_id"), of.id.as_str())];
        let table = &self.writer.plan(KEYS).target;
        let query = OwnRows { table, equal: &equal, order: &[column("item")], after: None, limit: 1_000_000 };
        let rows = session.own_rows(&query)?;
        let item = |row: &Row| {
            let number = text_of(row, column("item")).and_then(|text| text.parse().ok()).unwrap_or(BARRIER);
            (number, text_of(row, column("is_written")) != Some("0"))
        };
        Ok(Touched(rows.iter().map(item).collect()))
    }
}
