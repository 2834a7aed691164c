//! Writing into the queue and the log, inside the target transaction.

use super::image::{row_text, table_text};
use crate::conflict::{ConflictEntry, Resolution};
use crate::handling::LastError;
use crate::schedule::WriteSet;
use change::{Commit, Operation, Row, TableDefinition, Timestamp, Value};
use database::error_queue::{CALLS, CONFLICTS, KEYS, TABLES, TRANSACTIONS};
use database::{ApplyError, ColumnPair, Error, OwnRows, Session, TablePlan, Write};
use std::collections::BTreeMap;
use std::sync::Arc;
use trail::Position;

/// The item of a transaction that touches what can't be told. No hash is likely to meet it.
pub(super) const BARRIER: i64 = i64::MIN;

/// Place of the table of what transactions touch.
pub(super) const KEYS_TABLE: usize = KEYS;

/// How rows of the queue's tables are written.
pub(crate) struct QueueWriter {
    plans: Vec<Arc<TablePlan>>,
}

/// A thing that a parked transaction touches.
pub(super) struct TouchedItem {
    pub(super) item: i64,
    pub(super) transaction: String,
    pub(super) is_written: bool,
}

/// A transaction that is being parked.
pub(crate) struct Parking {
    /// DEFERRED_TRAN_ID: group, trail file and place of its first call that is parked.
    pub(crate) id: String,
    position: Position,
    commit: Commit,
    calls: i64,
    /// The call that met the error.
    failed_call: Option<i64>,
    touched: WriteSet,
}

impl Parking {
    /// Starts with the first change that is parked.
    pub(crate) fn new(group: &str, position: Position, commit: Commit) -> Parking {
        let id = format!("{group}.{}.{}", position.sequence, position.rba);
        Parking { id, position, commit, calls: 0, failed_call: None, touched: WriteSet::new() }
    }

    /// Where it notes what its changes touch.
    pub(crate) fn touched(&mut self) -> &mut WriteSet {
        &mut self.touched
    }
}

/// A call to park.
pub(crate) struct Call<'a> {
    pub(crate) plan: &'a TablePlan,
    pub(crate) operation: &'a Operation,
    /// The row that has the key now.
    pub(crate) current: Option<Row>,
    /// Whether this call met the error.
    pub(crate) is_refused: bool,
}

/// A conflict to note.
pub(crate) struct ConflictNote {
    pub(crate) table: change::TableName,
    pub(crate) kind: crate::conflict::ConflictKind,
    pub(crate) resolved: bool,
    /// Rows for the log.
    entries: Vec<(Arc<TablePlan>, ConflictEntry)>,
    position: Position,
    commit: Option<Commit>,
}

impl ConflictNote {
    /// The conflicts of one change, which count as one.
    pub(crate) fn new(
        table: change::TableName,
        plan: &Arc<TablePlan>,
        entries: Vec<ConflictEntry>,
        position: Position,
        commit: Option<Commit>,
    ) -> Option<ConflictNote> {
        let kind = entries.first()?.kind;
        let resolved = entries.iter().all(|entry| entry.resolution != Resolution::Unresolved);
        let entries = entries.into_iter().map(|entry| (Arc::clone(plan), entry)).collect();
        Some(ConflictNote { table, kind, resolved, entries, position, commit })
    }
}

impl ConflictNote {
    /// What is told of it.
    pub(crate) fn notice(&self) -> crate::ConflictNotice {
        let method = |(_, entry): &(Arc<TablePlan>, ConflictEntry)| {
            entry.decided_by().map(|(_, method)| (method, entry.resolution.to_string()))
        };
        let commit = self.commit.as_ref();
        crate::ConflictNotice {
            table: self.table.clone(),
            kind: self.kind,
            is_settled: self.resolved,
            methods: self.entries.iter().filter_map(method).collect(),
            transaction: commit.map_or_else(String::new, |commit| commit.transaction.to_string()),
            csn: commit.map_or_else(String::new, |commit| commit.csn.to_string()),
        }
    }
}

