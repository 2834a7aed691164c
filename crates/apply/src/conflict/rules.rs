//! What is compared, and which methods settle what, for one table.

use change::{LogicalType, TableDefinition};
use std::collections::BTreeSet;

/// How a conflict of an update, or of an insert whose key exists, is settled for one column group.
///
/// Columns are indexes into the table's definition. A method that can't decide (equal values, NULL, a value that is not
/// listed) leaves the conflict to the next one of its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateMethod {
    /// Takes the change whose moment is later.
    LatestTimestamp(usize),
    /// Takes the change whose moment is earlier.
    EarliestTimestamp(usize),
    /// Takes the greater value.
    Maximum(usize),
    /// Takes the smaller value.
    Minimum(usize),
    /// Adds what the change added. The group has one numeric column.
    Additive(usize),
    /// Takes the mean of both. The group has one numeric column.
    Average(usize),
    /// Takes the change whose value has the higher priority.
    PriorityGroup {
        /// The column whose values have priorities.
        column: usize,
        /// All values that it can take.
        priorities: Priorities,
    },
    /// As [`PriorityGroup`](UpdateMethod::PriorityGroup), with the sites' names as values.
    SitePriority {
        /// The column that holds the site which changed the group last.
        column: usize,
        /// All sites.
        priorities: Priorities,
    },
    /// Takes the later version stamp: hybrid logical time, then site. Never undecided but for NULL.
    LatestStamp(StampColumns),
    /// Always takes the change.
    Overwrite,
    /// Always keeps the row. IGNORE of RESOLVECONFLICT.
    Discard,
    /// Keeps the row and writes the change to the discard file. DISCARD of RESOLVECONFLICT.
    DiscardRecord,
    /// Takes the change when its value is greater, else keeps the row. USEMAX and, with `or_equal`, USEMAXEQ.
    UseMaximum {
        /// The column that decides.
        column: usize,
        /// Whether equal values take the change.
        or_equal: bool,
    },
    /// Takes the change when its value is smaller, else keeps the row. USEMIN and, with `or_equal`, USEMINEQ.
    UseMinimum {
        /// The column that decides.
        column: usize,
        /// Whether equal values take the change.
        or_equal: bool,
    },
    /// Adds what the change added, for each column of the group. USEDELTA.
    UseDelta,
    /// Asks a function of the database.
    UserFunction(UserFunction),
}

/// How a violated unique constraint is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UniqueMethod {
    /// Appends the origin site's name, up to its first dot, to a character column.
    AppendSiteName(usize),
    /// Appends a number that this site draws to a character column.
    AppendSequence(usize),
    /// Drops the change.
    Discard,
    /// Asks a function of the database.
    UserFunction(UserFunction),
}

/// How it is settled that the row of an update or a delete is missing, or that the row of a delete has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingMethod {
    /// Does it anyway: an update becomes an insert; a delete removes the row although it has changed.
    Overwrite,
    /// Drops the change.
    Ignore,
    /// Drops the change and writes it to the discard file.
    DiscardRecord,
    /// Compares the change's version stamp with the row's or its tombstone's. Undecided about a row that was never seen.
    LatestStamp,
    /// A deleted row stays deleted, a changed one is deleted. Undecided about a row that was never seen.
    DeleteWins,
    /// Asks a function of the database.
    UserFunction(UserFunction),
}

/// A function in the target database that settles conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    /// Its name.
    pub name: String,
    /// Columns whose values it is given, in this order.
    pub columns: Vec<usize>,
}

/// Values with their priorities: a higher number wins. Values and numbers are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Priorities(Vec<(Vec<u8>, i64)>);

impl Priorities {
    /// Adds a value.
    ///
    /// # Errors
    /// [`DefinitionError::DuplicateValue`] or [`DefinitionError::DuplicatePriority`].
    pub fn add(&mut self, value: impl Into<Vec<u8>>, priority: i64) -> Result<(), DefinitionError> {
        let value = value.into();
        if self.0.iter().any(|(known, _)| *known == value) {
            return Err(DefinitionError::DuplicateValue);
        }
        if self.0.iter().any(|(_, known)| *known == priority) {
            return Err(DefinitionError::DuplicatePriority(priority));
        }
        self.0.push((value, priority));
        Ok(())
    }

