//! The tables of the error queue and the conflict log.

use crate::catalog::{Entry, Kind, SCHEMA, Table, entry_of_ours, schema_version};
use crate::error::failed;
use crate::name::quoted;
use crate::trigger;
use change::{Row, Value};
use database::error_queue::{ErrorQueueTables, QueueColumn, QueueTable, TABLES, VIEWS};
use database::{Error, ErrorClass, OwnRows};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, TransactionBehavior, params_from_iter};

/// What the names of tables and views start with.
const PREFIX: &str = "drover_";

/// Name of one of the tables.
pub(crate) fn table_name(table: &QueueTable) -> String {
    format!("{PREFIX}{}", table.name)
}

/// Whether a table or view is one of these.
pub(crate) fn is_ours(name: &str) -> bool {
    let Some((start, rest)) = name.split_at_checked(PREFIX.len()) else { return false };
    let names = TABLES.iter().map(|table| table.name).chain(VIEWS.iter().map(|(view, _)| *view));
    start.eq_ignore_ascii_case(PREFIX) && names.into_iter().any(|known| known.eq_ignore_ascii_case(rest))
}

fn create_table(table: &QueueTable) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|(name, kind, required)| {
            let kind = if *kind == QueueColumn::Integer { "INTEGER" } else { "TEXT" };
            format!("{name} {kind}{}", if *required { " NOT NULL" } else { "" })
        })
        .collect();
    format!(
        "CREATE TABLE main.{} (/* Drover {} */ {}, PRIMARY KEY ({})) STRICT;",
        quoted(&table_name(table)),
        table.about,
        columns.join(", "),
        table.key.join(", ")
    )
}

/// Makes tables and views, all or none.
pub(crate) fn create(connection: &mut Connection) -> Result<(), Error> {
    let mut sql: String = TABLES.iter().map(create_table).collect();
    sql.push_str("CREATE INDEX main.drover_error_order ON drover_error_transaction (group_key, seqno, rba);");
    for (view, query) in VIEWS {
        sql.push_str(&format!("CREATE VIEW main.{PREFIX}{view} AS {};", query.replace('@', PREFIX)));
    }
    run(connection, &sql, "could not create the error queue")
}

/// Drops tables and views.
pub(crate) fn drop_all(connection: &mut Connection) -> Result<(), Error> {
    let mut sql: String = VIEWS.iter().map(|(view, _)| format!("DROP VIEW IF EXISTS main.{PREFIX}{view};")).collect();
    for table in &TABLES {
        sql.push_str(&format!("DROP TABLE main.{};", quoted(&table_name(table))));
    }
    run(connection, &sql, "could not drop the error queue")
}

fn run(connection: &mut Connection, sql: &str, what: &str) -> Result<(), Error> {
    let refused = |cause| failed(what.to_owned(), cause);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
    let before = schema_version(&transaction)?;
    transaction.execute_batch(sql).map_err(refused)?;
    trigger::note_own_change(&transaction, before)?;
    transaction.commit().map_err(refused)
}

/// The tables, where all are there.
pub(crate) fn find(connection: &Connection) -> Result<Option<ErrorQueueTables>, Error> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        let Some(entry) = entry_of_ours(connection, &table_name(table))? else { return Ok(None) };
        let found = crate::catalog::table(connection, &entry)?.definition();
        let has = |column: &str| found.columns.iter().any(|known| known.name == column);
        if let Some((missing, ..)) = table.columns.iter().find(|(column, ..)| !has(column)) {
            let what = format!("table {} of the error queue has no column {missing}", found.name);
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("execute or delete what it holds, then DELETE ERRORQUEUE and ADD ERRORQUEUE"));
        }
        tables.push(found);
    }
    Ok(Some(ErrorQueueTables { tables }))
}

/// The table of this name, if it is one of these.
pub(crate) fn table(connection: &Connection, name: &str) -> Result<Option<Table>, Error> {
    let entry: Option<Entry> = entry_of_ours(connection, name)?.filter(|entry| entry.kind == Kind::Ordinary);
    entry.map(|entry| crate::catalog::table(connection, &entry)).transpose()
}

/// Rows of one of the tables.
pub(crate) fn rows(connection: &Connection, query: &OwnRows<'_>) -> Result<Vec<Row>, Error> {
    let OwnRows { table, equal, order, after, limit } = *query;
    let column = |place: &usize| quoted(&table.columns[*place].name);
    let listed: Vec<String> =
        (0..table.columns.len()).map(|place| format!("CAST({} AS TEXT)", column(&place))).collect();
    let mut conditions: Vec<String> =
        equal.iter().map(|(place, _)| format!("CAST({} AS TEXT) = ?", column(place))).collect();
    if let (Some(after), Some(first)) = (after, order.first()) {
        conditions.push(format!("{} > {after}", column(first)));
    }
    let condition = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
    let order: Vec<String> = order.iter().map(column).collect();
    let order = if order.is_empty() { String::new() } else { format!(" ORDER BY {}", order.join(", ")) };
    let sql = format!(
        "SELECT {} FROM {SCHEMA}.{} WHERE {condition}{order} LIMIT {limit}",
        listed.join(", "),
        quoted(&table.name.table)
    );
    let read = || -> rusqlite::Result<Vec<Row>> {
        let mut statement = connection.prepare_cached(&sql)?;
        let mut found = statement.query(params_from_iter(equal.iter().map(|(_, value)| *value)))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let mut values = Vec::with_capacity(table.columns.len());
            for place in 0..table.columns.len() {
                values.push(match row.get_ref(place)? {
                    ValueRef::Text(text) => Value::Bytes(text),
                    _ => Value::Null,
                });
            }
            rows.push(Row::from_values(values));
        }
        Ok(rows)
    };
    read().map_err(|cause| failed(format!("could not read {}", table.name), cause))
}
