//! One side of a comparison.
//!
//! SQLite runs inside our process, so "in the database" means in functions that its queries call: rows never leave it, and
//! where rows must be put in order, SQLite's own sorter does it and spills to disk.

use crate::catalog::{self, Kind, SCHEMA};
use crate::connect::{COMMAND_PATIENCE, connect};
use crate::engine;
use crate::error::failed;
use crate::name::quoted;
use crate::value;
use change::{CaseRule, LogicalType, Row, RowBuilder, TableDefinition, TableName};
use database::compare::{
    BucketSummary, BucketSums, ComparedTable, ComparisonSide, LeftOut, LiteralRow, LiteralWriter, Mending, RowDigest,
    RowHasher, RowMark, TakeMark, TakeRow, bucket_of,
};
use database::missing_rows::{MissingRow, MissingTables};
use database::{Error, ErrorClass};
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Most arguments that a function takes in every build of SQLite; more columns are passed in groups of this many.
const ARGUMENTS_MAX: usize = 100;

/// Opens one side of a comparison over the database that `url` (`sqlite:PATH`) names, in a read transaction.
///
/// # Errors
/// As [`open`](crate::open).
pub fn open_comparison(url: &str) -> Result<Box<dyn ComparisonSide>, Error> {
    engine::open(url)?;
    let path = PathBuf::from(url.strip_prefix("sqlite:").unwrap_or(url));
    let connection = connect(&path, COMMAND_PATIENCE)?;
    let begin = || -> rusqlite::Result<()> {
        add_functions(&connection)?;
        // The first read fixes the moment.
        connection.execute_batch("PRAGMA query_only = ON; BEGIN; SELECT count(*) FROM sqlite_schema;")
    };
    begin().map_err(|cause| failed(format!("could not begin to read database {}", path.display()), cause))?;
    Ok(Box::new(SqliteSide { connection, path }))
}

struct SqliteSide {
    connection: Connection,
    path: PathBuf,
}

impl ComparisonSide for SqliteSide {
    fn name(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    fn notation(&self) -> &str {
        "SQLite storage classes"
    }

    fn case_rule(&self) -> CaseRule {
        CaseRule::Insensitive
    }

    fn default_schema(&self) -> String {
        SCHEMA.to_owned()
    }

    fn tables(&mut self) -> Result<Vec<TableDefinition>, Error> {
        let entries = catalog::entries(&self.connection)?;
        let ordinary = entries.iter().filter(|entry| entry.kind == Kind::Ordinary && !entry.is_heartbeat());
        ordinary.map(|entry| catalog::table(&self.connection, entry).map(|table| table.definition())).collect()
    }

    fn left_out(&mut self) -> Result<Vec<LeftOut>, Error> {
        let entries = catalog::entries(&self.connection)?;
        let virtual_tables = entries.into_iter().filter(|entry| entry.kind == Kind::Virtual);
        let left_out = |entry: catalog::Entry| LeftOut {
            name: TableName::new(SCHEMA, entry.name),
            kind: "a virtual table".to_owned(),
        };
        Ok(virtual_tables.map(left_out).collect())
    }

    fn estimate_rows(&mut self, table: &TableName) -> Result<u64, Error> {
        // Statistics may be absent; counting reads the smallest index and hashes nothing.
        let sql = format!("SELECT count(*) FROM main.{}", quoted(&table.table));
        let count = self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
        count
            .map(|count| u64::try_from(count).unwrap_or(0))
            .map_err(|cause| failed(format!("could not count the rows of {table}"), cause))
    }

    fn summarize(&mut self, table: &ComparedTable, buckets: u32) -> Result<Vec<BucketSummary>, Error> {
        let sql = format!("SELECT {}, {} FROM {}", identity(table), digest(table), from(table));
        let read = || -> rusqlite::Result<Vec<BucketSummary>> {
            let mut sums = BucketSums::new(buckets);
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                sums.add(blob(row.get_ref(0)?)?, as_digest(row.get_ref(1)?)?);
            }
            Ok(sums.finish())
        };
        read().map_err(|cause| failed(format!("could not hash the rows of {}", table.name), cause))
    }