    /// The priority of a value, if it is listed.
    pub fn of(&self, value: &[u8]) -> Option<i64> {
        self.0.iter().find(|(known, _)| known == value).map(|(_, priority)| *priority)
    }
}

/// The columns of a version stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampColumns {
    /// Hybrid logical time: the greater of the clock and the old stamp plus one.
    pub time: usize,
    /// The site that wrote the row.
    pub site: usize,
}

/// One method of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<M> {
    /// Its place: methods run in ascending order.
    pub sequence: i32,
    /// What it does.
    pub method: M,
}

/// Methods that run in ascending order of their numbers until one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain<M>(Vec<Step<M>>);

impl<M> Default for Chain<M> {
    fn default() -> Chain<M> {
        Chain(Vec::new())
    }
}

impl<M: PartialEq> Chain<M> {
    /// Adds a method.
    ///
    /// # Errors
    /// [`DefinitionError::DuplicateResolution`] when the number or the method is there already.
    pub fn add(&mut self, sequence: i32, method: M) -> Result<(), DefinitionError> {
        if self.0.iter().any(|step| step.sequence == sequence || step.method == method) {
            return Err(DefinitionError::DuplicateResolution(sequence));
        }
        let place = self.0.partition_point(|step| step.sequence < sequence);
        self.0.insert(place, Step { sequence, method });
        Ok(())
    }

    /// Removes the method with this number; whether there was one.
    pub fn remove(&mut self, sequence: i32) -> bool {
        let before = self.0.len();
        self.0.retain(|step| step.sequence != sequence);
        self.0.len() != before
    }
}

impl<M> Chain<M> {
    /// The methods in order.
    pub fn steps(&self) -> &[Step<M>] {
        &self.0
    }

    /// Whether nothing settles the conflict.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Columns that stay consistent with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnGroup {
    /// Its name.
    pub name: String,
    /// Columns; each is in one group at most.
    pub columns: BTreeSet<usize>,
    /// What settles its conflicts.
    pub chain: Chain<UpdateMethod>,
}

/// Column groups for one type of conflict. Columns that are in no group form the rest: the shadow group, or what DEFAULT
/// stands for in RESOLVECONFLICT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Groups in the order of their definition.
    pub groups: Vec<ColumnGroup>,
    /// What settles conflicts of the rest. A shadow group has no methods.
    pub rest: Chain<UpdateMethod>,
}

/// How a conflict is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// By the old values that the change brings: they must be what stands in the row.
    #[default]
    OldValues,
    /// By version stamps: the stamp that the change overwrote must be the row's. Where the change does not bring it, a row
    /// that another site wrote last counts as changed.
    Stamps(StampColumns),
}

/// What a mismatch concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The column group in which it is: groups that agree take their new values without a method.
    #[default]
    Group,
    /// The row: one mismatch sends every group to its method. COMPARECOLS.
    Row,
}

/// Everything that settles conflicts on one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictRules {
    /// How conflicts are noticed.
    pub detection: Detection,
    /// What a mismatch concerns.
    pub scope: Scope,
    /// Columns whose old values are not compared for an update, and for a delete.
    pub not_compared: [BTreeSet<usize>; 2],
    /// Update conflicts; UPDATEROWEXISTS.
    pub update: Groups,
    /// An insert whose key exists; INSERTROWEXISTS. `None` leaves it to `unique`.
    pub insert: Option<Groups>,
    /// Violated unique constraints, by name.
    pub unique: Vec<(String, Chain<UniqueMethod>)>,
    /// The row of an update is missing; UPDATEROWMISSING.
    pub update_missing: Chain<MissingMethod>,
    /// The row of a delete is missing; DELETEROWMISSING.
    pub delete_missing: Chain<MissingMethod>,
    /// The row of a delete has changed; DELETEROWEXISTS.
    pub delete_changed: Chain<MissingMethod>,
    /// A truncation, which removes rows that it does not name; TRUNCATE.
    pub truncate: Chain<MissingMethod>,
}

