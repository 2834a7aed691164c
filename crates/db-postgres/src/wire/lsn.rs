//! Places in the write-ahead log.

use std::fmt;

/// A byte position in a server's write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Reads the server's notation, two hexadecimal numbers with a slash between them.
    pub fn parse(text: &str) -> Option<Lsn> {
        let (high, low) = text.split_once('/')?;
        let part = |digits: &str| {
            let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        Some(Lsn(part(high)? << 32 | part(low)?))
    }
}

/// Writes the server's notation with leading zeros, so that comparing texts compares places.
impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{:08X}/{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_notation_reads_and_ours_sorts() {
        assert_eq!(Lsn::parse("16/B374D848"), Some(Lsn(0x16_B374_D848)));
        assert_eq!(Lsn(0x16_B374_D848).to_string(), "00000016/B374D848");
        assert!(Lsn(0x9_0000_0000).to_string() < Lsn(0x10_0000_0000).to_string());
        for text in ["", "/", "1", "1/", "/1", "1/+2", "1/123456789", "x/1", "1/2/3"] {
            assert_eq!(Lsn::parse(text), None, "{text}");
        }
    }
}
