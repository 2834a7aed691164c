//! The tables that make a checkpoint table: what they look like, creating them, looking at them.

use super::{family, find};
use crate::catalog::OUR_COMMENT;
use crate::name::{self, NAME_BYTES_MAX};
use crate::remote;
use crate::wire::{Connection, Error as WireError};
use change::{TableName, Timestamp};
use database::{CheckpointTableState, Error, ErrorClass, Layout, LayoutColumn};

/// What the comments of the three tables say, after [`OUR_COMMENT`].
const COMMENTS: [&str; 3] =
    ["checkpoint table", "checkpoint table, overflow of log_cmplt_xids", "checkpoint table, rows that belong together"];

/// What stands before the time of creation in the main table's comment.
const CREATED: &str = ", created ";

/// Columns with type and whether they refuse NULL, and the columns of the primary key: the main table, the auxiliary one, the
/// one of rows that belong together.
#[expect(clippy::type_complexity, reason = "a table of constants")]
const TABLES: [(&[(&str, &str, bool)], &[&str]); 3] = [
    (
        &[
            ("group_name", "character varying(8)", true),
            ("group_key", "bigint", true),
            ("seqno", "integer", false),
            ("rba", "bigint", true),
            ("audit_ts", "character varying(29)", false),
            ("create_ts", "timestamp without time zone", true),
            ("last_update_ts", "timestamp without time zone", true),
            ("current_dir", "character varying(255)", true),
            ("log_bsn", "character varying(128)", false),
            ("log_csn", "character varying(128)", false),
            ("log_xid", "character varying(128)", false),
            ("log_cmplt_csn", "character varying(128)", false),
            ("log_cmplt_xids", "character varying(2000)", false),
            ("version", "integer", false),
        ],
        &["group_name", "group_key"],
    ),
    (
        &[
            ("group_name", "character varying(8)", true),
            ("group_key", "bigint", true),
            ("log_cmplt_csn", "character varying(128)", true),
            ("log_cmplt_xids_seq", "integer", true),
            ("log_cmplt_xids", "character varying(2000)", true),
        ],
        &["group_name", "group_key", "log_cmplt_csn", "log_cmplt_xids_seq"],
    ),
    (
        &[
            ("group_name", "character varying(8)", true),
            ("group_key", "bigint", true),
            ("appliers", "integer", true),
            ("map_hash", "character varying(128)", false),
        ],
        &["group_name", "group_key"],
    ),
];

fn layout(number: usize) -> Layout {
    let (columns, key) = TABLES[number];
    let columns = columns.iter().map(|(name, kind, required)| LayoutColumn::new(name, kind, *required));
    Layout { columns: columns.collect(), key: key.iter().map(|name| (*name).to_owned()).collect() }
}

/// The statement that creates table `number`, without a semicolon. A row changes with every transaction, and pages with room
/// let it change in place.
fn create_table(table: &str, number: usize) -> String {
    let Layout { columns, key } = layout(number);
    let columns: Vec<String> = columns
        .iter()
        .map(|column| format!("    {} {}{}", column.name, column.kind, if column.required { " NOT NULL" } else { "" }))
        .collect();
    let storage = if number == 0 { " WITH (fillfactor = 10)" } else { "" };
    format!("CREATE TABLE {table} (\n{},\n    PRIMARY KEY ({})\n){storage}", columns.join(",\n"), key.join(", "))
}

/// The statement that makes table `number` known as ours, without a semicolon. The main table says when it was created.
fn comment(table: &str, number: usize, now: &str) -> String {
    let created = if number == 0 { format!("{CREATED}{now}") } else { String::new() };
    format!("COMMENT ON TABLE {table} IS '{OUR_COMMENT}{}{created}'", COMMENTS[number])
}

/// The script that creates a checkpoint table without Drover, for psql and every other client.
pub fn checkpoint_script() -> String {
    let family = family(&TableName::new("public", "checkpoints"));
    let mut script = "\
-- Creates a Drover checkpoint table in PostgreSQL, as ADD CHECKPOINTTABLE does.
--
--     psql -d DATABASE -f chkpt_postgres_create.sql
--
-- To give it another name, replace public.checkpoints wherever it stands; its tables of overflow and of rows that belong
-- together end in _lox and _grp. Do not change names or types of columns. Storage may be changed as you like.

BEGIN;
"
    .to_owned();
    for (number, table) in family.iter().enumerate() {
        // The names of the script need no quotes.
        script.push_str(&format!("\n{};\n", create_table(&table.to_string(), number)));
    }
    script.push_str(&format!(
        "\n-- By their comments Drover knows its tables.\nDO $$ BEGIN EXECUTE \
         format('COMMENT ON TABLE {} IS %L', '{OUR_COMMENT}{}{CREATED}' || to_char(now() AT TIME ZONE 'UTC', \
         'YYYY-MM-DD HH24:MI:SS.US')); END $$;\n",
        family[0], COMMENTS[0]
    ));
    for (number, table) in family.iter().enumerate().skip(1) {
        script.push_str(&format!("{};\n", comment(&table.to_string(), number, "")));
    }
    script.push_str(&format!("\n-- What trigger bodies can ask: drover.from_remote().\n{}\nCOMMIT;\n", remote::CREATE));
    script
}

