//! One table at two sites, and the two tables that keep which rows only one of them has.

use crate::differences::SharedTableRequest;
use crate::pairing::{TablePair, pair_columns};
use crate::selection::{Names, Selection, SelectionRequest};
use crate::translated::Translated;
use crate::{Error, Side};
use change::{Column, TableDefinition, TableName};
use database::compare::{ComparedTable, ComparisonSide, ValueForm};
use database::missing_rows::{LOCATION_COLUMNS, MissingTables};
use std::ops::ControlFlow;

/// A table as one site has it, with the columns that are compared.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) name: TableName,
    pub(crate) columns: Vec<Column>,
}

/// What the sites have in common.
#[derive(Debug)]
pub(crate) struct SharedTable {
    /// The reference's table and the comparison's.
    pub(crate) pair: TablePair,
    pub(crate) reference: Shape,
    pub(crate) comparison: Shape,
    pub(crate) missing: MissingTables,
    /// The compared columns of the table of missing rows.
    pub(crate) missing_columns: Vec<Column>,
}

impl SharedTable {
    /// Finds the tables and makes sure that they have one shape.
    pub(crate) fn find(
        reference: &mut dyn ComparisonSide,
        comparison: &mut dyn ComparisonSide,
        missing: &mut dyn ComparisonSide,
        request: &SharedTableRequest,
    ) -> Result<SharedTable, Error> {
        let (here, there) = (names(reference), names(comparison));
        let source = table(reference, Side::Source, &request.reference_table)?;
        let target = match &request.comparison_table {
            Some(name) => table(comparison, Side::Target, name)?,
            // What one product keeps in its default schema, another one keeps in its own.
            None if source.name.schema == here.default_schema => {
                let name = TableName::new(there.default_schema.clone(), source.name.table.clone());
                table(comparison, Side::Target, &name.to_string())?
            }
            None => table(comparison, Side::Target, &source.name.to_string())?,
        };
        let mut pair = pair_columns(&source, &target, here.case, there.case);
        if !request.columns.is_empty() {
            choose(&mut pair, &source, &request.columns)?;
        } else if let Some(column) = pair.columns_missing.first().or(pair.columns_extra.first()) {
            let what = format!("tables {} and {} have other columns, such as {column}", source.name, target.name);
            return Err(Error::refused(what, "name the columns that are to be compared with --columns"));
        }
        if pair.source.key.is_none() {
            let what = format!("neither {} nor {} has a key among the compared columns", source.name, target.name);
            return Err(Error::refused(what, "give one of them a key, and name its columns with the others"));
        }
        let kept = table(missing, Side::Missing, &request.missing_rows)?;
        let location = table(missing, Side::Missing, &request.missing_location)?;
        let reference = shape(&source, &pair.source.columns)?;
        let comparison = shape(&target, &pair.target.columns)?;
        let missing_columns = shape(&kept, &pair.source.columns)?.columns;
        let columns = reference.columns.iter().zip(&comparison.columns).zip(&missing_columns);
        let forms: Vec<ValueForm> = columns.map(|((one, other), kept)| ValueForm::of(&[one, other, kept])).collect();
        (pair.source.forms, pair.target.forms) = (forms.clone(), forms.clone());
        let rows = ComparedTable {
            name: kept.name.clone(),
            columns: missing_columns.iter().map(|column| column.name.clone()).collect(),
            key: pair.source.key.clone(),
            forms,
        };
        let found = shape(&location, &LOCATION_COLUMNS.map(str::to_owned))?.columns;
        let location_columns = <[Column; 3]>::try_from(found)
            .map_err(|_| Error::refused(format!("{} is no table of locations", location.name), "name another one"))?;
        let missing = MissingTables { rows, location: location.name, location_columns };
        Ok(SharedTable { pair, reference, comparison, missing, missing_columns })
    }