/// Why a column group or a method can't be defined. The numbers are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// The group exists.
    #[error("column group {0} exists already")]
    DuplicateGroup(String),
    /// There is no such group.
    #[error("there is no column group {0}")]
    MissingGroup(String),
    /// The group's methods must go first.
    #[error("column group {0} is used by a resolution method")]
    Referenced(String),
    /// A column is in one group at most.
    #[error("column {0} is in a column group already")]
    DuplicateColumn(String),
    /// The table has no such column.
    #[error("there is no column {0}")]
    MissingColumn(String),
    /// A value may be listed once.
    #[error("the value has a priority already")]
    DuplicateValue,
    /// A priority may be given once.
    #[error("priority {0} is given already")]
    DuplicatePriority(i64),
    /// The number or the method is there.
    #[error("a resolution with number {0}, or the same method, exists already")]
    DuplicateResolution(i32),
    /// There is no such method to remove.
    #[error("there is no resolution with number {0}")]
    MissingResolution(i32),
    /// The deciding column must be in the group.
    #[error("column {0} is not in the column group")]
    InvalidParameter(String),
    /// The method can't work with this type.
    #[error("the method can't work with the type of column {0}")]
    ParameterType(String),
    /// ADDITIVE and AVERAGE.
    #[error("the method needs a column group of one column")]
    OnlyOneColumn,
    /// A key column is always compared and sent.
    #[error("column {0} is part of the key")]
    KeyColumn(String),
}

impl DefinitionError {
    /// The number by which the reference knows it.
    pub fn number(&self) -> i32 {
        match self {
            DefinitionError::DuplicateGroup(_) => -23330,
            DefinitionError::MissingGroup(_) => -23331,
            DefinitionError::Referenced(_) => -23332,
            DefinitionError::DuplicateColumn(_) => -23333,
            DefinitionError::MissingColumn(_) => -23334,
            DefinitionError::DuplicatePriority(_) => -23335,
            DefinitionError::DuplicateValue => -23338,
            DefinitionError::DuplicateResolution(_) => -23339,
            DefinitionError::InvalidParameter(_) => -23342,
            DefinitionError::MissingResolution(_) => -23343,
            DefinitionError::ParameterType(_) => -23325,
            DefinitionError::OnlyOneColumn => -23485,
            DefinitionError::KeyColumn(_) => -23475,
        }
    }
}

impl Default for ConflictRules {
    fn default() -> ConflictRules {
        ConflictRules {
            detection: Detection::OldValues,
            scope: Scope::Group,
            not_compared: Default::default(),
            update: Groups::default(),
            insert: None,
            unique: Vec::new(),
            update_missing: Chain::default(),
            delete_missing: Chain::default(),
            delete_changed: Chain::default(),
            truncate: Chain::default(),
        }
    }
}

impl ConflictRules {
    /// Whether a method may give this column a value that neither the change nor the row has.
    pub fn makes_values_of(&self, column: usize) -> bool {
        let makes = |step: &Step<UpdateMethod>, is_in: bool| match &step.method {
            UpdateMethod::Additive(of) | UpdateMethod::Average(of) => *of == column,
            UpdateMethod::UseDelta => is_in,
            UpdateMethod::UserFunction(function) => function.columns.contains(&column),
            _ => false,
        };
        let groups = [Some(&self.update), self.insert.as_ref()];
        groups.into_iter().flatten().any(|groups| {
            let is_named = groups.groups.iter().any(|group| group.columns.contains(&column));
            groups.rest.steps().iter().any(|step| makes(step, !is_named))
                || groups.groups.iter().any(|group| {
                    let is_in = group.columns.contains(&column);
                    group.chain.steps().iter().any(|step| makes(step, is_in))
                })
        }) || self.unique.iter().any(|(_, chain)| {
            chain.steps().iter().any(|step| match &step.method {
                UniqueMethod::AppendSiteName(of) | UniqueMethod::AppendSequence(of) => *of == column,
                UniqueMethod::UserFunction(function) => function.columns.contains(&column),
                UniqueMethod::Discard => false,
            })
        })
    }

