//! RECTIFY: makes the rows of the comparison site those of the reference site, as the tables that DIFFERENCES filled say.
//!
//! Both sites may be at work. What the two tables say is looked at again before anything is written: a row that is not as it was
//! then, at either site, was on its way or has been changed, and is left alone. A run that was broken off is simply repeated.

use crate::differences::SharedTableRequest;
use crate::missing_tables::{Shape, SharedTable};
use crate::translated::Reading;
use crate::{Error, Side};
use change::{Operation, Row, TableDefinition};
use database::compare::{ComparedTable, ComparisonSide};
use database::{ApplyError, ColumnPair, OnDuplicate, Session, TablePlan, Write};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Opens a site as it stands now.
pub type OpenSide<'a> = &'a dyn Fn() -> Result<Box<dyn ComparisonSide>, database::Error>;

/// How the sites are reached.
pub struct RectifySites<'a> {
    /// The one that is right.
    pub reference: OpenSide<'a>,
    /// The one that is made equal to it.
    pub comparison: OpenSide<'a>,
    /// The one that holds the tables of missing rows.
    pub missing: OpenSide<'a>,
    /// A session at the comparison site, whose writes are marked.
    pub session: &'a dyn Fn() -> Result<Box<dyn Session>, database::Error>,
}

/// What RECTIFY has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rectified {
    /// Rows that were deleted.
    pub deleted: u64,
    /// Rows that were changed.
    pub updated: u64,
    /// Rows that were inserted.
    pub inserted: u64,
    /// Rows that were equal by now.
    pub equal: u64,
    /// Rows that are not as they were, and were left alone.
    pub changed: u64,
    /// Rows that the site refused.
    pub refused: u64,
    /// Why it refused the first of them.
    pub refusal: Option<String>,
    /// Rows of those above that still differ.
    pub differing: u64,
}

/// What both sites said of a row, each in the common form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    reference: Option<Vec<u8>>,
    comparison: Option<Vec<u8>>,
}

/// What is done to a row at the comparison site, in the order in which it is done: unique values get free before they are taken.
enum Work {
    Delete { row: Row, said: Vec<u8> },
    Update { row: Row, said: Vec<u8> },
    Insert { row: Row },
}

/// Mends the comparison site; `wait` lasts as long as changes may be on their way.
///
/// # Errors
/// [`Error::Refused`] when tables or columns do not fit, or the rows are of other sites; [`Error::Database`]. What was committed
/// until then stays.
pub fn rectify(
    sites: &RectifySites<'_>,
    request: &SharedTableRequest,
    commit_rows: usize,
    wait: &mut dyn FnMut(),
) -> Result<Rectified, Error> {
    let mut reference = (sites.reference)().map_err(failed(Side::Source))?;
    let mut comparison = (sites.comparison)().map_err(failed(Side::Target))?;
    let mut missing = (sites.missing)().map_err(Error::of_missing)?;
    let shared = SharedTable::find(&mut *reference, &mut *comparison, &mut *missing, request)?;
    let names = [reference.name(), comparison.name()];
    let mut session = (sites.session)().map_err(failed(Side::Target))?;
    let target = session.table(&shared.comparison.name).map_err(failed(Side::Target))?;
    let target = target.ok_or_else(|| {
        Error::refused(format!("there is no table {} at {}", shared.comparison.name, names[1]), "create it")
    })?;
    let plans = Plans::new(&shared, &target)?;
    let told = told(&shared, &mut *missing, &names, &plans.written)?;
    drop((reference, comparison, missing));
    let mut rectified = Rectified::default();
    if told.is_empty() {
        return Ok(rectified);
    }
    wait();
    let work = examine(sites, &shared, &plans.written, &told, &mut rectified)?;
    let identities: HashSet<Vec<u8>> = told.into_keys().collect();
    for some in work.chunks(commit_rows.max(1)) {
        let done = mend(&mut *session, &shared, &plans, some, &mut rectified);
        if let Err(cause) = done {
            // The first error is the one to tell.
            let _ = session.rollback();
            return Err(Error::Database { side: Side::Target, cause });
        }
    }
    drop(session);
    let now = look(sites, &shared, &identities, &plans.written)?;
    rectified.differing = now.values().filter(|(said, ..)| said.reference != said.comparison).count() as u64;
    Ok(rectified)
}