/// Creates the three tables.
pub(crate) fn create(connection: &mut Connection, table: &TableName) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't create checkpoint table {table}"));
    let family = family(table);
    if family.iter().any(|name| name.table.len() > NAME_BYTES_MAX) {
        let what = format!("can't create checkpoint table {table}: its name is too long for its auxiliary tables");
        return Err(Error::new(ErrorClass::Permanent, what).with_next_step("choose a name of at most 59 bytes"));
    }
    for name in &family {
        if find(connection, name).map_err(failed)?.is_some() {
            let what = format!("can't create checkpoint table {table}: {name} exists already");
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("use the table that is there, or choose another name"));
        }
    }
    add(connection, &[0, 1, 2].map(|number| (number, &family[number]))).map_err(failed)?;
    remote::install(connection).map_err(failed)
}

/// Creates some of the tables, all or none.
fn add(connection: &mut Connection, tables: &[(usize, &TableName)]) -> Result<(), WireError> {
    let now = connection.query_one("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", &[])?;
    let now = now.as_ref().and_then(|row| row.text(0)).unwrap_or_default().to_owned();
    let mut sql = "BEGIN;".to_owned();
    for (number, table) in tables {
        let quoted = name::table(table);
        sql.push_str(&format!("{};{};", create_table(&quoted, *number), comment(&quoted, *number, &now)));
    }
    sql.push_str("COMMIT");
    let result = connection.run(&sql);
    if result.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK")?;
    }
    result.map(drop)
}

/// Adds the tables that are missing beside a checkpoint table.
pub(crate) fn upgrade(connection: &mut Connection, table: &TableName) -> Result<Vec<TableName>, Error> {
    let failed = |error: WireError| error.during(format!("can't upgrade checkpoint table {table}"));
    if find(connection, table).map_err(failed)? != Some(true) {
        return Err(Error::new(ErrorClass::Missing, format!("there is no checkpoint table {table}"))
            .with_next_step(format!("ADD CHECKPOINTTABLE {table}")));
    }
    let family = family(table);
    let mut missing = Vec::new();
    for (number, name) in family.iter().enumerate() {
        match find(connection, name).map_err(failed)? {
            Some(true) => {}
            Some(false) => {
                let what = format!("can't upgrade checkpoint table {table}: {name} is a table of a user");
                return Err(Error::new(ErrorClass::Permanent, what).with_next_step("rename the user's table"));
            }
            None => missing.push((number, name)),
        }
    }
    if !missing.is_empty() {
        add(connection, &missing).map_err(failed)?;
    }
    remote::install(connection).map_err(failed)?;
    Ok(missing.into_iter().map(|(_, name)| name.clone()).collect())
}

/// Looks at the three tables; `None` when there is no checkpoint table of that name.
pub(crate) fn inspect(
    connection: &mut Connection,
    table: &TableName,
) -> Result<Option<CheckpointTableState>, WireError> {
    if find(connection, table)? != Some(true) {
        return Ok(None);
    }
    let mut state = CheckpointTableState { created: created(connection, table)?, ..CheckpointTableState::default() };
    for (number, name) in family(table).into_iter().enumerate() {
        match find(connection, &name)? {
            Some(true) => state.faults.extend(faults(connection, &name, number)?),
            Some(false) => state.faults.push(format!("{name} is a table of a user")),
            // The auxiliary table is older than the one of rows that belong together, but both can be added.
            None => state.missing.push(name),
        }
    }
    Ok(Some(state))
}

fn created(connection: &mut Connection, table: &TableName) -> Result<Option<Timestamp>, WireError> {
    let row = connection.query_one(
        &format!(
            "SELECT (extract(epoch FROM substring(obj_description(c.oid, 'pg_class') \
             FROM '{CREATED}(\\d{{4}}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d[.]\\d{{6}})$')::timestamp) * 1000000)::bigint \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname::text = $1 AND c.relname::text = $2"
        ),
        &[Some(&table.schema), Some(&table.table)],
    )?;
    let micros = row.as_ref().and_then(|row| row.text(0)).and_then(|text| text.parse().ok());
    Ok(micros.map(Timestamp::from_unix_micros))
}

fn faults(connection: &mut Connection, table: &TableName, number: usize) -> Result<Vec<String>, WireError> {
    let place = [Some(table.schema.as_str()), Some(table.table.as_str())];
    let columns = connection.query(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_attribute a \
         JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname::text = $1 AND c.relname::text = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        &place,
    )?;
    let key = connection.query(
        "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number \
         WHERE n.nspname::text = $1 AND c.relname::text = $2 AND i.indisprimary ORDER BY k.place",
        &place,
    )?;
    let column = |row: &crate::wire::TextRow| Ok(LayoutColumn::new(row.required(0)?, row.required(1)?, row.flag(2)));
    let found = Layout {
        columns: columns.iter().map(column).collect::<Result<_, WireError>>()?,
        key: key.iter().map(|row| Ok(row.required(0)?.to_owned())).collect::<Result<_, WireError>>()?,
    };
    let mut faults = layout(number).faults(&table.to_string(), &found);
    let kept = "SELECT c.relpersistence = 'p' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname::text = $1 AND c.relname::text = $2";
    if connection.query_one(kept, &place)?.is_some_and(|row| !row.flag(0)) {
        faults.push(format!("{table} is unlogged: a crash of the server would empty it"));
    }
    Ok(faults)
}
