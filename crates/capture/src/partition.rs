//! Partitions that are told by name.
//!
//! A source that publishes partitions on their own tells each row under the partition's name. [`PartitionedTables`] asks it to do
//! so for the tables that PARTITION and PARTITIONEXCLUDE statements are about, and knows to which table each of its partitions
//! belongs; [`Placing`] makes a row of a partition a row of that table again, with the partition's name beside it.

use change::{Change, Operation, RecordAddress, Row, TableDefinition, TableName, TruncateOptions};
use database::{Database, Error, ErrorClass, Partition, TableSelection};
use parameter::{PartitionChoice, PartitionPlan};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trail::{ChangeDetails, PartitionName};

/// Time after which the database is asked again which partitions there are, when the next question comes.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Definitions remembered; see [`Filter`](crate::Filter).
const REMEMBERED_MAX: usize = 4096;

/// Flags of a partition's record: 1 for one that a PARTITION statement names.
const NAMED: u32 = 1;

/// Why the statements can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// The source has no partitions, or does not say in which one a row lies.
    #[error("the source does not tell in which partition a row lies, so {statement} can't be named")]
    Untold {
        /// The first statement's partition.
        statement: String,
    },
    /// No table that is captured and has partitions fits.
    #[error("no table that is captured and has partitions fits {statement}")]
    Unfit {
        /// The statement's partition.
        statement: String,
    },
    /// The database can't be asked.
    #[error(transparent)]
    Database(#[from] Error),
}

/// The TABLE statements, where some of the tables are told by their partitions.
pub struct PartitionedTables {
    database: Arc<dyn Database>,
    plan: PartitionPlan,
    selection: Arc<dyn TableSelection>,
    known: Mutex<Known>,
}

struct Known {
    /// Partitions, by name, of the tables that statements are about.
    parts: HashMap<TableName, Partition>,
    /// Those tables.
    roots: HashMap<TableName, TableDefinition>,
    /// All tables, so that a new one is noticed.
    seen: HashSet<TableName>,
    looked_at: Instant,
    /// Why nothing more may be written.
    failure: Option<Error>,
}

