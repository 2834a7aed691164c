//! The checkpoint table, its auxiliary table, and the table that tells which rows belong together.
//!
//! Columns and types are those of the specification (section 2.1). The list of transactions between the watermarks goes
//! into LOG_CMPLT_XIDS as far as it fits, and on into rows of the auxiliary table.

mod layout;

pub use layout::checkpoint_script;
pub(crate) use layout::{create, inspect, upgrade};

use crate::catalog::OUR_COMMENT;
use crate::name;
use crate::session::must_find;
use crate::session::note_table;
use crate::snapshot::copy_table;
use crate::wire::{Connection, Error as WireError, Parameter, Pipeline, Statement, TextRow};
use change::{TableName, Timestamp};
use database::{CheckpointRow, CheckpointSet, Error, ErrorClass};

/// Characters of LOG_CMPLT_XIDS, in the main and in the auxiliary table.
const TRANSACTIONS_MAX: usize = 2000;

/// Name of the auxiliary table.
fn overflow(table: &TableName) -> TableName {
    TableName::new(&table.schema, format!("{}_lox", table.table))
}

/// Name of the table of rows that belong together.
fn together(table: &TableName) -> TableName {
    TableName::new(&table.schema, format!("{}_grp", table.table))
}

/// The main table, the auxiliary one and the one of rows that belong together.
fn family(table: &TableName) -> [TableName; 3] {
    [table.clone(), overflow(table), together(table)]
}

/// Whether a table of this name is there, and whether it is one of ours.
fn find(connection: &mut Connection, table: &TableName) -> Result<Option<bool>, WireError> {
    if table.schema.contains('\0') || table.table.contains('\0') {
        return Ok(None);
    }
    let row = connection.query_one(
        "SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_class c JOIN pg_namespace n \
         ON n.oid = c.relnamespace WHERE n.nspname::text = $1 AND c.relname::text = $2",
        &[Some(&table.schema), Some(&table.table)],
    )?;
    Ok(row.map(|row| row.text(0).is_some_and(|comment| comment.starts_with(OUR_COMMENT))))
}

/// Whether `table` is a checkpoint table.
pub(crate) fn exists(connection: &mut Connection, table: &TableName) -> Result<bool, Error> {
    let found =
        find(connection, table).map_err(|error| error.during(format!("can't look for checkpoint table {table}")))?;
    Ok(found == Some(true))
}

/// Drops both tables. A table that is not one of ours stays.
pub(crate) fn drop_tables(connection: &mut Connection, table: &TableName) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't drop checkpoint table {table}"));
    let mut sql = String::new();
    for name in &family(table) {
        match find(connection, name).map_err(failed)? {
            Some(true) => sql.push_str(&format!("DROP TABLE {};", name::table(name))),
            Some(false) => {
                let what = format!("can't drop checkpoint table {table}: {name} is a table of a user");
                return Err(Error::new(ErrorClass::Permanent, what).with_next_step("check the name"));
            }
            None => {}
        }
    }
    for made_at_need in [copy_table(table), note_table(table)] {
        if find(connection, &made_at_need).map_err(failed)? == Some(true) {
            sql.push_str(&format!("DROP TABLE {};", name::table(&made_at_need)));
        }
    }
    connection.run(&sql).map(drop).map_err(failed)
}

/// The statement that adds a row of a name and key, for [`CheckpointWriter::save`] to fill.
fn insert_statement(table: &TableName) -> Statement {
    let sql = format!(
        "INSERT INTO {} (group_name, group_key, rba, create_ts, last_update_ts, current_dir) \
         VALUES ($1, $2::bigint, 0, '2000-01-01', '2000-01-01', '')",
        name::table(table)
    );
    Statement::new(sql, [])
}

