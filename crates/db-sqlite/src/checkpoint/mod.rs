//! The checkpoint table, with the columns of the specification (seed 001).

mod layout;

pub use layout::checkpoint_script;
pub(crate) use layout::is_ours;

use crate::catalog::{self, SCHEMA};
use crate::error::{class, failed};
use crate::name::{quoted, same};
use crate::remote;
use crate::trigger;
use change::{TableName, Timestamp};
use database::{CheckpointRow, CheckpointSet, Error, ErrorClass};
use rusqlite::{Connection, OptionalExtension, params};

/// Width of LOG_CMPLT_XIDS in characters.
const TRANSACTIONS_WIDTH: usize = 2000;

/// A checkpoint table of one database.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointTable {
    name: TableName,
    main: String,
    overflow: String,
    together: String,
    update: String,
}

impl CheckpointTable {
    /// The table called `name`. Makes nothing.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`] for a schema that a SQLite database does not have.
    pub(crate) fn new(name: &TableName) -> Result<CheckpointTable, Error> {
        if !same(&name.schema, SCHEMA) {
            return Err(Error::new(
                ErrorClass::Missing,
                format!("checkpoint table {name} is in a schema that does not exist"),
            )
            .with_next_step("a sqlite database has the schema main only"));
        }
        let main = quoted(&name.table);
        let update = format!(
            "UPDATE main.{main} SET SEQNO = ?3, RBA = ?4, AUDIT_TS = ?5, CREATE_TS = ?6, LAST_UPDATE_TS = ?7, CURRENT_DIR = ?8, \
             LOG_BSN = ?9, LOG_CSN = ?10, LOG_CMPLT_CSN = ?11, LOG_CMPLT_XIDS = ?12, VERSION = ?13 \
             WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2"
        );
        let overflow = quoted(&format!("{}_lox", name.table));
        let together = quoted(&format!("{}_grp", name.table));
        Ok(CheckpointTable { name: name.clone(), main, overflow, together, update })
    }

    /// Drops all its tables, as far as they exist.
    ///
    /// # Errors
    /// [`ErrorClass::Unsupported`] when one of the names belongs to a table of a user's.
    pub(crate) fn drop(&self, connection: &mut Connection) -> Result<(), Error> {
        let what = |cause| failed(format!("could not drop checkpoint table {}", self.name), cause);
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(what)?;
        let before = catalog::schema_version(&transaction)?;
        for (name, quoted) in self.family().iter().zip([&self.main, &self.overflow, &self.together]) {
            if !catalog::column_names(&transaction, name)?.is_empty() && !is_ours(&transaction, name)? {
                return Err(Error::new(ErrorClass::Unsupported, format!("main.{name} is not a checkpoint table"))
                    .with_next_step("name the table that ADD CHECKPOINTTABLE created"));
            }
            transaction.execute_batch(&format!("DROP TABLE IF EXISTS main.{quoted}")).map_err(what)?;
        }
        remote::forget(&transaction).map_err(what)?;
        trigger::note_own_change(&transaction, before)?;
        transaction.commit().map_err(what)
    }