    /// Makes sure that what is found would not mix with what was found before.
    pub(crate) fn check_empty(&self, missing: &mut dyn ComparisonSide) -> Result<(), Error> {
        let mut location = self.missing.rows.clone();
        location.name = self.missing.location.clone();
        location.columns = self.missing.location_columns.iter().map(|column| column.name.clone()).collect();
        for table in [&self.missing.rows, &location] {
            let mut is_empty = true;
            let read = missing.scan(table, None, &mut |_| {
                is_empty = false;
                ControlFlow::Break(())
            });
            read.map_err(Error::of_missing)?;
            if !is_empty {
                let what = format!("table {} at {} is not empty", table.name, missing.name());
                return Err(Error::refused(what, "delete what an earlier run has left there, or name other tables"));
            }
        }
        Ok(())
    }

    /// A site, compared by values; only rows that meet `filter` are seen.
    pub(crate) fn translated(
        &self,
        side: Box<dyn ComparisonSide>,
        filter: Option<String>,
    ) -> Result<Translated, Error> {
        let writer = side.literal_writer().ok_or_else(|| {
            Error::refused(format!("the values of {} can't be told", side.name()), "choose a site of another product")
        })?;
        Ok(Translated::new(side, writer, filter))
    }
}

fn names(side: &dyn ComparisonSide) -> Names {
    Names { case: side.case_rule(), default_schema: side.default_schema() }
}

/// The one table of this name.
fn table(database: &mut dyn ComparisonSide, side: Side, name: &str) -> Result<TableDefinition, Error> {
    let names = names(database);
    let request = SelectionRequest { tables: vec![name.to_owned()], ..SelectionRequest::default() };
    let plan = Selection::parse(&request)?.plan(&names, &names);
    let definitions = database.tables().map_err(|cause| Error::Database { side, cause })?;
    let mut found = definitions.into_iter().filter(|definition| plan.selects(&definition.name));
    match (found.next(), found.next()) {
        (Some(table), None) => Ok(table),
        (None, _) => Err(Error::refused(
            format!("there is no table {name} at {}", database.name()),
            "check the spelling; a name without a schema belongs to the default schema",
        )),
        (Some(_), Some(_)) => {
            Err(Error::refused(format!("{name} is more than one table at {}", database.name()), "name one table"))
        }
    }
}

/// Leaves the named columns, in their order.
fn choose(pair: &mut TablePair, source: &TableDefinition, columns: &[String]) -> Result<(), Error> {
    let mut chosen = Vec::new();
    for name in columns {
        let exact = pair.source.columns.iter().position(|column| column == name);
        let place = exact.or_else(|| pair.source.columns.iter().position(|column| column.eq_ignore_ascii_case(name)));
        match place {
            Some(place) if !chosen.contains(&place) => chosen.push(place),
            Some(_) => return Err(Error::refused(format!("column {name} is named twice"), "name it once")),
            None => {
                let what = format!("there is no column {name} in table {} at both sites", source.name);
                return Err(Error::refused(what, "check the spelling"));
            }
        }
    }
    let key = pair.source.key.clone().unwrap_or_default();
    let missing = key.iter().find(|place| !chosen.contains(place));
    if let Some(place) = missing {
        let what = format!("column {} of the key of {} is not compared", pair.source.columns[*place], source.name);
        return Err(Error::refused(what, "name all columns of the key"));
    }
    let key: Vec<usize> = key.iter().filter_map(|place| chosen.iter().position(|other| other == place)).collect();
    for side in [&mut pair.source, &mut pair.target] {
        side.columns = chosen.iter().map(|place| side.columns[*place].clone()).collect();
        side.key = (!key.is_empty()).then(|| key.clone());
    }
    Ok(())
}

/// The table with these columns only.
fn shape(definition: &TableDefinition, columns: &[String]) -> Result<Shape, Error> {
    let find = |name: &String| {
        let exact = definition.columns.iter().find(|column| column.name == *name);
        let column = exact.or_else(|| definition.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)));
        column.cloned().ok_or_else(|| {
            let what = format!("table {} has no column {name}", definition.name);
            Error::refused(what, "give it the columns that are compared, or name another table")
        })
    };
    Ok(Shape { name: definition.name.clone(), columns: columns.iter().map(find).collect::<Result<_, _>>()? })
}
