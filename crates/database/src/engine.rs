//! A database as a whole.

use crate::{
    CheckpointRow, CheckpointSet, CheckpointTableState, Error, ErrorClass, Heartbeats, LogKept, LogSource,
    OpenLogSource, OpenWorkView, RowLogging, Session, SessionRequest, SourceRequest, TableSelection,
};
use change::{CaseRule, LogPosition, TableDefinition, TableName};

/// Which database this is, for reports and for the header of trail files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Product name, such as `SQLite`.
    pub product: String,
    /// Product version: one word, such as `15.18`, since file headers keep it after the product with a blank between.
    pub version: String,
    /// Name of the database.
    pub name: String,
}

/// Where a database lives, for the header of trail files; what a product does not know is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the instance that holds the database.
    pub instance: String,
    /// What tells the database from all others, those of the same name included.
    pub unique_name: String,
    /// The locale by which it sorts.
    pub locale: String,
    /// The zone in which it tells times with a zone: that of the pinned settings.
    pub time_zone: String,
    /// The character set in which it keeps texts, by its name in the registry of the IANA; empty for UTF-8.
    pub character_set: String,
}

/// A table that is part of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The part.
    pub table: TableName,
    /// Its number in the database.
    pub number: u64,
    /// The table that it belongs to in the end.
    pub root: TableName,
    /// Whether it holds rows itself, and is not divided further.
    pub is_leaf: bool,
}

/// A database that Drover can capture from or apply to.
///
/// Values of this type are cheap handles: each method that talks to the database opens what it needs.
pub trait Database: Send + Sync {
    /// Which database this is.
    fn identity(&self) -> Result<Identity, Error>;

    /// Where it lives.
    fn origin(&self) -> Result<Origin, Error> {
        Ok(Origin::default())
    }

    /// How names without quotes are compared.
    fn case_rule(&self) -> CaseRule;

    /// The schema of a table name that was written without one.
    fn default_schema(&self) -> String;

    /// Definitions of all tables that belong to users, in name order. Tables that Drover installs are not among them.
    fn tables(&self) -> Result<Vec<TableDefinition>, Error>;

    /// All partitions of users' tables; `None` for a product that has none, or can't tell in which one a row lies.
    fn partitions(&self) -> Result<Option<Vec<Partition>>, Error> {
        Ok(None)
    }

    /// Installs what capture needs for `group` and returns the position of this moment: changes committed from now on will
    /// be read from there.
    ///
    /// # Errors
    /// Refuses a group that is registered already, a required table that is missing, a table that can't be captured.
    fn register_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error>;

    /// Whether [`register_capture`](Database::register_capture) knows `group`.
    fn has_capture(&self, group: &str) -> Result<bool, Error>;

    /// Removes what [`register_capture`](Database::register_capture) installed. Does nothing for an unknown group.
    fn unregister_capture(&self, group: &str) -> Result<(), Error>;