    /// Adds a group's row.
    pub(crate) fn insert(&self, connection: &Connection, row: &CheckpointRow) -> Result<(), Error> {
        let insert = || -> rusqlite::Result<usize> {
            let transaction = connection.unchecked_transaction()?;
            self.insert_blank(&transaction, row)?;
            let written = self.write(&transaction, row)?;
            transaction.commit()?;
            Ok(written)
        };
        insert().map(|_| ()).map_err(|cause| {
            let what = format!("could not add the row of group {} to checkpoint table {}", row.group_name, self.name);
            let exists = cause.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation);
            let error = failed(what, cause);
            if exists { error.with_next_step("the group has a row already: delete the group first") } else { error }
        })
    }

    /// Adds a row of a name and key, for [`write`](CheckpointTable::write) to fill.
    fn insert_blank(&self, connection: &Connection, row: &CheckpointRow) -> rusqlite::Result<usize> {
        let sql = format!(
            "INSERT INTO main.{} (GROUP_NAME, GROUP_KEY, RBA, CREATE_TS, LAST_UPDATE_TS, CURRENT_DIR) \
             VALUES (?1, ?2, 0, '', '', '')",
            self.main
        );
        connection.execute(&sql, params![row.group_name, row.group_key])
    }

    /// Replaces a group's row.
    pub(crate) fn update(&self, connection: &Connection, row: &CheckpointRow) -> Result<(), Error> {
        let written = self.write(connection, row).map_err(|cause| {
            failed(
                format!("could not write the row of group {} in checkpoint table {}", row.group_name, self.name),
                cause,
            )
        })?;
        if written == 1 { Ok(()) } else { Err(self.row_is_gone(&row.group_name)) }
    }

    fn row_is_gone(&self, group: &str) -> Error {
        Error::new(ErrorClass::Missing, format!("checkpoint table {} has no row of group {group}", self.name))
            .with_next_step("somebody removed it; put it back, or delete and add the group and compare the tables")
    }

    fn write(&self, connection: &Connection, row: &CheckpointRow) -> rusqlite::Result<usize> {
        let mut pieces = transaction_pieces(&row.log_complete_transactions);
        let written = connection.prepare_cached(&self.update)?.execute(params![
            row.group_name,
            row.group_key,
            row.sequence,
            row.rba as i64,
            row.audit_time.map(|time| format!("{time}000")),
            row.created.to_string(),
            row.updated.to_string(),
            row.directory,
            row.log_bsn,
            row.log_csn,
            row.log_complete_csn,
            pieces.next(),
            row.version,
        ])?;
        let overflow = &self.overflow;
        let delete = format!("DELETE FROM main.{overflow} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2");
        connection.prepare_cached(&delete)?.execute(params![row.group_name, row.group_key])?;
        for (place, piece) in pieces.enumerate() {
            let insert = format!(
                "INSERT INTO main.{overflow} (GROUP_NAME, GROUP_KEY, LOG_CMPLT_CSN, LOG_CMPLT_XIDS_SEQ, LOG_CMPLT_XIDS) \
                 VALUES (?1, ?2, ?3, ?4, ?5)"
            );
            let low = row.log_complete_csn.as_deref().unwrap_or_default();
            connection.prepare_cached(&insert)?.execute(params![
                row.group_name,
                row.group_key,
                low,
                place as i64,
                piece
            ])?;
        }
        Ok(written)
    }

    /// Where a group's row stands; `None` without the row or the table.
    pub(crate) fn place(&self, connection: &Connection, group: &str, group_key: i64) -> Result<Option<Place>, Error> {
        let main = &self.main;
        let sql = format!("SELECT SEQNO, RBA, LOG_CSN FROM main.{main} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2");
        let read = || -> rusqlite::Result<Option<Place>> {
            let mut statement = connection.prepare_cached(&sql)?;
            let place = |row: &rusqlite::Row<'_>| {
                let sequence = row.get::<_, Option<u32>>(0)?.unwrap_or_default();
                Ok(Place { sequence, rba: row.get::<_, i64>(1)? as u64, csn: row.get(2)? })
            };
            statement.query_row(params![group, group_key], place).optional()
        };
        match read() {
            Err(cause) if class(&cause) == ErrorClass::Permanent && !self.exists(connection)? => Ok(None),
            place => place.map_err(|cause| {
                failed(format!("could not read the row of group {group} in checkpoint table {}", self.name), cause)
            }),
        }
    }

    /// The rows of all groups, or of those called `group`, in the order of names and keys; none without the table.
    pub(crate) fn rows(&self, connection: &Connection, group: Option<&str>) -> Result<Vec<CheckpointRow>, Error> {
        self.read_rows(connection, group, false)
    }

    /// The same; with a group's rows come those of threads that have its name with three digits behind it, if they are wanted.
    fn read_rows(
        &self,
        connection: &Connection,
        group: Option<&str>,
        with_threads: bool,
    ) -> Result<Vec<CheckpointRow>, Error> {
        if !self.exists(connection)? {
            return Ok(Vec::new());
        }
        let what = || match group {
            Some(group) => format!("could not read the row of group {group} in checkpoint table {}", self.name),
            None => format!("could not read checkpoint table {}", self.name),
        };
        let read = || -> rusqlite::Result<Vec<Stored>> {
            let main = &self.main;
            let mut statement = connection.prepare(&format!(
                "SELECT GROUP_NAME, GROUP_KEY, SEQNO, RBA, AUDIT_TS, CREATE_TS, LAST_UPDATE_TS, CURRENT_DIR, LOG_BSN, LOG_CSN, \
                 LOG_CMPLT_CSN, LOG_CMPLT_XIDS, VERSION FROM main.{main} WHERE GROUP_NAME = coalesce(?1, GROUP_NAME) \
                 OR (?2 AND substr(GROUP_NAME, 1, length(GROUP_NAME) - 3) = ?1) ORDER BY GROUP_NAME, GROUP_KEY"
            ))?;
            statement.query_map(params![group, with_threads], Stored::read)?.collect()
        };
        let finish = |stored: Stored| {
            let (group, key) = (stored.row.group_name.clone(), stored.row.group_key);
            let mut row = stored.finish().ok_or_else(|| {
                Error::new(ErrorClass::Corrupt, what())
                    .with_next_step("one of its time stamps is unreadable: restore the row")
            })?;
            let more = self.overflow(connection, &group, key).map_err(|cause| failed(what(), cause))?;
            row.log_complete_transactions.extend(more.iter().flat_map(|piece| split(piece)));
            Ok(row)
        };
        read().map_err(|cause| failed(what(), cause))?.into_iter().map(finish).collect()
    }

    /// What of a row's list of transactions stands in the auxiliary table, piece by piece.
    fn overflow(&self, connection: &Connection, group: &str, group_key: i64) -> rusqlite::Result<Vec<String>> {
        let overflow = &self.overflow;
        let mut statement = connection.prepare(&format!(
            "SELECT LOG_CMPLT_XIDS FROM main.{overflow} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2 ORDER BY LOG_CMPLT_XIDS_SEQ"
        ))?;
        statement.query_map(params![group, group_key], |row| row.get(0))?.collect()
    }

    /// All that the table holds of a group.
    pub(crate) fn set(&self, connection: &Connection, group: &str, key: i64) -> Result<Option<CheckpointSet>, Error> {
        let sets = self.sets(connection, Some(group))?;
        Ok(sets.into_iter().find(|set| set.group.group_key == key))
    }

    /// All that the table holds of all groups, or of those called `group`; none without the table.
    pub(crate) fn sets(&self, connection: &Connection, group: Option<&str>) -> Result<Vec<CheckpointSet>, Error> {
        let what = |cause| failed(format!("could not read checkpoint table {}", self.name), cause);
        // A read transaction: all of one moment.
        let moment = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose();
        let _moment = moment.map_err(what)?;
        let rows = self.read_rows(connection, group, true)?;
        if !self.has_together(connection)? {
            return Ok(CheckpointSet::assemble(rows, []));
        }
        let notes = || -> rusqlite::Result<Vec<_>> {
            let mut statement = connection
                .prepare(&format!("SELECT GROUP_NAME, GROUP_KEY, APPLIERS, MAP_HASH FROM main.{}", self.together))?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
        };
        Ok(CheckpointSet::assemble(rows, notes().map_err(what)?))
    }

    /// Whether the table of rows that belong together is there; tables made by an earlier version have none.
    fn has_together(&self, connection: &Connection) -> Result<bool, Error> {
        is_ours(connection, &format!("{}_grp", self.name.table))
    }

    /// Replaces all that the table holds of a group, inside the open transaction.
    pub(crate) fn replace(&self, connection: &Connection, set: &CheckpointSet) -> Result<(), Error> {
        let (group, key) = (&set.group.group_name, set.group.group_key);
        if !self.has_together(connection)? {
            let what = format!("checkpoint table {} has no table {}_grp beside it", self.name, self.name.table);
            return Err(
                Error::new(ErrorClass::Missing, what).with_next_step(format!("UPGRADE CHECKPOINTTABLE {}", self.name))
            );
        }
        self.update(connection, &set.group)?;
        let replace = || -> rusqlite::Result<()> {
            self.delete_appliers(connection, group, key)?;
            for row in &set.appliers {
                self.insert_blank(connection, row)?;
                self.write(connection, row)?;
            }
            let sql = format!(
                "INSERT OR REPLACE INTO main.{} (GROUP_NAME, GROUP_KEY, APPLIERS, MAP_HASH) VALUES (?1, ?2, ?3, ?4)",
                self.together
            );
            connection.execute(&sql, params![group, key, set.appliers_wanted, set.map_hash])?;
            Ok(())
        };
        replace().map_err(|cause| {
            failed(format!("could not write the rows of group {group} in checkpoint table {}", self.name), cause)
        })
    }

    /// Takes a group's rows of appliers and its note away; does nothing in a table made by an earlier version.
    fn delete_appliers(&self, connection: &Connection, group: &str, key: i64) -> rusqlite::Result<()> {
        let exists = "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1, 'main'))";
        if !connection.query_row(exists, [format!("{}_grp", self.name.table)], |row| row.get::<_, bool>(0))? {
            return Ok(());
        }
        let together = &self.together;
        for table in [&self.overflow, &self.main] {
            let sql = format!(
                "DELETE FROM main.{table} WHERE GROUP_NAME IN (?1, ?1 || printf('%03d', GROUP_KEY - ?2)) \
                 AND GROUP_KEY > ?2 AND GROUP_KEY <= \
                 (SELECT GROUP_KEY + APPLIERS FROM main.{together} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2)"
            );
            connection.execute(&sql, params![group, key])?;
        }
        let sql = format!("DELETE FROM main.{together} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2");
        connection.execute(&sql, params![group, key])?;
        Ok(())
    }

    /// Removes a group's row with those of its appliers, as far as they are there.
    pub(crate) fn delete(&self, connection: &Connection, group: &str, group_key: i64) -> Result<(), Error> {
        let delete = || -> rusqlite::Result<()> {
            let transaction = connection.unchecked_transaction()?;
            self.delete_appliers(&transaction, group, group_key)?;
            for table in [&self.overflow, &self.main] {
                let sql = format!("DELETE FROM main.{table} WHERE GROUP_NAME = ?1 AND GROUP_KEY = ?2");
                transaction.execute(&sql, params![group, group_key])?;
            }
            transaction.commit()
        };
        match delete() {
            Err(cause) if class(&cause) == ErrorClass::Permanent && !self.exists(connection)? => Ok(()),
            result => result.map_err(|cause| {
                failed(format!("could not delete the row of group {group} from checkpoint table {}", self.name), cause)
            }),
        }
    }
}