/// Adds a row.
pub(crate) fn insert(connection: &mut Connection, table: &TableName, row: &CheckpointRow) -> Result<(), Error> {
    let failed =
        |error: WireError| error.during(format!("can't add group {} to checkpoint table {table}", row.group_name));
    let mut writer = CheckpointWriter::new(table);
    let insert = insert_statement(table);
    connection.run("BEGIN").map_err(failed)?;
    let result = (|| {
        let mut pipeline = connection.pipeline();
        let key = row.group_key.to_string();
        pipeline.execute(&insert, [Parameter::Text(row.group_name.as_bytes()), Parameter::Text(key.as_bytes())]);
        pipeline.run().map_err(|failed| failed.error)?;
        writer.save(connection, row)?;
        connection.run("COMMIT")
    })();
    match result {
        Ok(_) => Ok(()),
        Err(error) => {
            if connection.is_in_transaction() {
                connection.run("ROLLBACK").map_err(failed)?;
            }
            if error.code() == Some("23505") {
                let what =
                    format!("checkpoint table {table} has a row of group {} with this key already", row.group_name);
                return Err(Error::new(ErrorClass::Permanent, what)
                    .with_next_step("DELETE REPLICAT first, or find out which home the row belongs to"));
            }
            Err(failed(error))
        }
    }
}

/// Removes a row, if it is there.
pub(crate) fn delete(connection: &mut Connection, table: &TableName, group: &str, key: i64) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't remove group {group} from checkpoint table {table}"));
    let mut others = Vec::new();
    for name in [copy_table(table), together(table)] {
        if find(connection, &name).map_err(failed)? == Some(true) {
            others.push(name);
        }
    }
    let key = key.to_string();
    let parameters = [Parameter::Text(group.as_bytes()), Parameter::Text(key.as_bytes())];
    let appliers = if others.contains(&together(table)) { delete_appliers(table).to_vec() } else { Vec::new() };
    let rows = [overflow(table), table.clone()].into_iter().chain(others).map(|name| {
        let sql = format!("DELETE FROM {} WHERE group_name = $1 AND group_key = $2::bigint", name::table(&name));
        Statement::new(sql, [])
    });
    let mut pipeline = connection.pipeline();
    for statement in appliers.into_iter().chain(rows) {
        pipeline.execute(&statement, parameters);
    }
    pipeline.run().map(drop).map_err(|error| failed(error.error))
}

/// Statements that take a group's rows of appliers away, as many as its note tells.
fn delete_appliers(table: &TableName) -> [Statement; 2] {
    let sets = name::table(&together(table));
    [overflow(table), table.clone()].map(|name| {
        let sql = format!(
            "DELETE FROM {} AS d USING {sets} AS s WHERE s.group_name = $1 AND s.group_key = $2::bigint \
             AND d.group_key > s.group_key AND d.group_key <= s.group_key + s.appliers \
             AND d.group_name IN (s.group_name, s.group_name || lpad((d.group_key - s.group_key)::text, 3, '0'))",
            name::table(&name)
        );
        Statement::new(sql, [])
    })
}

/// A row is not there that was there.
pub(crate) fn no_row(table: &TableName, group: &str) -> Error {
    Error::new(ErrorClass::Missing, format!("checkpoint table {table} has no row of group {group} with its key"))
        .with_next_step("find out who removed the row before the group is added anew")
}

/// Why a group's rows could not be replaced.
pub(crate) fn failed_replace(table: &TableName, error: WireError) -> Error {
    // The only table here that an earlier version did not create.
    let is_old = error.code() == Some("42P01");
    let error = error.during(format!("can't write to checkpoint table {table}"));
    if !is_old {
        return error;
    }
    let what = format!("checkpoint table {table} has no table {} beside it", together(table));
    Error::new(ErrorClass::Missing, what).with_next_step(format!("UPGRADE CHECKPOINTTABLE {table}"))
}

/// All that the table holds of a group.
pub(crate) fn load_set(
    connection: &mut Connection,
    table: &TableName,
    group: &str,
    key: i64,
) -> Result<Option<CheckpointSet>, WireError> {
    let sets = sets(connection, table, Some(group))?;
    Ok(sets.into_iter().find(|set| set.group.group_key == key))
}

