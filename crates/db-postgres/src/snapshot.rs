//! The initial copy: COPY from a snapshot to COPY into a table.
//!
//! # The snapshot and its place in commit order
//! A temporary slot exports a snapshot. Transactions whose commit record begins before the slot's consistent point are in
//! it, all others are not; and a CSN is where a commit record begins. So the snapshot's CSN is the byte before that point.
//! The slot is dropped as soon as all readers have the snapshot, so that it holds no log back.
//!
//! # Values
//! They travel as COPY's text under pinned settings, which is the text that the stream carries, and nobody reads them.

use crate::catalog::{CatalogTable, Identity, Kinds, OUR_COMMENT, Scope, read_tables};
use crate::name::{self, NAME_BYTES_MAX};
use crate::source::MARK;
use crate::wire::{Config, Connection, Error as WireError, Lsn, TextRow};
use change::{Csn, TableName, Timestamp};
use database::snapshot::{
    CapturedTable, CopyDestination, CopyError, CopyRequest, CopyRow, CopySource, CopyTarget, CopyWriter, Fill,
    Snapshot, SnapshotReader, TakeBytes,
};
use database::{Error, ErrorClass};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes that a reader gathers before it hands them on.
const CHUNK_BYTES: usize = 64 * 1024;

/// How rows are written.
const NOTATION: &str = "PostgreSQL COPY text";

/// The database that `url` names, to copy from. Connects to nothing yet.
///
/// # Errors
/// [`ErrorClass::Permanent`] when a part of the URL is wrong.
pub fn open_copy_source(url: &str) -> Result<Arc<dyn CopySource>, Error> {
    Ok(Arc::new(Place { config: Config::of_process(url)? }))
}

/// The database that `url` names, to copy to. Connects to nothing yet.
///
/// # Errors
/// As [`open_copy_source`].
pub fn open_copy_target(url: &str) -> Result<Arc<dyn CopyTarget>, Error> {
    Ok(Arc::new(Place { config: Config::of_process(url)? }))
}

struct Place {
    config: Config,
}

impl CopySource for Place {
    fn copy_notation(&self) -> &str {
        NOTATION
    }

    fn captured_tables(&self, group: &str) -> Result<Vec<CapturedTable>, Error> {
        let config = &self.config;
        let failed =
            |error: WireError| error.during(format!("can't list the tables that group {group} captures at {config}"));
        let mut connection = Connection::connect(config)?;
        let database = name::database_number(&mut connection).map_err(failed)?;
        let (publication, slot) = (name::publication(group), name::slot(group, database));
        let installed = "SELECT FROM pg_publication, pg_replication_slots
             WHERE pubname::text = $1 AND slot_name::text = $2 AND database = current_database()";
        if connection.query_one(installed, &[Some(&publication), Some(&slot)]).map_err(failed)?.is_none() {
            let what = format!("capture of group {group} is not registered at {config}");
            return Err(Error::new(ErrorClass::Missing, what).with_next_step(format!("ADD EXTRACT {group} first")));
        }
        let members = "SELECT prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
             WHERE p.pubname::text = $1";
        let members = connection.query(members, &[Some(&publication)]).map_err(failed)?;
        let members: HashSet<u32> =
            members.iter().map(|row| row.parse(0)).collect::<Result<_, WireError>>().map_err(failed)?;
        let tables = read_tables(&mut connection, &mut Kinds::default(), Scope::Users).map_err(failed)?;
        let is_captured = |table: &CatalogTable| {
            members.contains(&table.oid) && !database::is_heartbeat_object(&table.definition.name)
        };
        let tables = tables.into_iter().filter(is_captured);
        tables.map(|table| captured(&mut connection, table).map_err(failed)).collect()
    }