/// Where a group's row stands: the part that every transaction of the group moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    sequence: u32,
    rba: u64,
    csn: Option<String>,
}

impl From<&CheckpointRow> for Place {
    fn from(row: &CheckpointRow) -> Place {
        Place { sequence: row.sequence, rba: row.rba, csn: row.log_csn.clone() }
    }
}

/// A row with its times still as text.
struct Stored {
    row: CheckpointRow,
    audit_time: Option<String>,
    created: String,
    updated: String,
}

impl Stored {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Stored> {
        let nowhen = Timestamp::default();
        Ok(Stored {
            audit_time: row.get(4)?,
            created: row.get(5)?,
            updated: row.get(6)?,
            row: CheckpointRow {
                group_name: row.get(0)?,
                group_key: row.get(1)?,
                sequence: row.get::<_, Option<u32>>(2)?.unwrap_or_default(),
                rba: row.get::<_, i64>(3)? as u64,
                audit_time: None,
                created: nowhen,
                updated: nowhen,
                directory: row.get(7)?,
                log_bsn: row.get(8)?,
                log_csn: row.get(9)?,
                log_complete_csn: row.get(10)?,
                log_complete_transactions: row
                    .get::<_, Option<String>>(11)?
                    .map(|piece| split(&piece).collect())
                    .unwrap_or_default(),
                version: row.get::<_, Option<i32>>(12)?.unwrap_or(1),
            },
        })
    }