/// All that the table holds of all groups, or of those called `group`; none without the table.
pub(crate) fn sets(
    connection: &mut Connection,
    table: &TableName,
    group: Option<&str>,
) -> Result<Vec<CheckpointSet>, WireError> {
    let rows = read_rows(connection, table, group, true)?;
    let together = together(table);
    if find(connection, &together)? != Some(true) {
        return Ok(CheckpointSet::assemble(rows, []));
    }
    let sql = format!(
        "SELECT group_name, group_key, appliers, map_hash FROM {} WHERE group_name = coalesce($1, group_name)",
        name::table(&together)
    );
    let notes = connection.query(&sql, &[group])?;
    let note = |row: &TextRow| {
        let appliers = row.parse::<i32>(2)?.cast_unsigned();
        Ok((row.required(0)?.to_owned(), row.parse(1)?, appliers, row.text(3).map(str::to_owned)))
    };
    let notes = notes.iter().map(note).collect::<Result<Vec<_>, WireError>>()?;
    Ok(CheckpointSet::assemble(rows, notes))
}

/// The rows of all groups, or of those called `group`, in the order of names and keys; none without the table.
pub(crate) fn rows(
    connection: &mut Connection,
    table: &TableName,
    group: Option<&str>,
) -> Result<Vec<CheckpointRow>, WireError> {
    read_rows(connection, table, group, false)
}

/// The same; with a group's rows come those of threads that have its name with three digits behind it, if they are wanted.
fn read_rows(
    connection: &mut Connection,
    table: &TableName,
    group: Option<&str>,
    with_threads: bool,
) -> Result<Vec<CheckpointRow>, WireError> {
    if find(connection, table)? != Some(true) {
        return Ok(Vec::new());
    }
    let (main, more) = (name::table(table), name::table(&overflow(table)));
    // Times go as microseconds since 1970, which no setting changes.
    let rows = connection.query(
        &format!(
            "SELECT group_name, group_key, coalesce(seqno, 0), rba, audit_ts, \
             (extract(epoch FROM create_ts) * 1000000)::bigint, (extract(epoch FROM last_update_ts) * 1000000)::bigint, \
             current_dir, log_bsn, log_csn, log_cmplt_csn, log_cmplt_xids, coalesce(version, 1), \
             (extract(epoch FROM left(audit_ts, 26)::timestamp) * 1000000)::bigint, \
             (SELECT string_agg(x.log_cmplt_xids, ',' ORDER BY x.log_cmplt_xids_seq) FROM {more} x \
              WHERE x.group_name = m.group_name AND x.group_key = m.group_key AND x.log_cmplt_csn = coalesce(m.log_cmplt_csn, '')) \
             FROM {main} m WHERE group_name = coalesce($1, group_name) \
             OR ($2::boolean AND left(group_name, -3) = $1) ORDER BY group_name, group_key"
        ),
        &[group, Some(if with_threads { "true" } else { "false" })],
    )?;
    rows.iter().map(read).collect()
}

fn read(row: &TextRow) -> Result<CheckpointRow, WireError> {
    let time = |index| row.parse(index).map(Timestamp::from_unix_micros);
    let text = |index: usize| row.text(index).map(str::to_owned);
    let transactions = [row.text(11), row.text(14)];
    let transactions = transactions.into_iter().flatten().flat_map(|list| list.split(',')).map(str::to_owned).collect();
    Ok(CheckpointRow {
        group_name: row.required(0)?.to_owned(),
        group_key: row.parse(1)?,
        sequence: row.parse::<i32>(2)?.cast_unsigned(),
        rba: row.parse::<i64>(3)?.cast_unsigned(),
        audit_time: row.text(4).map(|_| time(13)).transpose()?,
        created: time(5)?,
        updated: time(6)?,
        directory: row.required(7)?.to_owned(),
        log_bsn: text(8),
        log_csn: text(9),
        log_complete_csn: text(10),
        log_complete_transactions: transactions,
        version: row.parse(12)?,
    })
}