/// Who writes.
pub(crate) struct Author {
    pub(crate) group: String,
    pub(crate) group_key: i64,
    /// The database that the trail comes from, where that is known.
    pub(crate) origin: Option<String>,
    pub(crate) now: Timestamp,
}

impl QueueWriter {
    /// Rows that are read at once.
    pub(super) const PAGE: u32 = 1000;

    /// For the target of `session`; `None` where the tables were not made.
    pub(crate) fn open(session: &mut dyn Session) -> Result<Option<QueueWriter>, Error> {
        let Some(found) = session.error_queue()? else { return Ok(None) };
        Ok(Some(QueueWriter { plans: found.tables.into_iter().map(own_plan).collect() }))
    }

    pub(super) fn plan(&self, table: usize) -> &Arc<TablePlan> {
        &self.plans[table]
    }

    /// Number of a column that [`TABLES`] has.
    pub(super) fn column(&self, table: usize, name: &str) -> usize {
        let columns = &self.plans[table].target.columns;
        columns.iter().position(|column| column.name == name).unwrap_or_default()
    }

    /// A row of a table, with the values of named columns.
    pub(super) fn image(&self, table: usize, values: &[(&str, Option<&str>)]) -> Row {
        let columns = &self.plans[table].target.columns;
        Row::from_values(columns.iter().map(|column| {
            let value = values.iter().find(|(name, _)| *name == column.name);
            match value {
                None => Value::Unchanged,
                Some((_, None)) => Value::Null,
                Some((_, Some(text))) => Value::Bytes(text.as_bytes()),
            }
        }))
    }

    pub(super) fn write(
        &self,
        session: &mut dyn Session,
        table: usize,
        operations: &[Operation],
    ) -> Result<(), ApplyError> {
        let plan = &self.plans[table];
        let writes: Vec<Write<'_>> = operations.iter().map(|operation| Write { plan, operation }).collect();
        session.apply(&writes)
    }

    fn insert(
        &self,
        session: &mut dyn Session,
        table: usize,
        values: &[(&str, Option<&str>)],
    ) -> Result<(), ApplyError> {
        self.write(session, table, &[Operation::Insert { new: self.image(table, values) }])
    }

    /// Parks one call.
    pub(crate) fn park(
        &self,
        session: &mut dyn Session,
        author: &Author,
        parking: &mut Parking,
        call: &Call<'_>,
    ) -> Result<(), ApplyError> {
        if call.is_refused {
            parking.failed_call = Some(parking.calls);
        }
        let Call { plan, operation, current, .. } = call;
        let (old, new) = images(operation);
        let text = |row: &Row| row_text(&plan.source, row);
        let (old, new, current) = (old.map(text), new.map(text), current.as_ref().map(text));
        let keys: Vec<&str> = plan.key.iter().map(|pair| plan.target.columns[pair.target].name.as_str()).collect();
        let keys = serde_json::Value::from(keys).to_string();
        let procedure = match operation {
            Operation::Truncate(options) => {
                let restart = if options.restart_identity { "_restart" } else { "" };
                format!("truncate{restart}{}", if options.cascade { "_cascade" } else { "" })
            }
            _ => operation.kind().to_string(),
        };
        let (key, number) = (author.group_key.to_string(), parking.calls.to_string());
        self.insert(
            session,
            CALLS,
            &[
                ("group_key", Some(&key)),
                ("deferred_tran_id", Some(&parking.id)),
                ("callno", Some(&number)),
                ("schemaname", Some(&plan.target.name.schema)),
                ("packagename", Some(&plan.target.name.table)),
                ("procname", Some(&procedure)),
                ("source_table", Some(&table_text(&plan.source))),
                ("key_columns", Some(&keys)),
                ("old_values", old.as_deref()),
                ("new_values", new.as_deref()),
                ("current_values", current.as_deref()),
            ],
        )?;
        parking.calls += 1;
        Ok(())
    }

