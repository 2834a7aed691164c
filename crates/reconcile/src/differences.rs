//! DIFFERENCES: which rows only one of two sites has, row by row.
//!
//! A row that both have with other values counts as two: one that the comparison site lacks, and one that the reference site lacks.
//! What is found goes into two tables of the user's ([`database::missing_rows`]), to be looked at, and then to be given to
//! [`rectify`](crate::rectify()).

use crate::compare::compare_pair;
use crate::missing_tables::{Shape, SharedTable};
use crate::{Error, RowVerdict, Side};
use change::Row;
use database::compare::LiteralWriter;
use database::{Session, compare::ComparisonSide};
use std::collections::{BTreeMap, HashSet};

/// What is held against each other, and which tables take what is found; names as in parameter files.
#[derive(Clone, Debug)]
pub struct SharedTableRequest {
    /// The table at the reference site.
    pub reference_table: String,
    /// The table at the comparison site, when it is called otherwise there.
    pub comparison_table: Option<String>,
    /// Columns of the reference table, those of its key among them; none for all that both sites have.
    pub columns: Vec<String>,
    /// The table of missing rows.
    pub missing_rows: String,
    /// The table that says where they are.
    pub missing_location: String,
}

/// How DIFFERENCES works.
#[derive(Clone, Debug)]
pub struct DifferencesOptions {
    /// A condition in the SQL of both products: other rows are not looked at.
    pub filter: Option<String>,
    /// Rows that are written at most.
    pub rows_max: usize,
    /// Rows that are written in one transaction.
    pub commit_rows: usize,
}

/// What DIFFERENCES has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundDifferences {
    /// Rows at the reference site.
    pub reference_rows: u64,
    /// Rows at the comparison site.
    pub comparison_rows: u64,
    /// Rows that are at the reference site only, rows with other values included.
    pub only_reference: u64,
    /// Rows that are at the comparison site only, rows with other values included.
    pub only_comparison: u64,
    /// Rows that were written.
    pub written: u64,
}

/// The sites, each as it stands when its side was opened.
pub struct DifferencesSites {
    /// The one that is right.
    pub reference: Box<dyn ComparisonSide>,
    /// The other one.
    pub comparison: Box<dyn ComparisonSide>,
    /// The one that holds the tables of missing rows.
    pub missing: Box<dyn ComparisonSide>,
}

/// Finds the rows that only one of two sites has, and writes them into the two tables, with the session that `open_session` opens
/// at their site.
///
/// # Errors
/// [`Error::Refused`] when tables or columns do not fit, or the two tables are not empty; [`Error::Database`].
pub fn differences(
    sites: DifferencesSites,
    open_session: &dyn Fn() -> Result<Box<dyn Session>, database::Error>,
    request: &SharedTableRequest,
    options: &DifferencesOptions,
) -> Result<FoundDifferences, Error> {
    let DifferencesSites { mut reference, mut comparison, mut missing } = sites;
    let shared = SharedTable::find(&mut *reference, &mut *comparison, &mut *missing, request)?;
    shared.check_empty(&mut *missing)?;
    let writer: LiteralWriter = missing.literal_writer().ok_or_else(|| {
        Error::refused(format!("{} can't take missing rows", missing.name()), "choose the site of another product")
    })?;
    let names = [reference.name(), comparison.name()];
    let mut reference = shared.translated(reference, options.filter.clone())?;
    let mut comparison = shared.translated(comparison, options.filter.clone())?;
    let (counted, named) = compare_pair(&mut reference, &mut comparison, &shared.pair, options.rows_max)?;
    let wanted = |left_out: RowVerdict| -> HashSet<Vec<u8>> {
        let wanted = named.iter().filter(|(verdict, _)| *verdict != left_out);
        wanted.map(|(_, identity)| identity.clone()).collect()
    };
    let failed = |side| move |cause| Error::Database { side, cause };
    let picked = [
        reference.pick(&shared.pair.source, &wanted(RowVerdict::ExtraAtTarget)).map_err(failed(Side::Source))?,
        comparison.pick(&shared.pair.target, &wanted(RowVerdict::MissingAtTarget)).map_err(failed(Side::Target))?,
    ];
    let statements = statements(&shared, &*missing, writer, &names, &picked, options.rows_max)?;
    // Readers must not stand in the way of the writer, whose database may be theirs.
    drop((reference, comparison, missing));
    let mut found = FoundDifferences {
        reference_rows: counted.source_rows.unwrap_or_default(),
        comparison_rows: counted.target_rows.unwrap_or_default(),
        only_reference: counted.missing + counted.different,
        only_comparison: counted.extra + counted.different,
        written: 0,
    };
    if statements.is_empty() {
        return Ok(found);
    }
    let mut session = open_session().map_err(Error::of_missing)?;
    for some in statements.chunks(options.commit_rows.max(1)) {
        let written = write(&mut *session, some);
        if let Err(cause) = written {
            // The first error is the one to tell.
            let _ = session.rollback();
            return Err(Error::of_missing(cause));
        }
        found.written += some.len() as u64;
    }
    Ok(found)
}

/// The rows of both sides as statements, those of one row of both sides next to each other.
fn statements(
    shared: &SharedTable,
    missing: &dyn ComparisonSide,
    writer: LiteralWriter,
    names: &[String; 2],
    picked: &[BTreeMap<Vec<u8>, Row>; 2],
    rows_max: usize,
) -> Result<Vec<String>, Error> {
    let mut rows: Vec<(&Vec<u8>, usize, &Row)> = Vec::new();
    for (side, picked) in picked.iter().enumerate() {
        rows.extend(picked.iter().map(|(identity, row)| (identity, side, row)));
    }
    rows.sort_unstable_by_key(|(identity, side, _)| (*identity, *side));
    rows.truncate(rows_max);
    let statement = |(_, side, row): (&Vec<u8>, usize, &Row)| {
        let shape: &Shape = if side == 0 { &shared.reference } else { &shared.comparison };
        let literals: Option<Vec<String>> =
            row.values().zip(&shape.columns).map(|(value, column)| writer(column.logical, value)).collect();
        let statement =
            literals.and_then(|row| missing.missing_row(&shared.missing, &row, &names[side], &names[1 - side]));
        statement.ok_or_else(|| {
            let what = format!("a row of {} can't be kept by {}", shape.name, shared.missing.rows.name);
            Error::refused(what, "choose a site for the missing rows that can keep all values of both")
        })
    };
    rows.into_iter().map(statement).collect()
}

fn write(session: &mut dyn Session, statements: &[String]) -> Result<(), database::Error> {
    session.begin()?;
    session.mend(statements)?;
    session.commit().map_err(|error| match error {
        database::ApplyError::Failed(error) => error,
        database::ApplyError::Rejected(rejection) => database::Error::new(
            database::ErrorClass::Permanent,
            format!("the missing rows were refused: {}", rejection.detail),
        ),
    })
}