fn failed(side: Side) -> impl Fn(database::Error) -> Error {
    move |cause| Error::Database { side, cause }
}

/// How rows are found and written at the comparison site.
struct Plans {
    /// From the reference's shape.
    reference: Arc<TablePlan>,
    /// From its own shape.
    comparison: Arc<TablePlan>,
    /// Compared columns that are written: those that the site does not compute.
    written: Vec<usize>,
}

impl Plans {
    fn new(shared: &SharedTable, target: &TableDefinition) -> Result<Plans, Error> {
        let place = |index: usize| -> Result<usize, Error> {
            let name = &shared.comparison.columns[index].name;
            target.column(name).ok_or_else(|| {
                Error::refused(format!("table {} has no column {name}", target.name), "run DIFFERENCES again")
            })
        };
        let places = (0..shared.comparison.columns.len()).map(place).collect::<Result<Vec<usize>, Error>>()?;
        let pair = |index: usize| ColumnPair { source: index, target: places[index] };
        let is_written = |index: &usize| !target.columns[places[*index]].generation.is_computed();
        let written: Vec<usize> = (0..places.len()).filter(is_written).collect();
        let plan = |shape: &Shape| {
            let source = TableDefinition { name: shape.name.clone(), columns: shape.columns.clone().into() };
            let mut columns: Vec<ColumnPair> = written.iter().map(|index| pair(*index)).collect();
            columns.sort_unstable_by_key(|pair| pair.target);
            let key = shared.pair.source.identity().into_iter().map(pair).collect();
            let target = target.clone();
            Arc::new(TablePlan { source: Arc::new(source), target, columns, key, on_duplicate: OnDuplicate::Refuse })
        };
        Ok(Plans { reference: plan(&shared.reference), comparison: plan(&shared.comparison), written })
    }
}

/// What the two tables say, by row.
fn told(
    shared: &SharedTable,
    missing: &mut dyn ComparisonSide,
    names: &[String; 2],
    written: &[usize],
) -> Result<BTreeMap<Vec<u8>, Said>, Error> {
    let reading = Reading::of(&shared.missing.rows, &shared.missing_columns);
    let mut told: BTreeMap<Vec<u8>, Said> = BTreeMap::new();
    let mut wrong = None;
    let read = missing.missing_rows(&shared.missing, &mut |found| {
        let is_reference = found.present == names[0] && found.absent == names[1];
        let is_comparison = found.present == names[1] && found.absent == names[0];
        let Some(row) = found.row.filter(|_| is_reference || is_comparison) else {
            let what = match is_reference || is_comparison {
                true => format!("row {} is not in {}", found.number, shared.missing.rows.name),
                false => format!("a row is present at {:?} and absent at {:?}", found.present, found.absent),
            };
            wrong.get_or_insert(what);
            return ControlFlow::Break(());
        };
        let said = told.entry(reading.identity(&row)).or_default();
        let place = if is_reference { &mut said.reference } else { &mut said.comparison };
        *place = Some(reading.says(&row, written));
        ControlFlow::Continue(())
    });
    read.map_err(Error::of_missing)?;
    match wrong {
        None => Ok(told),
        Some(what) => Err(Error::refused(
            format!("{} does not speak of {} and {}: {what}", shared.missing.location, names[0], names[1]),
            "give the urls as they were given to DIFFERENCES, or run it again",
        )),
    }
}

/// What both sites say now of some rows, and the rows themselves.
type Now = BTreeMap<Vec<u8>, (Said, Option<Row>, Option<Row>)>;