    /// Moves a registration from which nobody has read yet to this moment, and returns it as
    /// [`register_capture`](Database::register_capture) does.
    ///
    /// # Errors
    /// As [`register_capture`](Database::register_capture).
    fn begin_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        self.unregister_capture(group)?;
        self.register_capture(group, tables)
    }

    /// What the database's log holds back for `group`; `None` where a group holds nothing back that could fill a disk.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`](crate::ErrorClass::Missing) when the group is not registered.
    fn log_kept(&self, group: &str) -> Result<Option<LogKept>, Error> {
        let _ = group;
        Ok(None)
    }

    /// Bytes of a file of the log; `None` where the log has no files of one size.
    ///
    /// # Errors
    /// Any [`Error`].
    fn log_file_bytes(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// The transactions that have written something and have not ended, the oldest first; `None` where a database can't tell.
    ///
    /// # Errors
    /// Any [`Error`].
    fn open_work(&self) -> Result<Option<OpenWorkView>, Error> {
        Ok(None)
    }

    /// How much of old rows the log tells, for each table of users, in name order; `None` where there is nothing to choose.
    fn row_logging(&self) -> Result<Option<Vec<RowLogging>>, Error> {
        Ok(None)
    }

    /// Lets the log tell of old rows what identifies them, or all their columns. A table without a key always tells all.
    /// Returns what is then told.
    ///
    /// # Errors
    /// [`ErrorClass::Denied`](crate::ErrorClass::Denied) for a table of somebody else.
    fn set_row_logging(&self, table: &TableName, all_columns: bool) -> Result<RowLogging, Error> {
        let _ = all_columns;
        Err(nothing_to_choose(table))
    }

    /// Takes back what [`set_row_logging`](Database::set_row_logging) did. Returns what is then told.
    ///
    /// # Errors
    /// Refuses where updates and deletes of a table that is being captured would then fail for its users.
    fn reset_row_logging(&self, table: &TableName) -> Result<RowLogging, Error> {
        Err(nothing_to_choose(table))
    }

    /// Whether the stream of changes can tell of statements that define objects, and of sequences.
    fn tells_objects(&self) -> bool {
        false
    }

    /// Opens the stream of committed changes.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`](crate::ErrorClass::Mismatch) when the database does not hold the history that the start
    /// position speaks of; [`ErrorClass::Missing`](crate::ErrorClass::Missing) when the group is not registered or a
    /// required table is missing; [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) when a selected table can't
    /// be captured.
    fn open_source(&self, request: SourceRequest) -> Result<Box<dyn LogSource>, Error>;

    /// Opens the log as one that tells uncommitted work, from the same positions and with the same refusals as
    /// [`open_source`](Database::open_source). `None` where the database tells committed work only.
    fn open_uncommitted(&self, request: &SourceRequest) -> Result<Option<Box<dyn OpenLogSource>>, Error> {
        let _ = request;
        Ok(None)
    }

    /// The same, with prepared transactions told when they are prepared, where the database can do that.
    ///
    /// # Errors
    /// As [`open_uncommitted`](Database::open_uncommitted).
    fn open_prepared(&self, request: &SourceRequest) -> Result<Option<Box<dyn OpenLogSource>>, Error> {
        self.open_uncommitted(request)
    }

    /// Opens a connection that applies changes.
    ///
    /// A group with its key has one session at a time. Where what was sent to a session may still take effect after the
    /// session has failed, the next one waits for it here, before a checkpoint row is read.
    ///
    /// # Errors
    /// [`ErrorClass::Transient`](crate::ErrorClass::Transient) when another session of the group is at work.
    fn open_session(&self, request: SessionRequest) -> Result<Box<dyn Session>, Error>;

    /// How many sessions of a group can write at once with profit. Where there is one writer at a time it is one.
    fn appliers_max(&self) -> usize {
        1
    }

    /// What the database lacks to mark the transactions of all sessions of a group in the best way that it knows, those of so many
    /// appliers included; `None` where it lacks nothing. Sessions for which something is missing mark theirs in another way.
    ///
    /// # Errors
    /// Any [`Error`].
    fn marks_missing(&self, group: &str, group_key: i64, appliers: u32) -> Result<Option<String>, Error> {
        let _ = (group, group_key, appliers);
        Ok(None)
    }

    /// Creates a checkpoint table with its auxiliary `_lox` table and the `_grp` table of rows that belong together. Refuses
    /// when one of them exists.
    fn create_checkpoint_table(&self, name: &TableName) -> Result<(), Error>;

    /// Whether the checkpoint table exists.
    fn has_checkpoint_table(&self, name: &TableName) -> Result<bool, Error>;

    /// What is known of a checkpoint table; `None` when there is none of that name. A table of a user's is none.
    fn inspect_checkpoint_table(&self, name: &TableName) -> Result<Option<CheckpointTableState>, Error>;

    /// Adds what a checkpoint table of an earlier version lacks; returns the tables that were added.
    fn upgrade_checkpoint_table(&self, name: &TableName) -> Result<Vec<TableName>, Error>;

    /// All groups that have rows in a checkpoint table, whichever home they belong to, in the order of names and keys. None
    /// when there is no such table.
    fn checkpoint_sets(&self, table: &TableName) -> Result<Vec<CheckpointSet>, Error>;

    /// Drops a checkpoint table and the tables beside it.
    fn drop_checkpoint_table(&self, name: &TableName) -> Result<(), Error>;

    /// The heartbeat tables, whether installed or not; `None` where the product has no place for them.
    fn heartbeats(&self) -> Result<Option<Box<dyn Heartbeats>>, Error> {
        Ok(None)
    }

    /// Makes the tables and views of the error queue and the conflict log. Refuses when they are there.
    fn create_error_queue(&self) -> Result<(), Error> {
        Err(no_error_queue())
    }

    /// Drops them with all that they hold.
    fn drop_error_queue(&self) -> Result<(), Error> {
        Err(no_error_queue())
    }

    /// The rows of all groups called `group`, whichever home they belong to, and of their appliers, in the order of their
    /// keys. None when there is no such table.
    fn checkpoints(&self, table: &TableName, group: &str) -> Result<Vec<CheckpointRow>, Error>;

    /// Adds a group's row. Refuses when the table has a row of that group and key.
    fn insert_checkpoint(&self, table: &TableName, row: &CheckpointRow) -> Result<(), Error>;

    /// Removes a group's row with those of its appliers, as far as they are there.
    fn delete_checkpoint(&self, table: &TableName, group: &str, group_key: i64) -> Result<(), Error>;
}

fn no_error_queue() -> Error {
    Error::new(ErrorClass::Unsupported, "this database keeps no error queue")
}

fn nothing_to_choose(table: &TableName) -> Error {
    Error::new(ErrorClass::Unsupported, format!("there is nothing to choose for table {table}"))
        .with_next_step("nothing: this database's capture tells whole rows")
}