    fn open_snapshot(&self, readers: usize) -> Result<Snapshot, Error> {
        let config = &self.config;
        let failed = |error: WireError| error.during(format!("can't open a snapshot at {config}"));
        let mut connection = Connection::connect(config)?;
        let database = name::database_number(&mut connection).map_err(failed)?;
        drop(connection);
        let mut replication = Connection::connect_for_replication(config)?;
        let slot = format!("{}copy_{database}_{}", name::PREFIX, replication.process_id());
        // The server waits for all transactions that are open now.
        replication.run("SET lock_timeout = '10s'").map_err(failed)?;
        let sql =
            format!("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')", name::quote(&slot));
        let results = replication.simple_query(&sql).map_err(|error| {
            let waited = error.code() == Some("55P03");
            let error = failed(error);
            let step = "wait for the end of transactions that have been open for long, or end them";
            if waited { error.with_next_step(step) } else { error }
        })?;
        let row = results.first().and_then(|result| result.rows.first());
        let place = row.and_then(|row| Some((Lsn::parse(row.text(1)?)?, row.text(2)?.to_owned())));
        let (point, snapshot) = place.ok_or_else(|| failed(WireError::Protocol("a new slot exports no snapshot")))?;
        let sql = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT {}",
            name::literal(&snapshot)
        );
        let reader = |_| {
            let mut connection = Connection::connect(config)?;
            connection.run(&sql).map_err(failed)?;
            Ok(Box::new(Reader { connection }) as Box<dyn SnapshotReader>)
        };
        let readers = (0..readers).map(reader).collect::<Result<Vec<_>, Error>>()?;
        let last = Lsn(point.0.saturating_sub(1));
        Ok(Snapshot { csn: Csn::new(last.to_string()), readers })
    }
}

fn captured(connection: &mut Connection, mut table: CatalogTable) -> Result<CapturedTable, WireError> {
    if table.identity == Identity::Full && table.definition.key().is_empty() {
        // As its changes are told: without a key of its own, a row is found by all that it holds.
        let columns = Arc::make_mut(&mut table.definition.columns);
        let told = columns.iter_mut().filter(|column| !column.generation.is_computed());
        (0_u16..).zip(told).for_each(|(place, column)| column.key = Some(place));
    }
    let sizes =
        "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint, coalesce(sum(pg_table_size(c.oid)), 0)::bigint
         FROM (SELECT relid FROM pg_partition_tree($1::oid::regclass) UNION SELECT $1::oid::regclass) AS p
         JOIN pg_class c ON c.oid = p.relid";
    let row = connection.query_one(sizes, &[Some(&table.oid.to_string())])?;
    let row = row.ok_or(WireError::Protocol("a query for one row gave none"))?;
    Ok(CapturedTable { definition: table.definition, rows: row.parse(0)?, bytes: row.parse(1)? })
}

/// A connection whose transaction sees a snapshot.
struct Reader {
    connection: Connection,
}

impl SnapshotReader for Reader {
    fn read(&mut self, table: &TableName, columns: &[String], take: &mut TakeBytes<'_>) -> Result<(), Error> {
        self.copy_out(table, columns, take).map_err(|error| error.during(format!("can't read the rows of {table}")))
    }
}

impl Reader {
    fn copy_out(&mut self, table: &TableName, columns: &[String], take: &mut TakeBytes<'_>) -> Result<(), WireError> {
        let partitioned = self.connection.query_one(
            "SELECT c.relkind = 'p' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname::text = $1 AND c.relname::text = $2",
            &[Some(&table.schema), Some(&table.table)],
        )?;
        // Children by inheritance are tables of their own; partitions come with their root.
        let only = if partitioned.is_some_and(|row| row.flag(0)) { "" } else { "ONLY " };
        let values: Vec<String> = columns.iter().map(|column| format!("t.{}", name::quote(column))).collect();
        let sql = format!("COPY (SELECT {} FROM {only}{} AS t) TO STDOUT", values.join(", "), name::table(table));
        let mut copy = self.connection.copy_out(&sql)?;
        let mut gathered = Vec::with_capacity(2 * CHUNK_BYTES);
        while let Some(row) = copy.next_chunk()? {
            gathered.extend_from_slice(&row);
            if gathered.len() >= CHUNK_BYTES {
                if take(&gathered).is_break() {
                    return Ok(());
                }
                gathered.clear();
            }
        }
        if !gathered.is_empty() {
            let _ = take(&gathered);
        }
        Ok(())
    }
}