fn look(
    sites: &RectifySites<'_>,
    shared: &SharedTable,
    identities: &HashSet<Vec<u8>>,
    written: &[usize],
) -> Result<Now, Error> {
    let mut now = Now::new();
    let mut side = |open: OpenSide<'_>, side: Side, table: &ComparedTable, shape: &Shape| -> Result<(), Error> {
        let opened = open().map_err(failed(side))?;
        let rows = shared.translated(opened, None)?.pick(table, identities).map_err(failed(side))?;
        let reading = Reading::of(table, &shape.columns);
        for (identity, row) in rows {
            let entry = now.entry(identity).or_default();
            let said = Some(reading.says(&row, written));
            match side {
                Side::Source => (entry.0.reference, entry.1) = (said, Some(row)),
                _ => (entry.0.comparison, entry.2) = (said, Some(row)),
            }
        }
        Ok(())
    };
    side(sites.reference, Side::Source, &shared.pair.source, &shared.reference)?;
    side(sites.comparison, Side::Target, &shared.pair.target, &shared.comparison)?;
    Ok(now)
}

/// Looks at the rows again, and keeps those that are as they were.
fn examine(
    sites: &RectifySites<'_>,
    shared: &SharedTable,
    written: &[usize],
    told: &BTreeMap<Vec<u8>, Said>,
    rectified: &mut Rectified,
) -> Result<Vec<Work>, Error> {
    let mut now = look(sites, shared, &told.keys().cloned().collect(), written)?;
    let (mut deletes, mut updates, mut inserts) = (Vec::new(), Vec::new(), Vec::new());
    for (identity, said) in told {
        let (says, reference, comparison) = now.remove(identity).unwrap_or_default();
        if says.reference == says.comparison {
            rectified.equal += 1;
        } else if says != *said && !change::sabotage::is_on("rectify-what-has-changed") {
            rectified.changed += 1;
        } else {
            match (reference, comparison, says.comparison) {
                (None, Some(row), Some(said)) => deletes.push(Work::Delete { row, said }),
                (Some(row), Some(_), Some(said)) => updates.push(Work::Update { row, said }),
                (Some(row), ..) => inserts.push(Work::Insert { row }),
                (None, ..) => rectified.equal += 1,
            }
        }
    }
    Ok(deletes.into_iter().chain(updates).chain(inserts).collect())
}

/// One transaction. Each row is locked, and looked at once more.
fn mend(
    session: &mut dyn Session,
    shared: &SharedTable,
    plans: &Plans,
    work: &[Work],
    rectified: &mut Rectified,
) -> Result<(), database::Error> {
    let own = Reading::of(&shared.pair.target, &shared.comparison.columns);
    let theirs = Reading::of(&shared.pair.source, &shared.reference.columns);
    let (mut deleted, mut updated, mut inserted) = (0, 0, 0);
    session.begin()?;
    for each in work {
        let (plan, row, reading, said) = match each {
            Work::Delete { row, said } => (&plans.comparison, row, &own, Some(said)),
            Work::Update { row, said } => (&plans.reference, row, &theirs, Some(said)),
            Work::Insert { row } => (&plans.reference, row, &theirs, None),
        };
        let found = session.find(plan, row)?;
        let says = found.as_ref().map(|found| reading.says(found, &plans.written));
        if says.as_ref() != said {
            rectified.changed += 1;
            continue;
        }
        let (operation, count) = match each {
            Work::Delete { row, .. } => (Operation::Delete { old: row.clone() }, &mut deleted),
            Work::Update { row, .. } => (Operation::Update { old: found, new: row.clone() }, &mut updated),
            Work::Insert { row } => (Operation::Insert { new: row.clone() }, &mut inserted),
        };
        match session.attempt(&Write { plan, operation: &operation }) {
            Ok(()) => *count += 1,
            Err(ApplyError::Rejected(rejection)) => {
                rectified.refused += 1;
                rectified.refusal.get_or_insert(format!("{}: {}", rejection.outcome, rejection.detail));
            }
            Err(ApplyError::Failed(error)) => return Err(error),
        }
    }
    session.commit().map_err(|error| match error {
        ApplyError::Failed(error) => error,
        ApplyError::Rejected(rejection) => database::Error::new(
            database::ErrorClass::Permanent,
            format!("the rows were refused at the end of their transaction: {}", rejection.detail),
        ),
    })?;
    rectified.deleted += deleted;
    rectified.updated += updated;
    rectified.inserted += inserted;
    Ok(())
}