/// What the row must be like that is replaced, else the statement fails, and the transaction with it.
pub(crate) enum Expected<'a> {
    /// It may even be gone: the caller looks at the number of rows.
    Anything,
    /// It is there.
    There,
    /// It is there, with these values of SEQNO, RBA and LOG_CSN.
    At { sequence: i32, rba: i64, csn: Option<&'a str> },
}

fn optional(text: Option<&str>) -> Parameter<'_> {
    text.map_or(Parameter::Null, |text| Parameter::Text(text.as_bytes()))
}

/// Replaces a group's row, with statements that are prepared once.
pub(crate) struct CheckpointWriter {
    update: Statement,
    /// The same, failing where the row is not as expected.
    update_expected: Statement,
    clear: Statement,
    add: Statement,
    table: TableName,
    /// Whether the auxiliary table may hold rows of the group.
    may_overflow: bool,
}

impl CheckpointWriter {
    /// A writer for rows of `table`.
    pub(crate) fn new(table: &TableName) -> CheckpointWriter {
        let (main, more) = (name::table(table), name::table(&overflow(table)));
        let update = format!(
            "UPDATE {main} SET seqno = $3::integer, rba = $4::bigint, audit_ts = $5, create_ts = $6::timestamp, \
             last_update_ts = $7::timestamp, current_dir = $8, log_bsn = $9, log_csn = $10, log_cmplt_csn = $11, \
             log_cmplt_xids = $12, version = $13::integer WHERE group_name = $1 AND group_key = $2::bigint"
        );
        let expected = "$14::boolean OR (seqno IS NOT DISTINCT FROM $15::integer AND rba = $16::bigint \
                        AND log_csn IS NOT DISTINCT FROM $17)";
        CheckpointWriter {
            update_expected: Statement::new(must_find(&format!("{update} AND ({expected})"), None), []),
            update: Statement::new(update, []),
            clear: Statement::new(format!("DELETE FROM {more} WHERE group_name = $1 AND group_key = $2::bigint"), []),
            add: Statement::new(
                format!(
                    "INSERT INTO {more} (group_name, group_key, log_cmplt_csn, log_cmplt_xids_seq, log_cmplt_xids) \
                     VALUES ($1, $2::bigint, coalesce($3, ''), $4::integer, $5)"
                ),
                [],
            ),
            table: table.clone(),
            may_overflow: true,
        }
    }

    /// Replaces all that the table holds of a group, inside the open transaction; returns whether its row was there.
    pub(crate) fn replace(&mut self, connection: &mut Connection, set: &CheckpointSet) -> Result<bool, WireError> {
        if !self.save(connection, &set.group)? {
            return Ok(false);
        }
        let (group, key) = (set.group.group_name.as_bytes(), set.group.group_key.to_string());
        let mut pipeline = connection.pipeline();
        for statement in delete_appliers(&self.table) {
            pipeline.execute(&statement, [Parameter::Text(group), Parameter::Text(key.as_bytes())]);
        }
        let insert = insert_statement(&self.table);
        for row in &set.appliers {
            let key = row.group_key.to_string();
            let name = Parameter::Text(row.group_name.as_bytes());
            pipeline.execute(&insert, [name, Parameter::Text(key.as_bytes())]);
        }
        let note = Statement::new(
            format!(
                "INSERT INTO {} AS s (group_name, group_key, appliers, map_hash) VALUES ($1, $2::bigint, $3::integer, $4) \
                 ON CONFLICT (group_name, group_key) \
                 DO UPDATE SET appliers = excluded.appliers, map_hash = excluded.map_hash",
                name::table(&together(&self.table))
            ),
            [],
        );
        let appliers = set.appliers_wanted.cast_signed().to_string();
        let hash = set.map_hash.as_ref().map_or(Parameter::Null, |hash| Parameter::Text(hash.as_bytes()));
        let place = [Parameter::Text(group), Parameter::Text(key.as_bytes())];
        pipeline.execute(&note, place.into_iter().chain([Parameter::Text(appliers.as_bytes()), hash]));
        pipeline.run().map_err(|failed| failed.error)?;
        for row in &set.appliers {
            self.save(connection, row)?;
        }
        // The rows of another key may have left something.
        self.may_overflow = true;
        Ok(true)
    }

