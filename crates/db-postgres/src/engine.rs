//! A PostgreSQL database as a whole.

use crate::catalog::{CatalogTable, Kinds, Scope, read_tables};
use crate::wire::{Config, Connection, Error as WireError};
use crate::{checkpoint, error_queue, heartbeat, open_work, row_logging, session, source};
use change::{CaseRule, LogPosition, TableDefinition, TableName};
use database::{
    CheckpointRow, CheckpointSet, CheckpointTableState, Database, Error, ErrorClass, Heartbeats, Identity, LogKept,
    LogSource, OpenLogSource, OpenWorkView, Origin, Partition, RowLogging, Session, SessionRequest, SourceRequest,
    TableSelection, is_heartbeat_object,
};
use std::sync::Arc;

/// The database that `url` (`postgres://user:password@host:port/database?parameters`) names. Connects to nothing yet.
///
/// # Errors
/// [`ErrorClass::Unsupported`] for another kind of URL, [`ErrorClass::Permanent`] when a part of it is wrong.
pub fn open(url: &str) -> Result<Arc<dyn Database>, Error> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let what = "database url is not of the form postgres://user@host:port/database";
        return Err(
            Error::new(ErrorClass::Unsupported, what).with_next_step("write postgres://user@host:port/database")
        );
    }
    Ok(Arc::new(Postgres { config: Config::of_process(url)? }))
}

/// The registered name of one of the server's encodings; the server's own name where there is none.
fn character_set(encoding: &str) -> String {
    let numbered = |prefix: &str| encoding.strip_prefix(prefix).and_then(|rest| rest.parse::<usize>().ok());
    // LATIN1 to LATIN10 are these parts of ISO 8859.
    const PARTS: [u8; 10] = [1, 2, 3, 4, 9, 10, 13, 14, 15, 16];
    match encoding {
        "UTF8" => "UTF-8".to_owned(),
        "EUC_JP" | "EUC_KR" | "EUC_TW" => encoding.replace('_', "-"),
        "EUC_CN" => "GB2312".to_owned(),
        _ => match (numbered("LATIN").and_then(|number| PARTS.get(number.checked_sub(1)?)), numbered("WIN")) {
            (Some(part), _) => format!("ISO-8859-{part}"),
            (_, Some(page)) => format!("windows-{page}"),
            _ => encoding.replace("ISO_8859_", "ISO-8859-"),
        },
    }
}

struct Postgres {
    config: Config,
}

impl Postgres {
    fn connect(&self) -> Result<Connection, Error> {
        Connection::connect(&self.config)
    }
}

impl Database for Postgres {
    fn identity(&self) -> Result<Identity, Error> {
        let mut connection = self.connect()?;
        let row = connection
            .query_one("SELECT split_part(current_setting('server_version'), ' ', 1), current_database()", &[])
            .and_then(|row| row.ok_or(WireError::Protocol("a query for one row gave none")))
            .map_err(|error| error.during(format!("can't ask {} who it is", self.config)))?;
        let text = |index| row.text(index).unwrap_or_default().to_owned();
        Ok(Identity { product: "PostgreSQL".to_owned(), version: text(0), name: text(1) })
    }

    fn origin(&self) -> Result<Origin, Error> {
        // The identifier is made by initdb and stays with the cluster and its standbys. A role may be kept from it.
        // With the database's number behind it it has at most the 30 characters that file headers keep.
        let sql = "SELECT current_setting('cluster_name'), datcollate, \
                   CASE WHEN has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') \
                   THEN (SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/' || oid ELSE '' END, \
                   current_setting('TimeZone'), pg_encoding_to_char(encoding) \
                   FROM pg_catalog.pg_database WHERE datname = current_database()";
        let row = self.connect()?.query_one(sql, &[]);
        let row = row
            .and_then(|row| row.ok_or(WireError::Protocol("a query for one row gave none")))
            .map_err(|error| error.during(format!("can't ask {} where it lives", self.config)))?;
        let text = |index| row.text(index).unwrap_or_default().to_owned();
        Ok(Origin {
            instance: text(0),
            locale: text(1),
            unique_name: text(2),
            time_zone: text(3),
            character_set: character_set(&text(4)),
        })
    }

    fn case_rule(&self) -> CaseRule {
        CaseRule::FoldToLower
    }

    fn default_schema(&self) -> String {
        "public".to_owned()
    }

    fn tables(&self) -> Result<Vec<TableDefinition>, Error> {
        let tables = read_tables(&mut self.connect()?, &mut Kinds::default(), Scope::Users)
            .map_err(|error| error.during(format!("can't list the tables of {}", self.config)))?;
        // A partition is told under the name of its root.
        let is_root = |table: &CatalogTable| table.parent.is_none() && !is_heartbeat_object(&table.definition.name);
        let roots = tables.into_iter().filter(is_root);
        Ok(roots.map(|table| table.definition).collect())
    }

