//! The tables that make a checkpoint table: what they look like, creating them, looking at them.
//!
//! # Known as ours
//! A table says in a comment of its own text that it is ours, which stays when columns are renamed. Tables without it are known
//! by the names of their columns.

use super::{CheckpointTable, instant};
use crate::catalog;
use crate::error::failed;
use crate::name::quoted;
use crate::remote;
use crate::trigger;
use change::{TableName, Timestamp};
use database::{CheckpointTableState, Error, ErrorClass, Layout, LayoutColumn};
use rusqlite::{Connection, OptionalExtension};

/// What the texts of our tables say.
const MARK: &str = "/* Drover checkpoint table";

/// What stands before the time of creation in the main table's text.
const CREATED: &str = "/* Drover checkpoint table, created ";

/// What the names of the tables end in: the main table, the auxiliary one, which takes transactions that do not fit into
/// LOG_CMPLT_XIDS, and the one of rows that belong together.
const ENDS: [&str; 3] = ["", "_lox", "_grp"];

/// Columns with type and whether they refuse NULL, and the number of key columns at the front, or their names.
const MAIN: [(&str, &str, bool); 14] = [
    ("GROUP_NAME", "VARCHAR(8)", true),
    ("GROUP_KEY", "BIGINT", true),
    ("SEQNO", "INTEGER", false),
    ("RBA", "BIGINT", true),
    ("AUDIT_TS", "VARCHAR(29)", false),
    ("CREATE_TS", "TIMESTAMP", true),
    ("LAST_UPDATE_TS", "TIMESTAMP", true),
    ("CURRENT_DIR", "VARCHAR(255)", true),
    ("LOG_BSN", "VARCHAR(128)", false),
    ("LOG_CSN", "VARCHAR(128)", false),
    ("LOG_XID", "VARCHAR(128)", false),
    ("LOG_CMPLT_CSN", "VARCHAR(128)", false),
    ("LOG_CMPLT_XIDS", "VARCHAR(2000)", false),
    ("VERSION", "INTEGER", false),
];
const OVERFLOW: [(&str, &str, bool); 5] = [
    ("GROUP_NAME", "VARCHAR(8)", true),
    ("GROUP_KEY", "BIGINT", true),
    ("LOG_CMPLT_CSN", "VARCHAR(128)", true),
    ("LOG_CMPLT_XIDS_SEQ", "INTEGER", true),
    ("LOG_CMPLT_XIDS", "VARCHAR(2000)", true),
];
const TOGETHER: [(&str, &str, bool); 4] = [
    ("GROUP_NAME", "VARCHAR(8)", true),
    ("GROUP_KEY", "BIGINT", true),
    ("APPLIERS", "INTEGER", true),
    ("MAP_HASH", "VARCHAR(128)", false),
];

fn layout(number: usize) -> Layout {
    let (columns, key): (&[_], &[&str]) = match number {
        0 => (&MAIN, &["GROUP_NAME", "GROUP_KEY"]),
        1 => (&OVERFLOW, &["GROUP_NAME", "GROUP_KEY", "LOG_CMPLT_CSN", "LOG_CMPLT_XIDS_SEQ"]),
        _ => (&TOGETHER, &["GROUP_NAME", "GROUP_KEY"]),
    };
    let columns = columns.iter().map(|(name, kind, required)| LayoutColumn::new(name, kind, *required));
    Layout { columns: columns.collect(), key: key.iter().map(|name| (*name).to_owned()).collect() }
}

/// The statement that creates table `number`. The main table says when it was created.
fn create_table(table: &str, number: usize, created: Option<&str>) -> String {
    let Layout { columns, key } = layout(number);
    let columns: Vec<String> = columns
        .iter()
        .map(|column| format!("    {} {}{}", column.name, column.kind, if column.required { " NOT NULL" } else { "" }))
        .collect();
    let mark = match created {
        Some(time) if number == 0 => format!("{CREATED}{time} */"),
        _ => format!("{MARK} */"),
    };
    format!("CREATE TABLE main.{table} ( {mark}\n{},\n    PRIMARY KEY ({})\n);\n", columns.join(",\n"), key.join(", "))
}

/// The script that creates a checkpoint table without Drover, for sqlite3 and every other client.
pub fn checkpoint_script() -> String {
    let tables: Vec<String> =
        ENDS.iter().enumerate().map(|(number, end)| create_table(&format!("checkpoints{end}"), number, None)).collect();
    format!(
        "\
-- Creates a Drover checkpoint table in SQLite, as ADD CHECKPOINTTABLE does.
--
--     sqlite3 shop.db < chkpt_sqlite_create.sql
--
-- To give it another name, replace main.checkpoints wherever it stands; its tables of overflow and of rows that belong
-- together end in _lox and _grp. Do not change names or types of columns, nor the comments, by which Drover knows its tables.

BEGIN IMMEDIATE;

{}
-- What trigger bodies can ask: SELECT from_remote FROM drover_from_remote.
{}
COMMIT;
",
        tables.join("\n"),
        remote::CREATE
    )
}