    fn rows(
        &mut self,
        table: &ComparedTable,
        buckets: u32,
        chosen: &[u32],
        rows_max: Option<u64>,
        take: &mut TakeMark<'_>,
    ) -> Result<(), Error> {
        let identity = identity(table);
        // LIMIT takes a signed number; a negative one is none.
        let limit = rows_max.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {identity}, {} FROM {} WHERE drover_is_chosen({identity}) ORDER BY 1, 2 LIMIT {limit}",
            digest(table),
            from(table)
        );
        let mut read = || -> rusqlite::Result<()> {
            add_choice(&self.connection, buckets, chosen)?;
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let mark = RowMark { identity: blob(row.get_ref(0)?)?.to_vec(), digest: as_digest(row.get_ref(1)?)? };
                if take(mark).is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|cause| failed(format!("could not read the rows of {}", table.name), cause))
    }

    fn literals(&mut self, table: &ComparedTable, identities: &[Vec<u8>]) -> Result<Vec<LiteralRow>, Error> {
        let wanted: HashSet<&[u8]> = identities.iter().map(Vec::as_slice).collect();
        let columns = table.columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {}, {columns} FROM {}", identity(table), from(table));
        let read = || -> rusqlite::Result<Vec<LiteralRow>> {
            let mut found = Vec::new();
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let identity = blob(row.get_ref(0)?)?;
                if wanted.contains(identity) {
                    let values = (1..=table.columns.len()).map(|place| Ok(literal(row.get_ref(place)?)));
                    found.push((identity.to_vec(), values.collect::<rusqlite::Result<_>>()?));
                }
            }
            Ok(found)
        };
        read().map_err(|cause| failed(format!("could not read the rows of {}", table.name), cause))
    }

    fn mending(&self, table: &ComparedTable, mending: Mending, row: &[String], computed: &[usize]) -> String {
        let name = |index: &usize| quoted(&table.columns[*index]);
        let written: Vec<usize> = (0..row.len()).filter(|index| !computed.contains(index)).collect();
        let found =
            table.identity().iter().map(|index| format!("{} IS {}", name(index), row[*index])).collect::<Vec<_>>();
        let found = found.join(" AND ");
        match mending {
            Mending::Insert => format!(
                "INSERT INTO {} ({}) VALUES ({});",
                from(table),
                written.iter().map(name).collect::<Vec<_>>().join(", "),
                written.iter().map(|index| row[*index].as_str()).collect::<Vec<_>>().join(", ")
            ),
            Mending::Update => {
                let set = written.iter().map(|index| format!("{} = {}", name(index), row[*index])).collect::<Vec<_>>();
                format!("UPDATE {} SET {} WHERE {found};", from(table), set.join(", "))
            }
            Mending::Delete => format!("DELETE FROM {} WHERE {found};", from(table)),
        }
    }

    fn scan(&mut self, table: &ComparedTable, filter: Option<&str>, take: &mut TakeRow<'_>) -> Result<(), Error> {
        let kinds = self.kinds(table)?;
        let columns = table.columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let condition = filter.map_or_else(String::new, |filter| format!(" WHERE ({filter})"));
        let sql = format!("SELECT {columns} FROM {}{condition}", from(table));
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if take(&image(row, 0, &kinds)?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|cause| failed(format!("could not read the rows of {}", table.name), cause))
    }

    fn literal_writer(&self) -> Option<LiteralWriter> {
        Some(|logical, value| value::stored(logical, value).map(literal))
    }

    fn missing_row(&self, tables: &MissingTables, row: &[String], present: &str, absent: &str) -> Option<String> {
        let names = tables.rows.columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let location = tables.location_columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>();
        Some(format!(
            "INSERT INTO {} ({names}) VALUES ({}); INSERT INTO main.{} ({}) VALUES (last_insert_rowid(), {}, {});",
            from(&tables.rows),
            row.join(", "),
            quoted(&tables.location.table),
            location.join(", "),
            literal(ValueRef::Text(present.as_bytes())),
            literal(ValueRef::Text(absent.as_bytes())),
        ))
    }

    fn missing_rows(
        &mut self,
        tables: &MissingTables,
        take: &mut dyn FnMut(MissingRow) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let kinds = self.kinds(&tables.rows)?;
        let columns = tables.rows.columns.iter().map(|column| format!("r.{}", quoted(column))).collect::<Vec<_>>();
        let [number, present, absent] =
            [0, 1, 2].map(|place| format!("l.{}", quoted(&tables.location_columns[place].name)));
        let sql = format!(
            "SELECT CAST({number} AS TEXT), CAST({present} AS TEXT), CAST({absent} AS TEXT), r.rowid IS NOT NULL, {} \
             FROM main.{} AS l LEFT JOIN {} AS r ON r.rowid = {number}",
            columns.join(", "),
            quoted(&tables.location.table),
            from(&tables.rows),
        );
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let text = |place: usize| row.get::<_, Option<String>>(place).map(Option::unwrap_or_default);
                let is_there: bool = row.get(3)?;
                let found = MissingRow {
                    number: text(0)?,
                    present: text(1)?,
                    absent: text(2)?,
                    row: if is_there { Some(image(row, 4, &kinds)?) } else { None },
                };
                if take(found).is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|cause| failed(format!("could not read {}", tables.location), cause))
    }

    fn identity_values(&self, table: &ComparedTable, identity: &[u8]) -> Vec<Option<String>> {
        let mut values = Vec::new();
        read_values(identity, table.identity().len(), &mut values);
        values
    }
}