    fn partitions(&self) -> Result<Option<Vec<Partition>>, Error> {
        let sql = "SELECT n.nspname, c.relname, c.oid, rn.nspname, r.relname, c.relkind <> 'p' FROM pg_class c \
                   JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_class r ON r.oid = pg_partition_root(c.oid) \
                   JOIN pg_namespace rn ON rn.oid = r.relnamespace WHERE c.relispartition AND c.relkind IN ('r', 'p')";
        let mut connection = self.connect()?;
        let mut read = || -> Result<Vec<Partition>, WireError> {
            let rows = connection.query(sql, &[])?;
            let partition = |row: &crate::wire::TextRow| {
                Ok(Partition {
                    table: TableName::new(row.required(0)?, row.required(1)?),
                    number: row.parse(2)?,
                    root: TableName::new(row.required(3)?, row.required(4)?),
                    is_leaf: row.flag(5),
                })
            };
            rows.iter().map(partition).collect()
        };
        read().map(Some).map_err(|error| error.during(format!("can't list the partitions of {}", self.config)))
    }

    fn register_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        source::register(&self.config, group, tables)
    }

    fn has_capture(&self, group: &str) -> Result<bool, Error> {
        source::is_registered(&self.config, group)
    }

    fn unregister_capture(&self, group: &str) -> Result<(), Error> {
        source::unregister(&self.config, group)
    }

    fn begin_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        source::begin(&self.config, group, tables)
    }

    fn log_kept(&self, group: &str) -> Result<Option<LogKept>, Error> {
        source::log_kept(&self.config, group).map(Some)
    }

    fn log_file_bytes(&self) -> Result<Option<u64>, Error> {
        source::log_file_bytes(&self.config).map(Some)
    }

    fn open_work(&self) -> Result<Option<OpenWorkView>, Error> {
        open_work::list(&self.config).map(Some)
    }

    fn row_logging(&self) -> Result<Option<Vec<RowLogging>>, Error> {
        row_logging::list(&self.config).map(Some)
    }

    fn set_row_logging(&self, table: &TableName, all_columns: bool) -> Result<RowLogging, Error> {
        row_logging::set(&self.config, table, all_columns)
    }

    fn reset_row_logging(&self, table: &TableName) -> Result<RowLogging, Error> {
        row_logging::reset(&self.config, table)
    }

    fn tells_objects(&self) -> bool {
        true
    }

    fn open_source(&self, request: SourceRequest) -> Result<Box<dyn LogSource>, Error> {
        Ok(Box::new(source::Source::open(&self.config, request)?))
    }

    fn open_uncommitted(&self, request: &SourceRequest) -> Result<Option<Box<dyn OpenLogSource>>, Error> {
        Ok(Some(Box::new(source::StreamedSource::open(&self.config, request.clone(), false)?)))
    }

    fn open_prepared(&self, request: &SourceRequest) -> Result<Option<Box<dyn OpenLogSource>>, Error> {
        Ok(Some(Box::new(source::StreamedSource::open(&self.config, request.clone(), true)?)))
    }

    fn open_session(&self, request: SessionRequest) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(session::ApplySession::open(&self.config, request)?))
    }

    fn appliers_max(&self) -> usize {
        CheckpointRow::APPLIERS_MAX as usize
    }

    fn marks_missing(&self, group: &str, group_key: i64, appliers: u32) -> Result<Option<String>, Error> {
        session::origin::missing(&mut self.connect()?, group, group_key, appliers)
    }

    fn create_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        checkpoint::create(&mut self.connect()?, name)
    }

    fn has_checkpoint_table(&self, name: &TableName) -> Result<bool, Error> {
        checkpoint::exists(&mut self.connect()?, name)
    }

    fn inspect_checkpoint_table(&self, name: &TableName) -> Result<Option<CheckpointTableState>, Error> {
        checkpoint::inspect(&mut self.connect()?, name)
            .map_err(|error| error.during(format!("can't look at checkpoint table {name}")))
    }

    fn upgrade_checkpoint_table(&self, name: &TableName) -> Result<Vec<TableName>, Error> {
        checkpoint::upgrade(&mut self.connect()?, name)
    }

    fn checkpoint_sets(&self, table: &TableName) -> Result<Vec<CheckpointSet>, Error> {
        checkpoint::sets(&mut self.connect()?, table, None)
            .map_err(|error| error.during(format!("can't read checkpoint table {table}")))
    }

    fn heartbeats(&self) -> Result<Option<Box<dyn Heartbeats>>, Error> {
        Ok(Some(Box::new(heartbeat::PostgresHeartbeats::open(&self.config)?)))
    }

    fn drop_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        checkpoint::drop_tables(&mut self.connect()?, name)
    }

    fn create_error_queue(&self) -> Result<(), Error> {
        error_queue::create(&mut self.connect()?)
    }

    fn drop_error_queue(&self) -> Result<(), Error> {
        error_queue::drop_all(&mut self.connect()?)
    }

    fn checkpoints(&self, table: &TableName, group: &str) -> Result<Vec<CheckpointRow>, Error> {
        checkpoint::rows(&mut self.connect()?, table, Some(group))
            .map_err(|error| error.during(format!("can't read checkpoint table {table}")))
    }

    fn insert_checkpoint(&self, table: &TableName, row: &CheckpointRow) -> Result<(), Error> {
        checkpoint::insert(&mut self.connect()?, table, row)
    }

    fn delete_checkpoint(&self, table: &TableName, group: &str, group_key: i64) -> Result<(), Error> {
        let mut connection = self.connect()?;
        checkpoint::delete(&mut connection, table, group, group_key)?;
        session::origin::forget(&mut connection, group, group_key)
    }
}
