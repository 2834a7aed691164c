//! Places in the change table.

use crate::error::failed;
use change::LogPosition;
use database::{Error, ErrorClass};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::fmt;

/// The place behind a row of the change table, with what it takes to know the row again: a database that was restored
/// from a backup has another row there, or none.
///
/// As text: the row's number with 20 digits, the installation's name, the row's checksum in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: i64,
    pub(crate) incarnation: String,
    pub(crate) digest: u32,
}

impl Place {
    /// The place behind row `seq`.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`] when there is no such row.
    pub(crate) fn of(connection: &Connection, seq: i64) -> Result<Place, Error> {
        let read = || -> rusqlite::Result<Option<u32>> {
            let mut statement = connection.prepare_cached("SELECT * FROM drover_change WHERE seq = ?1")?;
            let columns = statement.column_count();
            let mut rows = statement.query([seq])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let values = (0..columns).map(|index| row.get_ref(index)).collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(Some(digest(&values)))
        };
        let digest = read().map_err(|cause| failed(format!("could not read change {seq}"), cause))?;
        let Some(digest) = digest else { return Err(replaced(seq)) };
        Ok(Place { seq, incarnation: crate::trigger::incarnation(connection)?, digest })
    }

    /// Reads a position.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`] for a position of another kind of database.
    pub(crate) fn parse(position: &LogPosition) -> Result<Place, Error> {
        let mut parts = position.as_str().splitn(3, '-');
        let parse = || -> Option<Place> {
            let seq = parts.next()?.parse().ok()?;
            let incarnation = parts.next()?.to_owned();
            let digest = u32::from_str_radix(parts.next()?, 16).ok()?;
            Some(Place { seq, incarnation, digest })
        };
        let mut parse = parse;
        parse().ok_or_else(|| {
            Error::new(ErrorClass::Mismatch, format!("{position} is not a position in a sqlite database"))
                .with_next_step("check which database the group was registered in")
        })
    }

    /// Checks that the database still holds the history that led here.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`] when it does not.
    pub(crate) fn verify(&self, connection: &Connection) -> Result<(), Error> {
        let found = Place::of(connection, self.seq)?;
        let is_ours = &found == self || change::sabotage::is_on("skip-history-check");
        if is_ours { Ok(()) } else { Err(replaced(self.seq)) }
    }

    pub(crate) fn position(&self) -> LogPosition {
        LogPosition::new(self.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:020}-{}-{:08x}", self.seq, self.incarnation, self.digest)
    }
}

/// The error for a history that is not ours.
pub(super) fn replaced(seq: i64) -> Error {
    Error::new(
        ErrorClass::Mismatch,
        format!("the database does not hold change {seq} as it was read: it was replaced or restored from a backup"),
    )
    .with_next_step("delete and add the Extract, and load or compare the target's tables")
}

/// Checksum of a row of the change table. Columns that were added later are NULL in older rows, so NULLs at the end do not
/// count.
fn digest(values: &[ValueRef<'_>]) -> u32 {
    let used = values.iter().rposition(|value| *value != ValueRef::Null).map_or(0, |last| last + 1);
    let mut hasher = crc32fast::Hasher::new();
    for value in &values[..used] {
        let (class, bytes): (u8, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(number) => (1, &number.to_le_bytes()),
            ValueRef::Real(number) => (2, &number.to_bits().to_le_bytes()),
            ValueRef::Text(bytes) => (3, bytes),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        hasher.update(&[class]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_and_sorts_as_its_number() {
        let place = |seq| Place { seq, incarnation: "00ff00ff00ff00ff".to_owned(), digest: 0xABC };
        assert_eq!(Place::parse(&place(9).position()).expect("it was written by us"), place(9));
        assert!(place(9).position() < place(10).position());
        for text in ["", "1", "1-a", "x-a-1", "1-a-zz"] {
            assert!(Place::parse(&LogPosition::new(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_added_later_do_not_change_the_checksum() {
        let short = [ValueRef::Integer(1), ValueRef::Null, ValueRef::Text(b"a")];
        let long = [ValueRef::Integer(1), ValueRef::Null, ValueRef::Text(b"a"), ValueRef::Null, ValueRef::Null];
        assert_eq!(digest(&short), digest(&long));
        assert_ne!(digest(&short), digest(&short[..1]));
        assert_ne!(digest(&[ValueRef::Text(b"1")]), digest(&[ValueRef::Blob(b"1")]));
    }
}