impl CopyTarget for Place {
    fn copy_notation(&self) -> &str {
        NOTATION
    }

    fn register_copies(&self, request: &CopyRequest, sources: &[TableName]) -> Result<Vec<CopyRow>, Error> {
        let table = copy_table(&request.checkpoint_table);
        let mut connection = Connection::connect(&self.config)?;
        create(&mut connection, &table)?;
        let failed = |error: WireError| error.during(format!("can't note tables to copy in {table}"));
        let sql = format!(
            "INSERT INTO {} (group_name, group_key, source_schema, source_table) VALUES ($1, $2::bigint, $3, $4) \
             ON CONFLICT DO NOTHING",
            name::table(&table)
        );
        connection.run("BEGIN").map_err(failed)?;
        for source in sources {
            let key = request.group_key.to_string();
            let values = [&request.group, &key, &source.schema, &source.table];
            connection.query(&sql, &values.map(|value| Some(value.as_str()))).map_err(failed)?;
        }
        connection.run("COMMIT").map_err(failed)?;
        load(&mut connection, request)
    }

    fn open_writer(&self, request: &CopyRequest) -> Result<Box<dyn CopyWriter>, Error> {
        let failed = |error: WireError| error.during(format!("can't open a connection that copies to {}", self.config));
        let mut connection = Connection::connect(&self.config)?;
        let is_replica = match connection.run("SET session_replication_role = replica") {
            Ok(_) => true,
            Err(error) if error.class() == ErrorClass::Denied => false,
            Err(error) => return Err(failed(error)),
        };
        // What a copy's row says must be durable, or changes would be left out that the rows do not hold.
        connection
            .run("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
            .map_err(failed)?;
        Ok(Box::new(Writer { connection, request: request.clone(), is_replica }))
    }
}

/// The table of copies beside a checkpoint table.
pub(crate) fn copy_table(checkpoint_table: &TableName) -> TableName {
    TableName::new(&checkpoint_table.schema, format!("{}_copy", checkpoint_table.table))
}

/// The comment of a table, or `None` when there is no such table.
fn comment(connection: &mut Connection, table: &TableName) -> Result<Option<String>, WireError> {
    let row = connection.query_one(
        "SELECT coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname::text = $1 AND c.relname::text = $2",
        &[Some(&table.schema), Some(&table.table)],
    )?;
    Ok(row.map(|row| row.text(0).unwrap_or_default().to_owned()))
}

fn create(connection: &mut Connection, table: &TableName) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't create table {table}"));
    match comment(connection, table).map_err(failed)? {
        Some(comment) if comment.starts_with(OUR_COMMENT) => return Ok(()),
        Some(_) => {
            let what = format!("can't create table {table}: a table of a user has this name");
            return Err(Error::new(ErrorClass::Permanent, what).with_next_step("rename that table"));
        }
        None if table.table.len() > NAME_BYTES_MAX => {
            let what = format!("can't create table {table}: its name is too long");
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("use a checkpoint table with a name of at most 58 bytes"));
        }
        None => {}
    }
    let quoted = name::table(table);
    let sql = format!(
        "BEGIN; CREATE TABLE {quoted} (group_name varchar(8) NOT NULL, group_key bigint NOT NULL, \
         source_schema text NOT NULL, source_table text NOT NULL, csn varchar(128), \
         rows bigint NOT NULL DEFAULT 0, bytes bigint NOT NULL DEFAULT 0, finished timestamp, \
         PRIMARY KEY (group_name, group_key, source_schema, source_table)); \
         COMMENT ON TABLE {quoted} IS '{OUR_COMMENT}table of initial copies'; COMMIT"
    );
    let result = connection.run(&sql);
    if result.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK").map_err(failed)?;
    }
    result.map(drop).map_err(failed)
}