    /// Replaces the row inside the open transaction; returns whether it was there.
    pub(crate) fn save(&mut self, connection: &mut Connection, row: &CheckpointRow) -> Result<bool, WireError> {
        let mut pipeline = connection.pipeline();
        self.queue(&mut pipeline, row, &Expected::Anything);
        let counts = pipeline.run().map_err(|failed| failed.error)?;
        Ok(counts.first() == Some(&1))
    }

    /// Adds the statements that replace the row; of the first one's rows the number tells whether the row was there.
    pub(crate) fn queue(&mut self, pipeline: &mut Pipeline<'_>, row: &CheckpointRow, expected: &Expected<'_>) {
        let lists = lists(&row.log_complete_transactions);
        let mut lists = lists.iter();
        let [key, sequence, rba, version] = [
            row.group_key.to_string(),
            row.sequence.cast_signed().to_string(),
            row.rba.cast_signed().to_string(),
            row.version.to_string(),
        ];
        let audit = row.audit_time.map(|time| format!("{time}000"));
        let [created, updated] = [row.created.to_string(), row.updated.to_string()];
        let (group, key) = (Parameter::Text(row.group_name.as_bytes()), Parameter::Text(key.as_bytes()));
        let complete = optional(row.log_complete_csn.as_deref());
        let values = [
            group,
            key,
            Parameter::Text(sequence.as_bytes()),
            Parameter::Text(rba.as_bytes()),
            optional(audit.as_deref()),
            Parameter::Text(created.as_bytes()),
            Parameter::Text(updated.as_bytes()),
            Parameter::Text(row.directory.as_bytes()),
            optional(row.log_bsn.as_deref()),
            optional(row.log_csn.as_deref()),
            complete,
            optional(lists.next().map(String::as_str)),
            Parameter::Text(version.as_bytes()),
        ];
        match expected {
            Expected::Anything => pipeline.execute(&self.update, values),
            Expected::There => {
                let place = [Parameter::Text(b"true"), Parameter::Null, Parameter::Null, Parameter::Null];
                pipeline.execute(&self.update_expected, values.into_iter().chain(place));
            }
            Expected::At { sequence, rba, csn } => {
                let [sequence, rba] = [sequence.to_string(), rba.to_string()];
                let [sequence, rba] = [&sequence, &rba].map(|text| Parameter::Text(text.as_bytes()));
                let place = [Parameter::Text(b"false"), sequence, rba, optional(*csn)];
                pipeline.execute(&self.update_expected, values.into_iter().chain(place));
            }
        }
        let overflows = lists.len() > 0;
        if self.may_overflow || overflows {
            pipeline.execute(&self.clear, [group, key]);
        }
        for (number, list) in (1_u32..).zip(lists) {
            let number = number.to_string();
            let (number, list) = (Parameter::Text(number.as_bytes()), Parameter::Text(list.as_bytes()));
            pipeline.execute(&self.add, [group, key, complete, number, list]);
        }
        self.may_overflow = overflows;
    }

    /// Tells that the transaction was given up: rows of the auxiliary table may be back.
    pub(crate) fn rolled_back(&mut self) {
        self.may_overflow = true;
    }
}

/// Joins names with commas into texts of the column's width.
fn lists(transactions: &[String]) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for transaction in transactions {
        match lists.last_mut() {
            Some(list) if list.chars().count() + 1 + transaction.chars().count() <= TRANSACTIONS_MAX => {
                list.push(',');
                list.push_str(transaction);
            }
            _ => lists.push(transaction.clone()),
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_transactions_fit_their_column_and_lose_none() {
        let names: Vec<String> = (0..1000).map(|number| format!("{}", 4_000_000_000_u64 + number)).collect();
        let lists = lists(&names);
        assert!(lists.iter().all(|list| list.len() <= TRANSACTIONS_MAX));
        assert_eq!(lists.join(",").split(',').collect::<Vec<_>>(), names);
        assert!(super::lists(&[]).is_empty());
    }
}
