//! One side of a comparison: rows are hashed by the server, over the text that it prints them as.
//!
//! A row is hashed as the text of `ROW(…)`: the server's own output functions under pinned settings, quoted so that no two
//! rows share a text. It is the text that capture reads and apply writes. The hash is the one behind hash partitions,
//! which the server may never change; but machines of different byte order compute it differently, so a probe is part of
//! the notation.

use crate::catalog::{CatalogTable, Kinds, Scope, read_tables};
use crate::name;
use crate::wire::{Config, Connection, Error as WireError, TextRow};
use change::{CaseRule, LogicalType, Row, RowBuilder, TableDefinition, TableName, Value};
use database::compare::{
    BucketSummary, ComparedTable, ComparisonSide, LeftOut, LiteralRow, LiteralWriter, Mending, RowDigest, RowMark,
    TakeMark, TakeRow,
};
use database::missing_rows::{MissingRow, MissingTables};
use database::{Error, ErrorClass};
use std::ops::ControlFlow;

/// Starts of the hashes: one sorts rows into buckets, two make a digest.
const BUCKET_SEED: u8 = 0;
const DIGEST_SEEDS: [u8; 2] = [1, 2];

/// Memory for sums of buckets and for putting rows in order; the server spills what exceeds it.
const WORK_MEMORY: &str = "64MB";