/// The copies of a Replicat, in name order; none where none was ever made.
pub(crate) fn load(connection: &mut Connection, request: &CopyRequest) -> Result<Vec<CopyRow>, Error> {
    let table = copy_table(&request.checkpoint_table);
    let failed = |error: WireError| error.during(format!("can't read {table}"));
    if !comment(connection, &table).map_err(failed)?.is_some_and(|comment| comment.starts_with(OUR_COMMENT)) {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT source_schema, source_table, csn, rows, bytes, (extract(epoch FROM finished) * 1000000)::bigint FROM {} \
         WHERE group_name = $1 AND group_key = $2::bigint ORDER BY source_schema COLLATE \"C\", source_table COLLATE \"C\"",
        name::table(&table)
    );
    let read = |row: &TextRow| -> Result<CopyRow, WireError> {
        Ok(CopyRow {
            source: TableName::new(row.required(0)?, row.required(1)?),
            csn: row.text(2).map(Csn::new),
            rows: row.parse(3)?,
            bytes: row.parse(4)?,
            finished: row.text(5).map(|_| row.parse(5).map(Timestamp::from_unix_micros)).transpose()?,
        })
    };
    let rows = connection.query(&sql, &[Some(&request.group), Some(&request.group_key.to_string())]).map_err(failed)?;
    rows.iter().map(read).collect::<Result<_, _>>().map_err(failed)
}

/// A connection that copies.
struct Writer {
    connection: Connection,
    request: CopyRequest,
    /// Whether neither triggers nor foreign keys run.
    is_replica: bool,
}

impl CopyWriter for Writer {
    fn copy(
        &mut self,
        source: &TableName,
        destinations: &[CopyDestination],
        fill: &mut Fill<'_>,
        row: &mut dyn FnMut(u64, u64) -> CopyRow,
    ) -> Result<CopyRow, CopyError> {
        let copied = self.copy_in_transaction(source, destinations, fill, row);
        if copied.is_err() && self.connection.is_in_transaction() {
            // The first error says what went wrong; when this one fails too, the connection is lost and the server rolls back.
            let _ = self.connection.run("ROLLBACK");
        }
        copied
    }
}

impl Writer {
    fn copy_in_transaction(
        &mut self,
        source: &TableName,
        destinations: &[CopyDestination],
        fill: &mut Fill<'_>,
        row: &mut dyn FnMut(u64, u64) -> CopyRow,
    ) -> Result<CopyRow, CopyError> {
        let target = |error: WireError| CopyError::Target(error.during("can't begin a copy"));
        let mark = name::literal(&name::publication(&self.request.group));
        self.connection
            .run(&format!("BEGIN; SELECT pg_logical_emit_message(true, '{MARK}', {mark})"))
            .map_err(target)?;
        self.lock_row(source).map_err(CopyError::Target)?;
        for destination in destinations {
            self.check(&destination.table).map_err(CopyError::Target)?;
        }
        let (mut rows, mut bytes) = (0, 0);
        for (number, destination) in destinations.iter().enumerate() {
            let (copied, written) = self.copy_in(number, destination, fill)?;
            bytes += written;
            if number == 0 {
                rows = copied;
            }
        }
        let row = row(rows, bytes);
        self.save(&row).map_err(CopyError::Target)?;
        self.connection
            .run("COMMIT")
            .map_err(|error| CopyError::Target(error.during(format!("can't commit the copy of {}", row.source))))?;
        Ok(row)
    }

    /// Takes the row of a source table, so that no commit whose answer was lost comes after us.
    fn lock_row(&mut self, source: &TableName) -> Result<(), Error> {
        let table = copy_table(&self.request.checkpoint_table);
        let sql = format!(
            "SELECT FROM {} WHERE group_name = $1 AND group_key = $2::bigint AND source_schema = $3 \
             AND source_table = $4 AND csn IS NULL FOR UPDATE",
            name::table(&table)
        );
        let key = self.request.group_key.to_string();
        let values = [&self.request.group, &key, &source.schema, &source.table];
        let found = self.connection.query(&sql, &values.map(|value| Some(value.as_str())));
        let found = found.map_err(|error| error.during(format!("can't find the row of {source} in {table}")))?;
        if found.is_empty() {
            let what = format!("the row of {source} in {table} is gone, or says that it was copied before");
            return Err(Error::new(ErrorClass::Transient, what)
                .with_next_step("let only one copy run for a Replicat; if the row was removed, start the copy again"));
        }
        Ok(())
    }

