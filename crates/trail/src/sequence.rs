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

/// What the files of a trail are called: two characters and a number of nine or six digits; or, for a single file, its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrailName {
    text: [u8; TrailName::SINGLE_BYTES_MAX],
    length: u8,
    /// 0 for a single file.
    digits: u8,
}

impl TrailName {
    /// Longest name of a single file.
    pub const SINGLE_BYTES_MAX: usize = 60;

    /// A name from its text: two ASCII letters or digits, a letter first. Its files have nine digits.
    ///
    /// # Errors
    /// [`Error::Name`] for any other text.
    pub fn parse(text: &str) -> Result<TrailName, Error> {
        match text.as_bytes() {
            [first, second] if first.is_ascii_alphabetic() && second.is_ascii_alphanumeric() => {
                Ok(TrailName::of(text, 9))
            }
            _ => Err(Error::Name { text: text.to_owned() }),
        }
    }

    /// A file of its own, which is never followed by another one (EXTFILE, RMTFILE).
    ///
    /// # Errors
    /// [`Error::Name`] for a text that is longer than [`SINGLE_BYTES_MAX`](TrailName::SINGLE_BYTES_MAX), not a plain file
    /// name, or a name that a trail of two characters would give to one of its files.
    pub fn single(text: &str) -> Result<TrailName, Error> {
        let is_plain = !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\\', '\0']);
        let is_beside = [".safe", ".lock", ".new"].iter().any(|end| text.ends_with(end));
        if is_plain && !is_beside && !is_numbered(text) && text.len() <= TrailName::SINGLE_BYTES_MAX {
            Ok(TrailName::of(text, 0))
        } else {
            Err(Error::Name { text: text.to_owned() })
        }
    }

    fn of(text: &str, digits: u8) -> TrailName {
        let mut bytes = [0; TrailName::SINGLE_BYTES_MAX];
        bytes.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        TrailName { text: bytes, length: text.len() as u8, digits }
    }

    /// The same trail with files of six digits, as up to release 12.1; a single file stays as it is.
    pub fn with_six_digits(self) -> TrailName {
        TrailName { digits: self.digits.min(6), ..self }
    }

    /// Whether it is a file of its own.
    pub fn is_single(&self) -> bool {
        self.digits == 0
    }

    /// Highest file number that the digits can show.
    pub fn sequence_max(&self) -> u32 {
        10_u32.pow(u32::from(self.digits)) - 1
    }

    /// What file `sequence` of this trail is called when the trail itself is called `trail`.
    pub fn numbered(&self, trail: &str, sequence: u32) -> String {
        if self.is_single() {
            trail.to_owned()
        } else {
            format!("{trail}{sequence:0width$}", width = self.digits.into())
        }
    }

    /// Name of file `sequence` of this trail.
    pub fn file(&self, sequence: u32) -> String {
        self.numbered(self.as_str(), sequence)
    }

    /// The number of the file called `name`, if it is a file of this trail.
    pub fn sequence_of(&self, name: &str) -> Option<u32> {
        if self.is_single() {
            return (name == self.as_str()).then_some(0);
        }
        let digits = name.strip_prefix(self.as_str())?;
        let is_number = digits.len() == usize::from(self.digits) && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| digits.parse().ok())?
    }

    /// The same trail with the number of digits that its files among `names` have, as it is when there are none.
    pub(crate) fn found_among(self, names: &[String]) -> TrailName {
        let other = TrailName { digits: if self.digits == 9 { 6 } else { 9 }, ..self };
        let has = |trail: TrailName| names.iter().any(|name| trail.sequence_of(name).is_some());
        if !self.is_single() && !has(self) && has(other) { other } else { self }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..usize::from(self.length)]).unwrap_or("??")
    }

    /// Name of the file that tells how far readers may go.
    pub fn safe_file(&self) -> String {
        format!("{self}.safe")
    }

    pub(crate) fn lock_file(&self) -> String {
        format!("{self}.lock")
    }
}

/// Whether a trail of two characters has a file of this name.
fn is_numbered(name: &str) -> bool {
    let trail = name.get(..2).and_then(|start| TrailName::parse(start).ok());
    trail.is_some_and(|trail| trail.sequence_of(name).or(trail.with_six_digits().sequence_of(name)).is_some())
}

impl fmt::Display for TrailName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl fmt::Debug for TrailName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TrailName({}, {} digits)", self.as_str(), self.digits)
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
    fn a_trail_of_six_digits_is_found_and_a_single_file_has_no_number() {
        let trail = TrailName::parse("aa").expect("two letters");
        let six = trail.with_six_digits();
        assert_eq!((six.file(42), six.sequence_max()), ("aa000042".to_owned(), 999_999));
        assert_eq!((six.sequence_of("aa000042"), six.sequence_of("aa000000042")), (Some(42), None));
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(trail.found_among(&names(&["ab000000001", "aa000001"])), six);
        assert_eq!(trail.found_among(&names(&["aa000000001", "aa000001"])), trail);
        assert_eq!(six.found_among(&names(&["aa.safe"])), six);
        let single = TrailName::single("load.ext").expect("a file name");
        assert_eq!(
            (single.file(0), single.sequence_of("load.ext"), single.sequence_max()),
            ("load.ext".into(), Some(0), 0)
        );
        assert_eq!(single.sequence_of("load.ext000000000"), None);
        for text in ["", ".x", "a/b", "aa000000001", "aa000001", "aa.safe", "x.lock", "x.new", &"x".repeat(61)] {
            assert!(TrailName::single(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_trail_name_is_two_characters() {
        for text in ["", "a", "aaa", "1a", "a/", "é"] {
            assert!(TrailName::parse(text).is_err(), "{text}");
        }
    }
}
