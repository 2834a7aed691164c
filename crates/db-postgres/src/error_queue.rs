//! The tables of the error queue and the conflict log, in the schema `drover`.

use crate::catalog::{Kinds, OUR_COMMENT, Scope, read_tables};
use crate::name;
use crate::wire::{Connection, Error as WireError, TextRow};
use bytes::BytesMut;
use change::{Row, RowBuilder, TableName, Value};
use database::error_queue::{ErrorQueueTables, QueueColumn, QueueTable, TABLES, VIEWS};
use database::{Error, ErrorClass, OwnRows};

const SCHEMA: &str = "drover";

/// Trigger functions for rows that tell their version: `set_version(version column, number of the site, key columns …)` before an
/// insert or update, `leave_tombstone(version column, key columns …)` after a delete.
const VERSION_FUNCTIONS: &str = include_str!("version.sql");

/// The channel on which is told what goes into the queue and the log.
const CHANNEL: &str = "drover";

fn table_name(table: &QueueTable) -> TableName {
    TableName::new(SCHEMA, table.name)
}

fn create_table(table: &QueueTable) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|(name, kind, required)| {
            let kind = match kind {
                QueueColumn::Text => "text",
                QueueColumn::Integer => "bigint",
                QueueColumn::Moment => "timestamp",
                QueueColumn::Json => "json",
            };
            format!("{name} {kind}{}", if *required { " NOT NULL" } else { "" })
        })
        .collect();
    let quoted = name::table(&table_name(table));
    format!(
        "CREATE TABLE {quoted} ({}, PRIMARY KEY ({})); COMMENT ON TABLE {quoted} IS '{OUR_COMMENT}{}';",
        columns.join(", "),
        table.key.join(", "),
        table.about
    )
}

/// Makes tables and views, all or none.
pub(crate) fn create(connection: &mut Connection) -> Result<(), Error> {
    let failed = |error: WireError| error.during("can't create the error queue in schema drover".to_owned());
    let mut sql = "BEGIN; CREATE SCHEMA IF NOT EXISTS drover; GRANT USAGE ON SCHEMA drover TO PUBLIC;".to_owned();
    for table in &TABLES {
        sql.push_str(&create_table(table));
    }
    sql.push_str(VERSION_FUNCTIONS);
    // What a group has parked is looked for in the order of the trail.
    sql.push_str("CREATE INDEX ON drover.error_transaction (group_key, seqno, rba);");
    for (view, query) in VIEWS {
        sql.push_str(&format!("CREATE VIEW drover.{view} AS {};", query.replace('@', "drover.")));
        sql.push_str(&format!("COMMENT ON VIEW drover.{view} IS '{OUR_COMMENT}error queue and conflict log';"));
    }
    sql.push_str("COMMIT");
    let made = connection.run(&sql);
    if made.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK").map_err(failed)?;
    }
    made.map(drop).map_err(failed)
}

/// Drops tables and views.
pub(crate) fn drop_all(connection: &mut Connection) -> Result<(), Error> {
    let views: Vec<String> = VIEWS.iter().map(|(view, _)| format!("{SCHEMA}.{view}")).collect();
    let tables: Vec<String> = TABLES.iter().map(|table| name::table(&table_name(table))).collect();
    // Triggers that call them keep them.
    let functions = "DROP FUNCTION IF EXISTS drover.set_version, drover.leave_tombstone";
    let sql = format!(
        "BEGIN; {functions}; DROP VIEW IF EXISTS {}; DROP TABLE {}; COMMIT",
        views.join(", "),
        tables.join(", ")
    );
    let dropped = connection.run(&sql);
    let failed = |error: WireError| error.during("can't drop the error queue in schema drover".to_owned());
    if dropped.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK").map_err(failed)?;
    }
    dropped.map(drop).map_err(failed)
}

/// The tables, where all are there and ours.
pub(crate) fn find(connection: &mut Connection, kinds: &mut Kinds) -> Result<Option<ErrorQueueTables>, Error> {
    let failed = |error: WireError| error.during("can't look at the error queue in schema drover".to_owned());
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        let name = table_name(table);
        let found = read_tables(connection, kinds, Scope::Named(&name)).map_err(failed)?.into_iter().next();
        let Some(found) = found else { return Ok(None) };
        let has = |column: &str| found.definition.columns.iter().any(|known| known.name == column);
        if let Some((missing, ..)) = table.columns.iter().find(|(column, ..)| !has(column)) {
            let what = format!("table {name} of the error queue has no column {missing}");
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("execute or delete what it holds, then DELETE ERRORQUEUE and ADD ERRORQUEUE"));
        }
        tables.push(found.definition);
    }
    Ok(Some(ErrorQueueTables { tables }))
}

/// Rows of one of the tables.
pub(crate) fn rows(connection: &mut Connection, query: &OwnRows<'_>) -> Result<Vec<Row>, Error> {
    let OwnRows { table, equal, order, after, limit } = *query;
    // With the table before it: a name alone would order by the text that is selected.
    let column = |place: &usize| format!("r.{}", name::quote(&table.columns[*place].name));
    let listed: Vec<String> = (0..table.columns.len()).map(|place| format!("{}::text", column(&place))).collect();
    let mut conditions: Vec<String> = equal
        .iter()
        .enumerate()
        .map(|(number, (place, _))| format!("{}::text = ${}", column(place), number + 1))
        .collect();
    if let (Some(after), Some(first)) = (after, order.first()) {
        conditions.push(format!("{} > {after}", column(first)));
    }
    let condition = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let order: Vec<String> = order.iter().map(column).collect();
    let order = if order.is_empty() { String::new() } else { format!(" ORDER BY {}", order.join(", ")) };
    let sql = format!(
        "SELECT {} FROM {} AS r WHERE {condition}{order} LIMIT {limit}",
        listed.join(", "),
        name::table(&table.name)
    );
    let values: Vec<Option<&str>> = equal.iter().map(|(_, value)| Some(*value)).collect();
    let found = connection.query(&sql, &values).map_err(|error| error.during(format!("can't read {}", table.name)))?;
    Ok(found.iter().map(|row| as_row(row, table.columns.len())).collect())
}

fn as_row(found: &TextRow, columns: usize) -> Row {
    let mut row = RowBuilder::new();
    for column in 0..columns {
        match found.text(column) {
            Some(text) => row.push_with(|buffer: &mut BytesMut| buffer.extend_from_slice(text.as_bytes())),
            None => row.push(Value::Null),
        }
    }
    row.finish()
}

/// Tells whoever listens on channel `drover`, at the commit of the open transaction.
pub(crate) fn notify(connection: &mut Connection, payload: &str) -> Result<(), WireError> {
    connection.query("SELECT pg_notify($1, $2)", &[Some(CHANNEL), Some(payload)]).map(drop)
}