impl PartitionedTables {
    /// Looks which tables of `database` are selected and have partitions that statements are about.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub fn new(
        database: Arc<dyn Database>,
        plan: PartitionPlan,
        selection: Arc<dyn TableSelection>,
    ) -> Result<Arc<PartitionedTables>, PartitionError> {
        let known = Known {
            parts: HashMap::new(),
            roots: HashMap::new(),
            seen: HashSet::new(),
            looked_at: Instant::now(),
            failure: None,
        };
        let tables = PartitionedTables { database, plan, selection, known: Mutex::new(known) };
        let mut known = tables.known();
        if !tables.look(&mut known)? {
            let statement = tables.plan.without_table(&[]).unwrap_or_default().to_owned();
            return Err(PartitionError::Untold { statement });
        }
        let roots: Vec<TableName> = known.roots.keys().cloned().collect();
        if let Some(statement) = tables.plan.without_table(&roots) {
            return Err(PartitionError::Unfit { statement: statement.to_owned() });
        }
        drop(known);
        Ok(Arc::new(tables))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the database for its partitions; returns whether it has any such thing.
    fn look(&self, known: &mut Known) -> Result<bool, Error> {
        let Some(partitions) = self.database.partitions()? else { return Ok(false) };
        let tables = self.database.tables()?;
        known.looked_at = Instant::now();
        let concerned = |root: &TableName| self.plan.concerns(root) && self.selection.selects(root);
        let divided: HashSet<&TableName> = partitions.iter().map(|partition| &partition.root).collect();
        let parts: HashMap<TableName, Partition> = partitions
            .iter()
            .filter(|partition| concerned(&partition.root))
            .map(|partition| (partition.table.clone(), partition.clone()))
            .collect();
        known.seen = tables.iter().map(|table| table.name.clone()).collect();
        known.seen.extend(partitions.iter().map(|partition| partition.table.clone()));
        let left = known.parts.iter().find(|(name, before)| {
            known.seen.contains(*name) && parts.get(*name).is_none_or(|now| now.root != before.root)
        });
        if let Some((name, before)) = left {
            let what = format!(
                "{name} is no partition of {} any more, and rows of it may have been captured as rows of that table",
                before.root
            );
            known.failure = Some(Error::new(ErrorClass::Mismatch, what).with_next_step(format!(
                "compare {} at source and target, then start the group again: {name} is a table of its own from then on",
                before.root
            )));
        }
        known.roots = tables
            .into_iter()
            .filter(|table| divided.contains(&table.name) && concerned(&table.name))
            .map(|table| (table.name.clone(), table))
            .collect();
        known.parts = parts;
        Ok(true)
    }

    /// What is known, after a look when `table` is new or the last look was long ago.
    fn up_to_date(&self, table: &TableName) -> MutexGuard<'_, Known> {
        let mut known = self.known();
        if (!known.seen.contains(table) || known.looked_at.elapsed() >= LOOK_INTERVAL)
            && let Err(error) = self.look(&mut known)
        {
            known.failure = Some(error);
        }
        known
    }

    /// What becomes of changes that are told under `table`; `None` when it is no partition that statements are about.
    fn place(&self, table: &Arc<TableDefinition>) -> Result<Option<Arc<Place>>, Error> {
        let mut known = self.up_to_date(&table.name);
        if let Some(failure) = known.failure.take() {
            return Err(failure);
        }
        let Some(part) = known.parts.get(&table.name) else { return Ok(None) };
        let Some(root) = known.roots.get(&part.root) else { return Ok(None) };
        let choice = match part.is_leaf {
            true => self.plan.choice(&part.root, &table.name.table),
            false => PartitionChoice::Untouched,
        };
        let name = PartitionName { name: table.name.table.clone(), id: part.number, flags: NAMED };
        let details = (choice == PartitionChoice::Named)
            .then(|| ChangeDetails { partition: Some(Arc::new(name)), ..ChangeDetails::default() });
        // The partition's columns in the order of its table; what the table does not have, or not any more, comes last.
        let own = |column: &str| table.columns.iter().position(|known| known.name == column);
        let mut order: Vec<usize> = root.columns.iter().filter_map(|column| own(&column.name)).collect();
        order.extend(
            (0..table.columns.len())
                .filter(|index| root.columns.iter().all(|column| column.name != table.columns[*index].name)),
        );
        let columns = order.iter().map(|index| table.columns[*index].clone()).collect();
        let is_moved = order.iter().enumerate().any(|(place, index)| place != *index);
        Ok(Some(Arc::new(Place {
            partition: table.name.clone(),
            table: Arc::new(TableDefinition { name: part.root.clone(), columns }),
            order: is_moved.then_some(order),
            details,
            is_excluded: choice == PartitionChoice::Excluded,
        })))
    }

    /// A partition with rows of `root` that is captured and not among `truncated`.
    fn left_filled(&self, root: &TableName, truncated: &[TableName]) -> Option<TableName> {
        let known = self.known();
        let is_captured = |part: &&Partition| {
            part.is_leaf && part.root == *root && self.plan.choice(root, &part.table.table) != PartitionChoice::Excluded
        };
        let mut parts = known.parts.values().filter(is_captured).map(|part| &part.table);
        parts.find(|table| !truncated.contains(table)).cloned()
    }
}

impl TableSelection for PartitionedTables {
    fn selects(&self, table: &TableName) -> bool {
        let known = self.up_to_date(table);
        match known.parts.get(table) {
            Some(part) => part.is_leaf && self.selection.selects(&part.root),
            None => !known.roots.contains_key(table) && self.selection.selects(table),
        }
    }

    fn required(&self) -> Vec<TableName> {
        self.selection.required()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        let root = self.known().parts.get(table).map(|part| part.root.clone());
        self.selection.key_columns(root.as_ref().unwrap_or(table))
    }

    fn tells_definitions(&self) -> bool {
        self.selection.tells_definitions()
    }

    fn tells_sequences(&self) -> bool {
        self.selection.tells_sequences()
    }

    fn selects_sequence(&self, sequence: &TableName) -> bool {
        self.selection.selects_sequence(sequence)
    }

    // No patterns: which tables belong to which is not told by their names.
}

/// What becomes of the changes of one partition.
pub(crate) struct Place {
    pub(crate) partition: TableName,
    /// The table that the partition belongs to.
    pub(crate) table: Arc<TableDefinition>,
    /// Where the values of that table's columns stand in a row of the partition; `None` where they are.
    order: Option<Vec<usize>>,
    pub(crate) details: Option<ChangeDetails>,
    pub(crate) is_excluded: bool,
}