    /// Refuses a table that is not there, that holds rows, or where something would run that must not.
    fn check(&mut self, table: &TableName) -> Result<(), Error> {
        let failed = |error: WireError| error.during(format!("can't look at target table {table}"));
        let found = read_tables(&mut self.connection, &mut Kinds::default(), Scope::Named(table)).map_err(failed)?;
        let found = found.into_iter().next().ok_or_else(|| {
            Error::new(ErrorClass::Missing, format!("there is no table {table} at the target"))
                .with_next_step("create it, or leave its source table out with MAPEXCLUDE")
        })?;
        let runs = found.trigger.map(|trigger| format!("trigger {trigger}"));
        let runs = runs.or(found.reference.map(|reference| format!("foreign key {reference}")));
        if let (false, Some(runs)) = (self.is_replica, runs) {
            let user = name::quote(&self.connection.config().user);
            let what = format!("can't copy to table {table}: {runs} would run");
            return Err(Error::new(ErrorClass::Unsupported, what)
                .with_next_step(format!("GRANT SET ON PARAMETER session_replication_role TO {user}")));
        }
        let sql = format!("SELECT FROM {} LIMIT 1", name::table(table));
        if self.connection.run(&sql).map_err(failed)? > 0 {
            let what = format!("can't copy to table {table}: it holds rows");
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("empty it, or leave its source table out with MAPEXCLUDE"));
        }
        Ok(())
    }

    /// Copies to one table; returns rows and bytes.
    fn copy_in(
        &mut self,
        number: usize,
        destination: &CopyDestination,
        fill: &mut Fill<'_>,
    ) -> Result<(u64, u64), CopyError> {
        let target =
            |error: WireError| CopyError::Target(error.during(format!("can't copy to table {}", destination.table)));
        let columns: Vec<String> = destination.columns.iter().map(|column| name::quote(column)).collect();
        let sql = format!("COPY {} ({}) FROM STDIN", name::table(&destination.table), columns.join(", "));
        let mut copy = self.connection.copy_in(&sql).map_err(target)?;
        let mut bytes = 0;
        let mut refused = None;
        let filled = fill(number, &mut |piece| {
            bytes += piece.len() as u64;
            match copy.write(piece) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    refused = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        // A target that refuses breaks the reading off: what the source says then is no cause.
        if let Some(error) = refused {
            return Err(target(error));
        }
        // Dropped without its end, the copy takes all its rows back.
        filled.map_err(CopyError::Source)?;
        Ok((copy.finish().map_err(target)?, bytes))
    }

    fn save(&mut self, row: &CopyRow) -> Result<(), Error> {
        let table = copy_table(&self.request.checkpoint_table);
        let sql = format!(
            "UPDATE {} SET csn = $5, rows = $6::bigint, bytes = $7::bigint, finished = $8::timestamp \
             WHERE group_name = $1 AND group_key = $2::bigint AND source_schema = $3 AND source_table = $4",
            name::table(&table)
        );
        let [key, rows, bytes] = [self.request.group_key.to_string(), row.rows.to_string(), row.bytes.to_string()];
        let finished = row.finished.map(|time| time.to_string());
        let csn = row.csn.as_ref().map(Csn::as_str);
        let values = [
            Some(self.request.group.as_str()),
            Some(&key),
            Some(&row.source.schema),
            Some(&row.source.table),
            csn,
            Some(&rows),
            Some(&bytes),
            finished.as_deref(),
        ];
        let saved = self.connection.query(&sql, &values);
        saved.map(drop).map_err(|error| error.during(format!("can't note the copy of {} in {table}", row.source)))
    }
}