    fn finish(self) -> Option<CheckpointRow> {
        let audit_time = match self.audit_time {
            Some(text) => Some(instant(&text)?),
            None => None,
        };
        Some(CheckpointRow {
            audit_time,
            created: instant(&self.created)?,
            updated: instant(&self.updated)?,
            ..self.row
        })
    }
}

fn split(piece: &str) -> impl Iterator<Item = String> + use<'_> {
    piece.split(',').filter(|transaction| !transaction.is_empty()).map(str::to_owned)
}

/// Comma lists that fit the column, without cutting a transaction's identifier in two.
fn transaction_pieces(transactions: &[String]) -> impl Iterator<Item = String> + use<> {
    let mut pieces: Vec<String> = Vec::new();
    for transaction in transactions {
        match pieces.last_mut() {
            Some(piece) if piece.len() + 1 + transaction.len() <= TRANSACTIONS_WIDTH => {
                piece.push(',');
                piece.push_str(transaction);
            }
            _ => pieces.push(transaction.clone()),
        }
    }
    pieces.into_iter()
}

/// Reads `YYYY-MM-DD HH:MM:SS[.fraction]`, UTC, to the microsecond.
fn instant(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once(' ')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && (-9999..=9999).contains(&year);
    if !in_range || !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(6).collect();
    let micros: i64 = digits.parse().ok()?;
    let seconds = days_from_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Timestamp::from_unix_micros(seconds * 1_000_000 + micros))
}

/// Day number of a date of the proleptic Gregorian calendar, counted from 1970-01-01. Counts in years that start on
/// 1 March, so that the leap day is the last day of a year.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_written_are_times_read() {
        for micros in
            [0, -1, 951_782_400_000_000, 1_390_468_627_072_993, 4_107_542_399_000_000, -62_135_596_800_000_000]
        {
            let time = Timestamp::from_unix_micros(micros);
            assert_eq!(instant(&time.to_string()), Some(time), "{time}");
            assert_eq!(instant(&format!("{time}000")), Some(time), "{time}");
        }
        for text in ["", "2024-01-01", "2024-13-01 00:00:00", "x-01-01 00:00:00", "2024-01-01 24:00:00"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }

    #[test]
    fn transactions_are_cut_into_pieces_that_fit() {
        let transactions: Vec<String> = (0..500).map(|number| format!("{number:020}")).collect();
        let pieces: Vec<String> = transaction_pieces(&transactions).collect();
        assert!(pieces.iter().all(|piece| piece.len() <= TRANSACTIONS_WIDTH));
        assert_eq!(pieces.iter().flat_map(|piece| split(piece)).collect::<Vec<_>>(), transactions);
    }
}