    /// Completes a parked transaction: its own row, and what it touches.
    pub(crate) fn finish(
        &self,
        session: &mut dyn Session,
        author: &Author,
        parking: &Parking,
        error: &LastError,
        held_behind: Option<&str>,
    ) -> Result<(), ApplyError> {
        let Parking { id, position, commit, failed_call, touched, .. } = parking;
        let [key, sequence, rba] =
            [author.group_key.to_string(), position.sequence.to_string(), position.rba.cast_signed().to_string()];
        let (committed, now) = (commit.time.to_string(), author.now.to_string());
        let call = failed_call.map(|call| call.to_string());
        self.insert(
            session,
            TRANSACTIONS,
            &[
                ("group_key", Some(&key)),
                ("deferred_tran_id", Some(id)),
                ("group_name", Some(&author.group)),
                ("seqno", Some(&sequence)),
                ("rba", Some(&rba)),
                ("origin_tran_db", author.origin.as_deref()),
                ("origin_tran_id", Some(commit.transaction.as_str())),
                ("csn", Some(commit.csn.as_str())),
                ("commit_time", Some(&committed)),
                ("start_time", Some(&now)),
                ("callno", call.as_deref()),
                ("error_number", Some(error.number())),
                ("error_msg", Some(&error.detail)),
                ("held_behind", held_behind),
            ],
        )?;
        self.add_items(session, author.group_key, id, &QueueWriter::items(touched))
    }

    /// What a set touches, each thing once, in the order of their numbers, and whether it is written.
    pub(super) fn items(touched: &WriteSet) -> Vec<(i64, bool)> {
        let mut items: BTreeMap<i64, bool> = BTreeMap::new();
        if touched.is_barrier() {
            items.insert(BARRIER, true);
        }
        for item in touched.items() {
            *items.entry(item.hash.cast_signed()).or_default() |= item.is_written;
        }
        items.into_iter().collect()
    }