    /// Defines a column group with these columns; `*` stands for all columns outside the key that are in no group.
    ///
    /// # Errors
    /// [`DefinitionError`]; nothing has changed then.
    pub fn make_column_group(
        &mut self,
        table: &TableDefinition,
        name: &str,
        columns: &[&str],
    ) -> Result<(), DefinitionError> {
        let groups = &mut self.update.groups;
        if groups.iter().any(|group| group.name == name) {
            return Err(DefinitionError::DuplicateGroup(name.to_owned()));
        }
        let mut chosen = BTreeSet::new();
        for column in columns {
            if *column == "*" {
                let is_free = |place: &usize| groups.iter().all(|group| !group.columns.contains(place));
                let outside_key = |place: &usize| table.columns[*place].key.is_none();
                chosen.extend((0..table.columns.len()).filter(is_free).filter(outside_key));
                continue;
            }
            let place = table.column(column).ok_or_else(|| DefinitionError::MissingColumn((*column).to_owned()))?;
            if groups.iter().any(|group| group.columns.contains(&place)) || !chosen.insert(place) {
                return Err(DefinitionError::DuplicateColumn((*column).to_owned()));
            }
        }
        groups.push(ColumnGroup { name: name.to_owned(), columns: chosen, chain: Chain::default() });
        Ok(())
    }

    /// Turns the shadow group into a real one, so that methods can be given to it.
    ///
    /// # Errors
    /// [`DefinitionError::DuplicateGroup`].
    pub fn rename_shadow_column_group(&mut self, table: &TableDefinition, name: &str) -> Result<(), DefinitionError> {
        self.make_column_group(table, name, &["*"])
    }

    /// Drops a column group; its columns return to the shadow group.
    ///
    /// # Errors
    /// [`DefinitionError::Referenced`] while a method uses it.
    pub fn drop_column_group(&mut self, name: &str) -> Result<(), DefinitionError> {
        let group = self.group(name)?;
        if !group.chain.is_empty() {
            return Err(DefinitionError::Referenced(name.to_owned()));
        }
        self.update.groups.retain(|group| group.name != name);
        Ok(())
    }

    /// Gives a column group a method.
    ///
    /// # Errors
    /// [`DefinitionError`] when the group is missing, the number or the method is there, or the method does not fit the
    /// group or the types of its columns.
    pub fn add_update_resolution(
        &mut self,
        table: &TableDefinition,
        group: &str,
        sequence: i32,
        method: UpdateMethod,
    ) -> Result<(), DefinitionError> {
        let group = self.group(group)?;
        check(table, group, &method)?;
        group.chain.add(sequence, method)
    }

    /// Gives a unique constraint a method.
    ///
    /// # Errors
    /// [`DefinitionError`] when the number or the method is there, or the column can't be appended to.
    pub fn add_unique_resolution(
        &mut self,
        table: &TableDefinition,
        constraint: &str,
        sequence: i32,
        method: UniqueMethod,
    ) -> Result<(), DefinitionError> {
        if let UniqueMethod::AppendSiteName(column) | UniqueMethod::AppendSequence(column) = &method
            && !matches!(table.columns[*column].logical, LogicalType::Text | LogicalType::Dynamic)
        {
            return Err(DefinitionError::ParameterType(table.columns[*column].name.clone()));
        }
        if let Some((_, chain)) = self.unique.iter_mut().find(|(name, _)| name == constraint) {
            return chain.add(sequence, method);
        }
        let mut chain = Chain::default();
        chain.add(sequence, method)?;
        self.unique.push((constraint.to_owned(), chain));
        Ok(())
    }

    /// Gives the table a method for rows that an update or a delete does not find as it left them. The reference knows user
    /// functions only.
    ///
    /// # Errors
    /// [`DefinitionError::DuplicateResolution`].
    pub fn add_delete_resolution(&mut self, sequence: i32, method: MissingMethod) -> Result<(), DefinitionError> {
        self.update_missing.add(sequence, method.clone())?;
        self.delete_missing.add(sequence, method.clone())?;
        self.delete_changed.add(sequence, method)
    }