/// Whether a table is ours, by its text or by its columns.
pub(crate) fn is_ours(connection: &Connection, table: &str) -> Result<bool, Error> {
    let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let read = || connection.prepare_cached(sql)?.query_row([table], |row| row.get::<_, Option<String>>(0)).optional();
    let text = read().map_err(|cause| failed(format!("could not read the text of main.{table}"), cause))?;
    match text.flatten() {
        None => Ok(false),
        Some(text) if text.contains(MARK) => Ok(true),
        Some(_) => {
            let names = catalog::column_names(connection, table)?;
            Ok((0..ENDS.len()).any(|number| layout(number).columns.iter().map(|column| &column.name).eq(&names)))
        }
    }
}

impl CheckpointTable {
    /// Names of the three tables.
    pub(super) fn family(&self) -> [String; 3] {
        ENDS.map(|end| format!("{}{end}", self.name.table))
    }

    /// Creates its tables.
    pub(crate) fn create(&self, connection: &mut Connection) -> Result<(), Error> {
        let what = |cause| {
            failed(format!("could not create checkpoint table {}", self.name), cause)
                .with_next_step("choose another name, or drop the table that is in the way")
        };
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(what)?;
        let before = catalog::schema_version(&transaction)?;
        let now = transaction.query_row("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')", [], |row| row.get(0));
        let now: String = now.map_err(what)?;
        for (number, name) in self.family().iter().enumerate() {
            transaction.execute_batch(&create_table(&quoted(name), number, Some(&now))).map_err(what)?;
        }
        transaction.execute_batch(remote::CREATE).map_err(what)?;
        trigger::note_own_change(&transaction, before)?;
        transaction.commit().map_err(what)
    }

    /// Adds the tables that are missing beside the main one; returns them.
    pub(crate) fn upgrade(&self, connection: &mut Connection) -> Result<Vec<TableName>, Error> {
        let what = |cause| failed(format!("could not upgrade checkpoint table {}", self.name), cause);
        if !self.exists(connection)? {
            return Err(Error::new(ErrorClass::Missing, format!("there is no checkpoint table {}", self.name))
                .with_next_step(format!("ADD CHECKPOINTTABLE {}", self.name)));
        }
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(what)?;
        let before = catalog::schema_version(&transaction)?;
        let mut added = Vec::new();
        for (number, name) in self.family().iter().enumerate() {
            if catalog::column_names(&transaction, name)?.is_empty() {
                transaction.execute_batch(&create_table(&quoted(name), number, None)).map_err(what)?;
                added.push(TableName::new(&self.name.schema, name));
            }
        }
        transaction.execute_batch(remote::CREATE).map_err(what)?;
        trigger::note_own_change(&transaction, before)?;
        transaction.commit().map_err(what)?;
        Ok(added)
    }

    /// Whether the main table exists. A table of a user's that has its name is none.
    pub(crate) fn exists(&self, connection: &Connection) -> Result<bool, Error> {
        is_ours(connection, &self.name.table)
    }

    /// Looks at the three tables; `None` when there is no checkpoint table of that name.
    pub(crate) fn inspect(&self, connection: &Connection) -> Result<Option<CheckpointTableState>, Error> {
        if !self.exists(connection)? {
            return Ok(None);
        }
        let mut state = CheckpointTableState { created: self.created(connection)?, ..CheckpointTableState::default() };
        for (number, name) in self.family().iter().enumerate() {
            let found = found(connection, name)?;
            let full = TableName::new(&self.name.schema, name);
            if found.columns.is_empty() {
                state.missing.push(full);
            } else if is_ours(connection, name)? {
                state.faults.extend(layout(number).faults(&full.to_string(), &found));
            } else {
                state.faults.push(format!("{full} is a table of a user"));
            }
        }
        Ok(Some(state))
    }

    fn created(&self, connection: &Connection) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
        let text = connection.query_row(sql, [&self.name.table], |row| row.get::<_, String>(0)).optional();
        let text = text.map_err(|cause| failed(format!("could not read the text of {}", self.name), cause))?;
        let created = text.as_deref().and_then(|text| text.split_once(CREATED)?.1.split_once(" */"));
        Ok(created.and_then(|(time, _)| instant(time)))
    }
}

fn found(connection: &Connection, table: &str) -> Result<Layout, Error> {
    let read = || -> rusqlite::Result<Layout> {
        let mut statement =
            connection.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1, 'main') ORDER BY cid")?;
        let mut key: Vec<(u32, String)> = Vec::new();
        let mut layout = Layout::default();
        let mut rows = statement.query([table])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let place: u32 = row.get(3)?;
            if place > 0 {
                key.push((place, name.clone()));
            }
            layout.columns.push(LayoutColumn { name, kind: row.get(1)?, required: row.get(2)? });
        }
        key.sort_unstable();
        layout.key = key.into_iter().map(|(_, name)| name).collect();
        Ok(layout)
    };
    read().map_err(|cause| failed(format!("could not read the columns of main.{table}"), cause))
}