impl Place {
    /// The change as one of the table.
    pub(crate) fn change(&self, change: &Change) -> Change {
        let moved = |row: &Row| match &self.order {
            None => row.clone(),
            Some(order) => Row::from_values(order.iter().map(|index| row.value(*index))),
        };
        let operation = match &change.operation {
            Operation::Insert { new } => Operation::Insert { new: moved(new) },
            Operation::Update { old, new } => Operation::Update { old: old.as_ref().map(moved), new: moved(new) },
            Operation::Delete { old } => Operation::Delete { old: moved(old) },
            Operation::Truncate(options) => Operation::Truncate(*options),
        };
        Change { table: Arc::clone(&self.table), operation, address: change.address }
    }
}

/// Places of partitions, looked up once per definition, and the truncation that is being told.
pub(crate) struct Placing {
    tables: Arc<PartitionedTables>,
    latest: Option<Remembered>,
    remembered: HashMap<*const TableDefinition, Remembered>,
    truncation: Option<Truncation>,
}

type Remembered = (Arc<TableDefinition>, Option<Arc<Place>>);

/// A truncation, which is told partition by partition.
pub(crate) struct Truncation {
    pub(crate) table: Arc<TableDefinition>,
    pub(crate) address: RecordAddress,
    pub(crate) options: TruncateOptions,
    partitions: Vec<TableName>,
}

impl Placing {
    pub(crate) fn new(tables: Arc<PartitionedTables>) -> Placing {
        Placing { tables, latest: None, remembered: HashMap::new(), truncation: None }
    }

    /// The place of what is told under `table`, if it is a partition that statements are about.
    ///
    /// # Errors
    /// When the database can't be asked, or a partition has left its table.
    pub(crate) fn find(&mut self, table: &Arc<TableDefinition>) -> Result<Option<Arc<Place>>, Error> {
        if let Some((latest, place)) = &self.latest
            && Arc::ptr_eq(latest, table)
        {
            return Ok(place.clone());
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        let found = match self.remembered.get(&Arc::as_ptr(table)) {
            Some((definition, place)) => (Arc::clone(definition), place.clone()),
            None => {
                let found = (Arc::clone(table), self.tables.place(table)?);
                self.remembered.insert(Arc::as_ptr(table), found.clone());
                found
            }
        };
        self.latest = Some(found.clone());
        Ok(found.1)
    }

    /// Why nothing more may be written, if that was found since.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.tables.known().failure.take()
    }

    /// Whether a truncation is being told that a change of `table` at `address` does not belong to any more.
    pub(crate) fn ends_truncation(&mut self, change: Option<&Change>) -> Result<bool, Error> {
        let Some(address) = self.truncation.as_ref().map(|truncation| truncation.address) else { return Ok(false) };
        let Some(change) = change.filter(|change| matches!(change.operation, Operation::Truncate(_))) else {
            return Ok(true);
        };
        let place = self.find(&change.table)?;
        let is_same = |place: &Arc<Place>| {
            self.truncation.as_ref().is_some_and(|truncation| truncation.table.name == place.table.name)
        };
        Ok(change.address != address || !place.as_ref().is_some_and(is_same))
    }

    /// Takes note of the truncation of one partition.
    pub(crate) fn truncate(&mut self, place: &Place, change: &Change, options: TruncateOptions) {
        let truncation = self.truncation.get_or_insert_with(|| Truncation {
            table: Arc::clone(&place.table),
            address: change.address,
            options,
            partitions: Vec::new(),
        });
        truncation.partitions.push(place.partition.clone());
    }

    /// The truncation that has been told, and a partition that it left as it was.
    pub(crate) fn end_truncation(&mut self) -> Option<(Truncation, Option<TableName>)> {
        let truncation = self.truncation.take()?;
        let left = self.tables.left_filled(&truncation.table.name, &truncation.partitions);
        Some((truncation, left))
    }
}

impl Truncation {
    /// The first partition that was truncated.
    pub(crate) fn partition(&self) -> TableName {
        self.partitions.first().cloned().unwrap_or_else(|| self.table.name.clone())
    }
}