    /// Whether the old values of a column are compared for updates and for deletes; `None` leaves it as it is.
    ///
    /// # Errors
    /// [`DefinitionError::KeyColumn`], [`DefinitionError::MissingColumn`].
    pub fn compare_old_values(
        &mut self,
        table: &TableDefinition,
        column: &str,
        update: Option<bool>,
        delete: Option<bool>,
    ) -> Result<(), DefinitionError> {
        let place = table.column(column).ok_or_else(|| DefinitionError::MissingColumn(column.to_owned()))?;
        if table.columns[place].key.is_some() {
            return Err(DefinitionError::KeyColumn(column.to_owned()));
        }
        for (columns, compare) in self.not_compared.iter_mut().zip([update, delete]) {
            match compare {
                Some(true) => _ = columns.remove(&place),
                Some(false) => _ = columns.insert(place),
                None => {}
            }
        }
        Ok(())
    }

    fn group(&mut self, name: &str) -> Result<&mut ColumnGroup, DefinitionError> {
        let group = self.update.groups.iter_mut().find(|group| group.name == name);
        group.ok_or_else(|| DefinitionError::MissingGroup(name.to_owned()))
    }
}

/// Refuses a method that does not fit the group or its types.
fn check(table: &TableDefinition, group: &ColumnGroup, method: &UpdateMethod) -> Result<(), DefinitionError> {
    use LogicalType::{Boolean, Date, Decimal, Dynamic, Float, Integer, Text, Time, Timestamp, TimestampWithZone};
    const MOMENTS: &[LogicalType] = &[Date, Timestamp, TimestampWithZone, Dynamic];
    const NUMBERS: &[LogicalType] = &[Integer, Decimal, Float, Dynamic];
    const ORDERED: &[LogicalType] =
        &[Integer, Decimal, Float, Dynamic, Date, Time, Timestamp, TimestampWithZone, Text, Boolean];
    const NUMBERS_AND_MOMENTS: &[LogicalType] = &[Integer, Decimal, Float, Dynamic, Date, Timestamp, TimestampWithZone];
    let fits = |column: &usize, types: &[LogicalType]| {
        let definition = &table.columns[*column];
        if !group.columns.contains(column) {
            Err(DefinitionError::InvalidParameter(definition.name.clone()))
        } else if types.contains(&definition.logical) {
            Ok(())
        } else {
            Err(DefinitionError::ParameterType(definition.name.clone()))
        }
    };
    match method {
        UpdateMethod::LatestTimestamp(column) | UpdateMethod::EarliestTimestamp(column) => fits(column, MOMENTS),
        UpdateMethod::Maximum(column) | UpdateMethod::Minimum(column) => fits(column, ORDERED),
        UpdateMethod::UseMaximum { column, .. } | UpdateMethod::UseMinimum { column, .. } => {
            fits(column, NUMBERS_AND_MOMENTS)
        }
        UpdateMethod::Additive(column) | UpdateMethod::Average(column) => {
            if group.columns.len() != 1 {
                return Err(DefinitionError::OnlyOneColumn);
            }
            fits(column, NUMBERS)
        }
        UpdateMethod::PriorityGroup { column, .. } | UpdateMethod::SitePriority { column, .. } => {
            fits(column, &[table.columns[*column].logical])
        }
        UpdateMethod::LatestStamp(StampColumns { time, site }) => {
            fits(time, NUMBERS_AND_MOMENTS).and_then(|()| fits(site, ORDERED))
        }
        UpdateMethod::UseDelta => group.columns.iter().try_for_each(|column| fits(column, NUMBERS)),
        UpdateMethod::UserFunction(function) => {
            function.columns.iter().try_for_each(|column| fits(column, &[table.columns[*column].logical]))
        }
        UpdateMethod::Overwrite | UpdateMethod::Discard | UpdateMethod::DiscardRecord => Ok(()),
    }
}