/// Opens one side of a comparison over the database that `url` (`postgres://user@host:port/database`) names, in a read
/// transaction.
///
/// # Errors
/// As [`Connection::connect`]; [`ErrorClass::Permanent`] when a part of the URL is wrong.
pub fn open_comparison(url: &str) -> Result<Box<dyn ComparisonSide>, Error> {
    let config = Config::of_process(url)?;
    let mut connection = Connection::connect(&config)?;
    let what = || format!("can't begin to read {config}");
    connection
        .run(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL work_mem = '{WORK_MEMORY}'"))
        .map_err(|error| error.during(what()))?;
    let probe = "SELECT current_setting('server_encoding'), hashtextextended('drover' COLLATE \"C\", 0)";
    let notation = connection
        .query_one(probe, &[])
        .and_then(|row| row.ok_or(WireError::Protocol("a query for one row gave none")))
        .and_then(|row| Ok(format!("PostgreSQL text, {} encoding, hash {}", row.required(0)?, row.required(1)?)))
        .map_err(|error| error.during(what()))?;
    let mut tables = read_tables(&mut connection, &mut Kinds::default(), Scope::Users)
        .map_err(|error| error.during(format!("can't list the tables of {config}")))?;
    tables.retain(|table| !database::is_heartbeat_object(&table.definition.name));
    Ok(Box::new(PostgresSide { config, connection, notation, tables }))
}

/// Rows that are asked for at once when they are read as literals.
const LITERALS_MAX: usize = 1000;

struct PostgresSide {
    config: Config,
    connection: Connection,
    notation: String,
    tables: Vec<CatalogTable>,
}

impl PostgresSide {
    fn table(&self, name: &TableName) -> Result<&CatalogTable, Error> {
        self.tables
            .iter()
            .find(|table| table.definition.name == *name)
            .ok_or_else(|| Error::new(ErrorClass::Missing, format!("table {name} does not exist in {}", self.config)))
    }

    /// An expression for the text of some columns of a row.
    fn row_text(&self, table: &ComparedTable, indexes: &[usize], is_identity: bool) -> Result<String, Error> {
        let definition = &self.table(&table.name)?.definition;
        let value = |index: &usize| {
            let column = &table.columns[*index];
            let value = format!("t.{}", name::quote(column));
            let is_binary =
                definition.column(column).is_some_and(|place| definition.columns[place].logical == LogicalType::Binary);
            // Raw bytes twice as long as hexadecimal text would be hashed slowly and could exceed what a row may hold.
            match (is_binary, is_identity) {
                (false, _) => value,
                (true, false) => format!("sha256({value})"),
                (true, true) if table.key.is_some() => value,
                (true, true) => format!("'sha256 ' || encode(sha256({value}), 'hex')"),
            }
        };
        let values: Vec<String> = indexes.iter().map(value).collect();
        Ok(format!("ROW({})::text COLLATE \"C\"", values.join(", ")))
    }

    /// A query of columns `bucket`, `identity`, `high` and `low` over all rows.
    fn rows_query(&self, table: &ComparedTable, buckets: u32) -> Result<String, Error> {
        let catalog = self.table(&table.name)?;
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let (whole, hashed) = match table.key {
            Some(_) => (format!(", {} AS whole", self.row_text(table, &all, false)?), "whole"),
            None => (String::new(), "identity"),
        };
        // A table's children by inheritance are tables of their own, partitions are not.
        let only = if catalog.is_partitioned { "" } else { "ONLY " };
        let [high, low] = DIGEST_SEEDS.map(|seed| format!("hashtextextended({hashed}, {seed})"));
        // OFFSET keeps the planner from making each text several times.
        Ok(format!(
            "SELECT hashtextextended(identity, {BUCKET_SEED}) & {mask} AS bucket, identity, {high} AS high, {low} AS low \
             FROM (SELECT {identity} AS identity{whole} FROM {only}{from} AS t OFFSET 0) AS r",
            mask = buckets - 1,
            identity = self.row_text(table, &table.identity(), true)?,
            from = name::table(&table.name),
        ))
    }
}

impl ComparisonSide for PostgresSide {
    fn name(&self) -> String {
        self.config.to_string()
    }

    fn notation(&self) -> &str {
        &self.notation
    }

    fn case_rule(&self) -> CaseRule {
        CaseRule::FoldToLower
    }

    fn default_schema(&self) -> String {
        "public".to_owned()
    }

    fn tables(&mut self) -> Result<Vec<TableDefinition>, Error> {
        // A partition's rows are told by its root.
        let roots = self.tables.iter().filter(|table| table.parent.is_none());
        Ok(roots.map(|table| table.definition.clone()).collect())
    }

    fn left_out(&mut self) -> Result<Vec<LeftOut>, Error> {
        let sql =
            "SELECT n.nspname, c.relname, CASE c.relkind WHEN 'f' THEN 'a foreign table' ELSE 'a materialized view' END
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('f', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
               AND NOT EXISTS (SELECT FROM pg_depend d
                 WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
             ORDER BY 1, 2";
        let left_out = |row: &TextRow| {
            let name = TableName::new(row.required(0)?, row.required(1)?);
            Ok(LeftOut { name, kind: row.required(2)?.to_owned() })
        };
        let rows = self.connection.query(sql, &[]);
        rows.and_then(|rows| rows.iter().map(left_out).collect())
            .map_err(|error: WireError| error.during(format!("can't list the tables of {}", self.config)))
    }

    fn estimate_rows(&mut self, table: &TableName) -> Result<u64, Error> {
        let oid = self.table(table)?.oid.to_string();
        // Where statistics are missing or old, pages of short rows.
        let sql = "SELECT greatest(sum(c.reltuples), sum(pg_relation_size(c.oid)) / 128, 0)::bigint
             FROM (SELECT relid FROM pg_partition_tree($1::oid::regclass) UNION SELECT $1::oid::regclass) AS p
             JOIN pg_class c ON c.oid = p.relid";
        self.connection
            .query_one(sql, &[Some(&oid)])
            .and_then(|row| row.map_or(Ok(0), |row| row.parse(0)))
            .map_err(|error| error.during(format!("can't estimate the rows of {table}")))
    }

    fn summarize(&mut self, table: &ComparedTable, buckets: u32) -> Result<Vec<BucketSummary>, Error> {
        let sql = format!(
            "SELECT bucket, count(*), sum(high), sum(low) FROM ({}) AS r GROUP BY bucket",
            self.rows_query(table, buckets)?
        );
        let mut read = || {
            let mut summaries = vec![BucketSummary::default(); buckets as usize];
            for row in self.connection.query(&sql, &[])? {
                let (high, low): (i128, i128) = (row.parse(2)?, row.parse(3)?);
                let bucket = summaries.get_mut(row.parse::<usize>(0)?);
                let summary = bucket.ok_or(WireError::Protocol("a bucket has a number that no bucket has"))?;
                // The sums are exact; their last 64 bits are as good.
                let sum = u128::from(high as u64) << 64 | u128::from(low as u64);
                *summary = BucketSummary { rows: row.parse(1)?, sum };
            }
            Ok(summaries)
        };
        read().map_err(|error: WireError| refine(error, table, "can't hash the rows of"))
    }

    fn rows(
        &mut self,
        table: &ComparedTable,
        buckets: u32,
        chosen: &[u32],
        rows_max: Option<u64>,
        take: &mut TakeMark<'_>,
    ) -> Result<(), Error> {
        let list = chosen.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let limit = rows_max.map_or_else(String::new, |rows| format!(" LIMIT {rows}"));
        let sql = format!(
            "COPY (SELECT identity, high, low FROM ({}) AS r WHERE bucket = ANY ('{{{list}}}'::bigint[]) \
             ORDER BY identity COLLATE \"C\", high, low{limit}) TO STDOUT",
            self.rows_query(table, buckets)?
        );
        let mut read = || {
            let mut copy = self.connection.copy_out(&sql)?;
            let mut line = Vec::new();
            while let Some(chunk) = copy.next_chunk()? {
                for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                    line.extend_from_slice(piece);
                    if line.pop_if(|byte| *byte == b'\n').is_none() {
                        continue;
                    }
                    let mark = read_mark(&line).ok_or(WireError::Protocol("a copied row has an unexpected form"))?;
                    line.clear();
                    if take(mark).is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        read().map_err(|error: WireError| refine(error, table, "can't read the rows of"))
    }

    fn literals(&mut self, table: &ComparedTable, identities: &[Vec<u8>]) -> Result<Vec<LiteralRow>, Error> {
        let columns = table.columns.iter().map(|column| format!("quote_nullable(t.{}::text)", name::quote(column)));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let only = if self.table(&table.name)?.is_partitioned { "" } else { "ONLY " };
        let identity = self.row_text(table, &table.identity(), true)?;
        let from = name::table(&table.name);
        let mut found = Vec::new();
        for chunk in identities.chunks(LITERALS_MAX) {
            let wanted: Vec<String> = (1..=chunk.len()).map(|number| format!("${number}")).collect();
            let sql = format!(
                "SELECT * FROM (SELECT {identity} AS identity, {columns} FROM {only}{from} AS t OFFSET 0) AS r \
                 WHERE identity IN ({})",
                wanted.join(", ")
            );
            let texts: Vec<String> = chunk.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
            let parameters: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
            let rows = self.connection.query(&sql, &parameters);
            for row in rows.map_err(|error| refine(error, table, "can't read the rows of"))? {
                let value = |place: usize| row.text(place).unwrap_or("NULL").to_owned();
                found.push((row.bytes(0).unwrap_or_default().to_vec(), (1..=table.columns.len()).map(value).collect()));
            }
        }
        Ok(found)
    }

    fn mending(&self, table: &ComparedTable, mending: Mending, row: &[String], computed: &[usize]) -> String {
        let name = |index: &usize| name::quote(&table.columns[*index]);
        let (from, identity) = (name::table(&table.name), table.identity());
        let written: Vec<usize> = (0..row.len()).filter(|index| !computed.contains(index)).collect();
        let found = identity.iter().map(|index| match row[*index].as_str() {
            "NULL" => format!("{} IS NULL", name(index)),
            literal => format!("{} = {literal}", name(index)),
        });
        let found = found.collect::<Vec<_>>().join(" AND ");
        match mending {
            Mending::Insert => format!(
                "INSERT INTO {from} ({}) OVERRIDING SYSTEM VALUE VALUES ({});",
                written.iter().map(name).collect::<Vec<_>>().join(", "),
                written.iter().map(|index| row[*index].as_str()).collect::<Vec<_>>().join(", ")
            ),
            Mending::Update => {
                let set = written.iter().filter(|index| !identity.contains(index));
                let set = set.map(|index| format!("{} = {}", name(index), row[*index])).collect::<Vec<_>>();
                format!("UPDATE {from} SET {} WHERE {found};", set.join(", "))
            }
            Mending::Delete => format!("DELETE FROM {from} WHERE {found};"),
        }
    }

    fn scan(&mut self, table: &ComparedTable, filter: Option<&str>, take: &mut TakeRow<'_>) -> Result<(), Error> {
        let (kinds, is_partitioned) = self.kinds(table)?;
        let columns = table.columns.iter().map(|column| format!("t.{}", name::quote(column))).collect::<Vec<_>>();
        let only = if is_partitioned { "" } else { "ONLY " };
        let condition = filter.map_or_else(String::new, |filter| format!(" WHERE ({filter})"));
        let sql = format!(
            "COPY (SELECT {} FROM {only}{} AS t{condition}) TO STDOUT",
            columns.join(", "),
            name::table(&table.name)
        );
        let read = self.copy_lines(&sql, &mut |line| {
            let mut fields = line.split(|byte| *byte == b'\t');
            take(&image(&mut fields, &kinds))
        });
        read.map_err(|error| refine(error, table, "can't read the rows of"))
    }

    fn literal_writer(&self) -> Option<LiteralWriter> {
        Some(literal)
    }

    fn missing_row(&self, tables: &MissingTables, row: &[String], present: &str, absent: &str) -> Option<String> {
        let names = tables.rows.columns.iter().map(|column| name::quote(column)).collect::<Vec<_>>().join(", ");
        let location = tables.location_columns.iter().map(|column| name::quote(&column.name)).collect::<Vec<_>>();
        Some(format!(
            "WITH r AS (INSERT INTO {} ({names}) VALUES ({}) RETURNING ctid) \
             INSERT INTO {} ({}) SELECT ctid::text::{}, {}, {} FROM r;",
            name::table(&tables.rows.name),
            row.join(", "),
            name::table(&tables.location),
            location.join(", "),
            tables.location_columns[0].native,
            name::literal(present),
            name::literal(absent),
        ))
    }

    fn missing_rows(
        &mut self,
        tables: &MissingTables,
        take: &mut dyn FnMut(MissingRow) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (kinds, _) = self.kinds(&tables.rows)?;
        let columns = tables.rows.columns.iter().map(|column| format!("r.{}", name::quote(column))).collect::<Vec<_>>();
        let [number, present, absent] =
            [0, 1, 2].map(|place| format!("l.{}", name::quote(&tables.location_columns[place].name)));
        let sql = format!(
            "COPY (SELECT {number}::text, {present}::text, {absent}::text, r.ctid IS NOT NULL, {} \
             FROM {} AS l LEFT JOIN {} AS r ON r.ctid = {number}::text::tid) TO STDOUT",
            columns.join(", "),
            name::table(&tables.location),
            name::table(&tables.rows.name),
        );
        let read = self.copy_lines(&sql, &mut |line| {
            let mut fields = line.split(|byte| *byte == b'\t');
            let [number, present, absent, is_there] =
                [(); 4].map(|()| field(fields.next()).map(|text| String::from_utf8_lossy(&text).into_owned()));
            let row = (is_there.as_deref() == Some("t")).then(|| image(&mut fields, &kinds));
            let text = |text: Option<String>| text.unwrap_or_default();
            take(MissingRow { number: text(number), present: text(present), absent: text(absent), row })
        });
        read.map_err(|error| refine(error, &tables.rows, "can't read the missing rows of"))
    }

    fn identity_values(&self, _table: &ComparedTable, identity: &[u8]) -> Vec<Option<String>> {
        read_record(identity)
    }
}

impl PostgresSide {
    /// The types of the compared columns, and whether the table has partitions.
    fn kinds(&self, table: &ComparedTable) -> Result<(Vec<LogicalType>, bool), Error> {
        let catalog = self.table(&table.name)?;
        let kind = |column: &String| {
            let place = catalog.definition.column(column);
            let missing = || Error::new(ErrorClass::Missing, format!("table {} has no column {column}", table.name));
            place.map(|place| catalog.definition.columns[place].logical).ok_or_else(missing)
        };
        Ok((table.columns.iter().map(kind).collect::<Result<_, _>>()?, catalog.is_partitioned))
    }

    /// Gives each line that a COPY prints to `take`.
    fn copy_lines(&mut self, sql: &str, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), WireError> {
        let mut copy = self.connection.copy_out(sql)?;
        let mut line = Vec::new();
        while let Some(chunk) = copy.next_chunk()? {
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.pop_if(|byte| *byte == b'\n').is_none() {
                    continue;
                }
                let taken = take(&line);
                line.clear();
                if taken.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A field of COPY's text format; `None` is NULL.
fn field(bytes: Option<&[u8]>) -> Option<Vec<u8>> {
    bytes.filter(|bytes| *bytes != b"\\N").map(unescaped)
}

/// The fields of a row as changes carry them.
fn image<'a>(fields: &mut impl Iterator<Item = &'a [u8]>, kinds: &[LogicalType]) -> Row {
    let mut builder = RowBuilder::new();
    for kind in kinds {
        match field(fields.next()) {
            None => builder.push(Value::Null),
            Some(text) if *kind == LogicalType::Binary => builder.push(Value::Bytes(&raw_bytes(&text))),
            Some(text) => builder.push(Value::Bytes(&text)),
        }
    }
    builder.finish()
}

/// The bytes that the server prints as `\x00ff`.
fn raw_bytes(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or_default() as u8;
    text.get(2..)
        .unwrap_or_default()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |sum, byte| sum << 4 | digit(*byte)))
        .collect()
}

/// A value of whatever source, to be read by the type of the column that takes it.
fn literal(logical: LogicalType, value: Value<'_>) -> Option<String> {
    let bytes = match value {
        Value::Null | Value::Unchanged => return Some("NULL".to_owned()),
        Value::Bytes(bytes) => bytes,
    };
    let (is_binary, bytes) = match (logical, bytes.split_first()) {
        (LogicalType::Dynamic, Some((class, rest))) => (*class == b'b', rest),
        (LogicalType::Dynamic, None) => return None,
        (logical, _) => (logical == LogicalType::Binary, bytes),
    };
    if is_binary {
        let text = bytes.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        return Some(name::literal(&text));
    }
    // The server keeps no NUL in texts.
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(name::literal)
}

/// A failure over a table's rows.
fn refine(error: WireError, table: &ComparedTable, what: &str) -> Error {
    let is_too_large = matches!(error.code(), Some("54000" | "53200"));
    let error = error.during(format!("{what} {}", table.name));
    if is_too_large {
        error.with_next_step("leave the table out: a row of it is larger than the server can print")
    } else {
        error
    }
}

/// Reads a row that COPY printed: identity and two numbers.
fn read_mark(line: &[u8]) -> Option<RowMark> {
    let mut fields = line.rsplitn(3, |byte| *byte == b'\t');
    let low = number(fields.next()?)?;
    let high = number(fields.next()?)?;
    let identity = unescaped(fields.next()?);
    let mut digest = RowDigest::default();
    // The server orders signed numbers; with the sign turned round, their bytes have the same order.
    digest[..8].copy_from_slice(&(high as u64 ^ 1 << 63).to_be_bytes());
    digest[8..].copy_from_slice(&(low as u64 ^ 1 << 63).to_be_bytes());
    Some(RowMark { identity, digest })
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A field of COPY's text format without its escapes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        bytes.extend(rest.next().map(|escaped| match escaped {
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            other => *other,
        }));
    }
    bytes
}

/// The values in the text of a record: nothing is NULL, what stands in double quotes doubles them and backslashes.
fn read_record(text: &[u8]) -> Vec<Option<String>> {
    let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).unwrap_or(text);
    if inner.is_empty() {
        // A record of one NULL and one without columns look alike; keys have columns.
        return vec![None];
    }
    let mut values = Vec::new();
    let (mut value, mut is_present, mut is_quoted) = (Vec::new(), false, false);
    let mut bytes = inner.iter().peekable();
    let finish = |value: &mut Vec<u8>, is_present: &mut bool| {
        let text = String::from_utf8_lossy(&std::mem::take(value)).into_owned();
        std::mem::take(is_present).then_some(text)
    };
    while let Some(byte) = bytes.next() {
        match byte {
            b',' if !is_quoted => values.push(finish(&mut value, &mut is_present)),
            b'"' if is_quoted && bytes.peek() == Some(&&b'"') => {
                bytes.next();
                value.push(b'"');
            }
            b'"' => {
                is_quoted = !is_quoted;
                is_present = true;
            }
            b'\\' => value.extend(bytes.next()),
            other => {
                is_present = true;
                value.push(*other);
            }
        }
    }
    values.push(finish(&mut value, &mut is_present));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Vec<Option<String>> {
        read_record(text.as_bytes())
    }

    #[test]
    fn records_are_read_as_the_server_prints_them() {
        let some = |text: &str| Some(text.to_owned());
        // SELECT ROW(1, NULL, '', 'a"b', 'a\b', 'x,y', ' (z) ')
        assert_eq!(
            record(r#"(1,,"","a""b","a\\b","x,y"," (z) ")"#),
            [some("1"), None, some(""), some("a\"b"), some("a\\b"), some("x,y"), some(" (z) ")]
        );
        assert_eq!(record("()"), [None]);
        assert_eq!(record("(,)"), [None, None]);
        assert_eq!(record("(\"\")"), [some("")]);
    }

    #[test]
    fn copied_rows_order_as_the_server_orders_them() {
        let mark = |line: &str| read_mark(line.as_bytes()).expect("a mark");
        assert_eq!(mark("(a\\\\tb\\t)\t5\t-6").identity, b"(a\\tb\t)");
        assert!(mark("(a)\t-1\t0") < mark("(a)\t0\t-9"));
        assert!(mark("(a)\t0\t-9") < mark("(a)\t0\t9"));
        assert!(mark("(a)\t9\t0") < mark("(a)b\t0\t0"));
        assert!(read_mark(b"x\t1").is_none() && read_mark(b"x\t1\ty").is_none());
    }
}