    /// Notes things that a parked transaction touches.
    pub(super) fn add_items(
        &self,
        session: &mut dyn Session,
        group_key: i64,
        id: &str,
        items: &[(i64, bool)],
    ) -> Result<(), ApplyError> {
        let key = group_key.to_string();
        let rows: Vec<Operation> = items
            .iter()
            .map(|(item, is_written)| {
                let (item, is_written) = (item.to_string(), u8::from(*is_written).to_string());
                let new = self.image(
                    KEYS,
                    &[
                        ("group_key", Some(&key)),
                        ("deferred_tran_id", Some(id)),
                        ("item", Some(&item)),
                        ("is_written", Some(&is_written)),
                    ],
                );
                Operation::Insert { new }
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.write(session, KEYS, &rows)
    }

    /// Adds conflicts to the log.
    pub(crate) fn log(
        &self,
        session: &mut dyn Session,
        author: &Author,
        notes: &[ConflictNote],
    ) -> Result<(), ApplyError> {
        let (key, now) = (author.group_key.to_string(), author.now.to_string());
        for ConflictNote { entries, position, commit, .. } in notes {
            for (number, (plan, entry)) in entries.iter().enumerate() {
                let target = &plan.target.name;
                // The same conflict comes again when its group is started again: the time tells the meetings apart.
                let id = format!(
                    "{}.{}.{}.{target}.{number}.{}",
                    &author.group,
                    position.sequence,
                    position.rba,
                    author.now.micros_since(Timestamp::default())
                );
                let text = |row: &Row| row_text(&plan.source, row);
                let [old, new, current] = [&entry.old, &entry.new, &entry.current].map(|row| row.as_ref().map(text));
                let decided = entry.decided_by();
                let sequence = decided.map(|(sequence, _)| sequence.to_string());
                let identity = key_text(plan, entry);
                let (transaction, csn) = commit
                    .as_ref()
                    .map_or((String::new(), String::new()), |c| (c.transaction.to_string(), c.csn.to_string()));
                self.insert(
                    session,
                    CONFLICTS,
                    &[
                        ("group_key", Some(&key)),
                        ("conflict_id", Some(&id)),
                        ("group_name", Some(&author.group)),
                        ("resolved_date", Some(&now)),
                        ("sname", Some(&target.schema)),
                        ("oname", Some(&target.table)),
                        ("conflict_type", Some(&entry.kind.to_string())),
                        ("reference_name", Some(&entry.reference)),
                        ("sequence_no", sequence.as_deref()),
                        ("method_name", decided.map(|(_, method)| method)),
                        ("resolution", Some(&entry.resolution.to_string())),
                        ("failure", entry.failure.as_deref()),
                        ("primary_key_value", identity.as_deref()),
                        ("origin_tran_db", author.origin.as_deref()),
                        ("origin_tran_id", Some(&transaction)),
                        ("csn", Some(&csn)),
                        ("old_values", old.as_deref()),
                        ("new_values", new.as_deref()),
                        ("current_values", current.as_deref()),
                    ],
                )?;
            }
        }
        Ok(())
    }

    /// What parked transactions of a group touch, in the order of the items, behind `after`.
    pub(super) fn keys(
        &self,
        session: &mut dyn Session,
        group_key: i64,
        after: Option<i64>,
    ) -> Result<Vec<TouchedItem>, Error> {
        let [group, transaction, item, is_written] =
            ["group_key", "deferred_tran_id", "item", "is_written"].map(|name| self.column(KEYS, name));
        let key = group_key.to_string();
        let query = OwnRows {
            table: &self.plans[KEYS].target,
            equal: &[(group, &key)],
            order: &[item],
            after,
            limit: QueueWriter::PAGE,
        };
        let rows = session.own_rows(&query)?;
        Ok(rows
            .iter()
            .map(|row| TouchedItem {
                item: text_of(row, item).and_then(|text| text.parse().ok()).unwrap_or(BARRIER),
                transaction: text_of(row, transaction).unwrap_or_default().to_owned(),
                is_written: text_of(row, is_written) != Some("0"),
            })
            .collect())
    }
}

/// A value of one of our tables.
pub(super) fn text_of(row: &Row, column: usize) -> Option<&str> {
    row.value(column).bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// Old and new image of an operation.
pub(super) fn images(operation: &Operation) -> (Option<&Row>, Option<&Row>) {
    match operation {
        Operation::Insert { new } => (None, Some(new)),
        Operation::Update { old, new } => (old.as_ref(), Some(new)),
        Operation::Delete { old } => (Some(old), None),
        Operation::Truncate(_) => (None, None),
    }
}

/// The key of the row that a conflict is about, as an object.
fn key_text(plan: &TablePlan, entry: &ConflictEntry) -> Option<String> {
    let row = entry.current.as_ref().or(entry.old.as_ref()).or(entry.new.as_ref())?;
    let is_key = |column: usize| plan.key.iter().any(|pair| pair.source == column);
    let key = (0..row.len()).map(|column| if is_key(column) { row.value(column) } else { Value::Unchanged });
    Some(row_text(&plan.source, &Row::from_values(key)))
}

/// A plan by which rows in a table's own shape are written to it.
fn own_plan(mut table: TableDefinition) -> Arc<TablePlan> {
    // All are written as they are.
    for column in Arc::make_mut(&mut table.columns) {
        column.generation = change::Generation::None;
    }
    debug_assert!(TABLES.iter().any(|known| table.columns.len() >= known.columns.len()));
    let pair = |place: usize| ColumnPair { source: place, target: place };
    let columns = (0..table.columns.len()).map(pair).collect();
    let key = table.key().into_iter().map(pair).collect();
    let on_duplicate = database::OnDuplicate::Refuse;
    Arc::new(TablePlan { source: Arc::new(table.clone()), target: table, columns, key, on_duplicate })
}
