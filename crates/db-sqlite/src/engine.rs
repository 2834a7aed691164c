//! A SQLite database as a whole.

use crate::catalog;
use crate::checkpoint::CheckpointTable;
use crate::connect::{COMMAND_PATIENCE, connect};
use crate::error::failed;
use crate::error_queue;
use crate::heartbeat::SqliteHeartbeats;
use crate::session::SqliteSession;
use crate::source::SqliteSource;
use crate::trigger;
use change::{CaseRule, LogPosition, TableDefinition, TableName};
use database::{
    CheckpointRow, CheckpointSet, CheckpointTableState, Database, Error, ErrorClass, Heartbeats, Identity, LogSource,
    Origin, Session, SessionRequest, SourceRequest, TableSelection,
};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the database that `url` (`sqlite:PATH`) names. The file must exist.
///
/// # Errors
/// [`ErrorClass::Unsupported`] for another kind of url, [`ErrorClass::Missing`] when there is no such file.
pub fn open(url: &str) -> Result<Arc<dyn Database>, Error> {
    let path = url.strip_prefix("sqlite:").ok_or_else(|| {
        Error::new(ErrorClass::Unsupported, "database url is not of the form sqlite:PATH")
            .with_next_step("write sqlite:PATH")
    })?;
    let path = PathBuf::from(path);
    if !path.is_file() {
        return Err(Error::new(ErrorClass::Missing, format!("database file {} does not exist", path.display()))
            .with_next_step("check the path; create the database before it is replicated"));
    }
    Ok(Arc::new(SqliteDatabase { path }))
}

struct SqliteDatabase {
    path: PathBuf,
}

impl SqliteDatabase {
    fn connect(&self) -> Result<Connection, Error> {
        connect(&self.path, COMMAND_PATIENCE)
    }
}

impl Database for SqliteDatabase {
    fn identity(&self) -> Result<Identity, Error> {
        Ok(Identity {
            product: "SQLite".into(),
            version: rusqlite::version().into(),
            name: self.path.display().to_string(),
        })
    }

    fn origin(&self) -> Result<Origin, Error> {
        let connection = self.connect()?;
        let encoding = connection.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0));
        let encoding = encoding.map_err(|cause| failed("could not ask for the encoding", cause))?;
        // Its own names are UTF-8, UTF-16le and UTF-16be.
        Ok(Origin { character_set: encoding, ..Origin::default() })
    }

    fn case_rule(&self) -> CaseRule {
        CaseRule::Insensitive
    }

    fn default_schema(&self) -> String {
        "main".into()
    }

    fn tables(&self) -> Result<Vec<TableDefinition>, Error> {
        let mut connection = self.connect()?;
        let snapshot = connection.transaction().map_err(|cause| failed("could not read the list of tables", cause))?;
        let entries = catalog::entries(&snapshot)?;
        let ordinary = entries.iter().filter(|entry| entry.kind == catalog::Kind::Ordinary && !entry.is_heartbeat());
        ordinary.map(|entry| catalog::table(&snapshot, entry).map(|table| table.definition())).collect()
    }

    fn register_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        trigger::register(&mut self.connect()?, group, tables).map(|place| place.position())
    }

    fn has_capture(&self, group: &str) -> Result<bool, Error> {
        trigger::is_registered(&self.connect()?, group)
    }

    fn unregister_capture(&self, group: &str) -> Result<(), Error> {
        trigger::unregister(&mut self.connect()?, group)
    }

    fn open_source(&self, request: SourceRequest) -> Result<Box<dyn LogSource>, Error> {
        Ok(Box::new(SqliteSource::open(&self.path, request)?))
    }

    fn open_session(&self, request: SessionRequest) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(SqliteSession::open(&self.path, &request)?))
    }

    fn create_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        CheckpointTable::new(name)?.create(&mut self.connect()?)
    }

    fn has_checkpoint_table(&self, name: &TableName) -> Result<bool, Error> {
        CheckpointTable::new(name)?.exists(&self.connect()?)
    }

    fn inspect_checkpoint_table(&self, name: &TableName) -> Result<Option<CheckpointTableState>, Error> {
        CheckpointTable::new(name)?.inspect(&self.connect()?)
    }

    fn upgrade_checkpoint_table(&self, name: &TableName) -> Result<Vec<TableName>, Error> {
        CheckpointTable::new(name)?.upgrade(&mut self.connect()?)
    }

    fn checkpoint_sets(&self, table: &TableName) -> Result<Vec<CheckpointSet>, Error> {
        CheckpointTable::new(table)?.sets(&self.connect()?, None)
    }

    fn heartbeats(&self) -> Result<Option<Box<dyn Heartbeats>>, Error> {
        Ok(Some(Box::new(SqliteHeartbeats::open(&self.path)?)))
    }

    fn drop_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        CheckpointTable::new(name)?.drop(&mut self.connect()?)
    }

    fn create_error_queue(&self) -> Result<(), Error> {
        error_queue::create(&mut self.connect()?)
    }

    fn drop_error_queue(&self) -> Result<(), Error> {
        error_queue::drop_all(&mut self.connect()?)
    }

    fn checkpoints(&self, table: &TableName, group: &str) -> Result<Vec<CheckpointRow>, Error> {
        CheckpointTable::new(table)?.rows(&self.connect()?, Some(group))
    }

    fn insert_checkpoint(&self, table: &TableName, row: &CheckpointRow) -> Result<(), Error> {
        CheckpointTable::new(table)?.insert(&self.connect()?, row)
    }

    fn delete_checkpoint(&self, table: &TableName, group: &str, group_key: i64) -> Result<(), Error> {
        CheckpointTable::new(table)?.delete(&self.connect()?, group, group_key)
    }
}
