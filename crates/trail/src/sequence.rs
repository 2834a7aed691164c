//! Trail names, file names and positions.

use crate::Error;
use std::fmt;

/// A place in a trail: a file and a byte in it, where a record starts or the last one ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Number of the file.
    pub sequence: u32,
    /// Relative byte address: offset in the file.
    pub rba: u64,
}

impl Position {
    /// The position at byte `rba` of file `sequence`.
    pub fn new(sequence: u32, rba: u64) -> Position {
        Position { sequence, rba }
    }

    /// Reads the form that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Position> {
        let (sequence, rba) = text.split_once(':')?;
        Some(Position { sequence: sequence.parse().ok()?, rba: rba.parse().ok()? })
    }
}

/// Writes the file's nine digits, a colon and the byte: `000000003:1234`.
impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{:09}:{}", self.sequence, self.rba))
    }
}

/// The two characters that all files of a trail start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrailName([u8; 2]);

impl TrailName {
    /// Highest file number that nine digits can show.
    pub const SEQUENCE_MAX: u32 = 999_999_999;

    /// A name from its text: two ASCII letters or digits, a letter first.
    ///
    /// # Errors
    /// [`Error::Name`] for any other text.
    pub fn parse(text: &str) -> Result<TrailName, Error> {
        match text.as_bytes() {
            &[first, second] if first.is_ascii_alphabetic() && second.is_ascii_alphanumeric() => {
                Ok(TrailName([first, second]))
            }
            _ => Err(Error::Name { text: text.to_owned() }),
        }
    }

    /// Name of file `sequence` of this trail.
    pub fn file(&self, sequence: u32) -> String {
        format!("{self}{sequence:09}")
    }

    /// The number of the file called `name`, if it is a file of this trail.
    pub fn sequence_of(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&*self.to_string())?;
        (digits.len() == 9 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
    }

    /// Name of the file that publishes how far this trail is synced.
    pub fn safe_file(&self) -> String {
        format!("{self}.safe")
    }

    pub(crate) fn lock_file(&self) -> String {
        format!("{self}.lock")
    }
}

impl fmt::Display for TrailName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(std::str::from_utf8(&self.0).unwrap_or("??"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ordered_by_file_then_byte_and_read_back_from_their_text() {
        let position = Position::new(3, 1234);
        assert_eq!(position.to_string(), "000000003:1234");
        assert_eq!(Position::parse("000000003:1234"), Some(position));
        assert_eq!(Position::parse("3"), None);
        assert!(Position::new(2, 9999) < position && position < Position::new(3, 1235));
    }

    #[test]
    fn only_files_of_the_trail_have_a_number() {
        let trail = TrailName::parse("aa").expect("two letters");
        assert_eq!(trail.file(42), "aa000000042");
        assert_eq!(trail.sequence_of("aa000000042"), Some(42));
        for other in ["ab000000042", "aa42", "aa.safe", "aa0000000420", "aa00000004x", ""] {
            assert_eq!(trail.sequence_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_trail_name_is_two_characters() {
        for text in ["", "a", "aaa", "1a", "a/", "é"] {
            assert!(TrailName::parse(text).is_err(), "{text}");
        }
    }
}