impl SqliteSide {
    /// The types of the compared columns.
    fn kinds(&self, table: &ComparedTable) -> Result<Vec<LogicalType>, Error> {
        let entry = catalog::entry(&self.connection, &table.name.table)?;
        let missing = |what: String| Error::new(ErrorClass::Missing, what);
        let entry = entry.ok_or_else(|| missing(format!("table {} does not exist", table.name)))?;
        let definition = catalog::table(&self.connection, &entry)?.definition();
        let kind = |column: &String| {
            let place = definition.column(column);
            place
                .map(|place| definition.columns[place].logical)
                .ok_or_else(|| missing(format!("table {} has no column {column}", table.name)))
        };
        table.columns.iter().map(kind).collect()
    }
}

/// The values of a result's columns from `first` on, as changes carry them.
fn image(row: &rusqlite::Row<'_>, first: usize, kinds: &[LogicalType]) -> rusqlite::Result<Row> {
    let mut builder = RowBuilder::new();
    for (place, kind) in kinds.iter().enumerate() {
        value::push(&mut builder, *kind, row.get_ref(first + place)?);
    }
    Ok(builder.finish())
}

/// A value as SQL that gives exactly it.
fn literal(value: ValueRef<'_>) -> String {
    let hexadecimal = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) if number.is_infinite() => if number > 0.0 { "9e999" } else { "-9e999" }.to_owned(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            // A literal ends at NUL.
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST(x'{}' AS TEXT)", hexadecimal(text)),
        },
        ValueRef::Blob(bytes) => format!("x'{}'", hexadecimal(bytes)),
    }
}

fn from(table: &ComparedTable) -> String {
    format!("main.{}", quoted(&table.name.table))
}

fn identity(table: &ComparedTable) -> String {
    call("drover_identity", table.identity().into_iter().map(|index| quoted(&table.columns[index])).collect())
}

fn digest(table: &ComparedTable) -> String {
    call("drover_digest", table.columns.iter().map(|column| quoted(column)).collect())
}

/// A call of `function` with any number of arguments: too many are passed as calls of their own.
fn call(function: &str, arguments: Vec<String>) -> String {
    if arguments.len() <= ARGUMENTS_MAX {
        return format!("{function}({})", arguments.join(", "));
    }
    call(function, arguments.chunks(ARGUMENTS_MAX).map(|group| call(function, group.to_vec())).collect())
}

fn flags() -> FunctionFlags {
    FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY
}

fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_scalar_function("drover_identity", -1, flags(), |context| {
        let mut bytes = Vec::new();
        write_values(context, &mut |part| bytes.extend_from_slice(part));
        Ok(bytes)
    })?;
    connection.create_scalar_function("drover_digest", -1, flags(), |context| {
        let mut hasher = RowHasher::default();
        write_values(context, &mut |part| hasher.write(part));
        Ok(hasher.finish().to_vec())
    })
}

fn add_choice(connection: &Connection, buckets: u32, chosen: &[u32]) -> rusqlite::Result<()> {
    let mut is_chosen = vec![false; buckets as usize];
    chosen.iter().for_each(|bucket| is_chosen[*bucket as usize] = true);
    connection.create_scalar_function("drover_is_chosen", 1, flags(), move |context| {
        Ok(is_chosen[bucket_of(blob(context.get_raw(0))?, buckets) as usize])
    })
}

/// Writes the arguments so that different values, classes or numbers of values never write the same: a mark of the storage
/// class, the length in 4 bytes, and the bytes; of numbers, their 8 bytes.
fn write_values(context: &Context<'_>, write: &mut dyn FnMut(&[u8])) {
    let mut bytes = |class: u8, bytes: &[u8]| {
        // SQLite holds no value of 2 GiB or more.
        write(&[class]);
        write(&(bytes.len() as u32).to_be_bytes());
        write(bytes);
    };
    for index in 0..context.len() {
        match context.get_raw(index) {
            ValueRef::Null => bytes(b'n', &[]),
            ValueRef::Integer(number) => bytes(b'i', &number.to_be_bytes()),
            ValueRef::Real(number) => bytes(b'r', &number.to_bits().to_be_bytes()),
            ValueRef::Text(text) => bytes(b't', text),
            ValueRef::Blob(blob) => bytes(b'b', blob),
        }
    }
}

/// Reads `count` values that [`write_values`] wrote, as SQL writes them.
fn read_values(written: &[u8], count: usize, values: &mut Vec<Option<String>>) {
    let group = if count <= ARGUMENTS_MAX { None } else { Some(group_size(count)) };
    let mut rest = written;
    let mut left = count;
    while let Some((class, length, after)) = rest.split_first().and_then(|(class, after)| {
        let (length, after) = after.split_first_chunk()?;
        Some((*class, u32::from_be_bytes(*length) as usize, after))
    }) {
        let (bytes, after) = after.split_at(length.min(after.len()));
        rest = after;
        if let Some(group) = group {
            read_values(bytes, group.min(left), values);
            left = left.saturating_sub(group);
            continue;
        }
        let number = || bytes.try_into().map(u64::from_be_bytes).unwrap_or_default();
        values.push(match class {
            b'n' => None,
            b'i' => Some((number() as i64).to_string()),
            b'r' => Some(real_literal(f64::from_bits(number()))),
            b't' => Some(format!("'{}'", String::from_utf8_lossy(bytes).replace('\'', "''"))),
            _ => Some(format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>())),
        });
    }
}

fn real_literal(number: f64) -> String {
    match number {
        f64::INFINITY => "9e999".to_owned(),
        f64::NEG_INFINITY => "-9e999".to_owned(),
        finite => format!("{finite:?}"),
    }
}

/// How many columns an argument of the outermost call of [`call`] stands for.
fn group_size(count: usize) -> usize {
    let mut size = 1;
    let mut arguments = count;
    while arguments > ARGUMENTS_MAX {
        size *= ARGUMENTS_MAX;
        arguments = arguments.div_ceil(ARGUMENTS_MAX);
    }
    size
}

fn blob(value: ValueRef<'_>) -> rusqlite::Result<&[u8]> {
    value.as_blob().map_err(|cause| rusqlite::Error::UserFunctionError(Box::new(cause)))
}

fn as_digest(value: ValueRef<'_>) -> rusqlite::Result<RowDigest> {
    blob(value)?.try_into().map_err(|cause| rusqlite::Error::UserFunctionError(Box::new(cause)))
}
