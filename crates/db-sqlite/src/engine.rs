//! A SQLite database as a whole.

use change::{CaseRule, LogPosition, TableDefinition, TableName};
use database::{
    CheckpointRow, Database, Error, ErrorClass, Identity, LogSource, Session, SessionRequest, SourceRequest,
    TableSelection,
};
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

fn unfinished<T>() -> Result<T, Error> {
    Err(Error::new(ErrorClass::Unsupported, "not available for sqlite yet"))
}

impl Database for SqliteDatabase {
    fn identity(&self) -> Result<Identity, Error> {
        Ok(Identity {
            product: "SQLite".into(),
            version: rusqlite::version().into(),
            name: self.path.display().to_string(),
        })
    }

    fn case_rule(&self) -> CaseRule {
        CaseRule::Insensitive
    }

    fn default_schema(&self) -> String {
        "main".into()
    }

    fn tables(&self) -> Result<Vec<TableDefinition>, Error> {
        unfinished()
    }

    fn register_capture(&self, _group: &str, _tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        unfinished()
    }

    fn unregister_capture(&self, _group: &str) -> Result<(), Error> {
        unfinished()
    }

    fn open_source(&self, _request: SourceRequest) -> Result<Box<dyn LogSource>, Error> {
        unfinished()
    }

    fn open_session(&self, _request: SessionRequest) -> Result<Box<dyn Session>, Error> {
        unfinished()
    }

    fn create_checkpoint_table(&self, _name: &TableName) -> Result<(), Error> {
        unfinished()
    }

    fn has_checkpoint_table(&self, _name: &TableName) -> Result<bool, Error> {
        unfinished()
    }

    fn drop_checkpoint_table(&self, _name: &TableName) -> Result<(), Error> {
        unfinished()
    }

    fn insert_checkpoint(&self, _table: &TableName, _row: &CheckpointRow) -> Result<(), Error> {
        unfinished()
    }

    fn delete_checkpoint(&self, _table: &TableName, _group: &str, _group_key: i64) -> Result<(), Error> {
        unfinished()
    }
}
