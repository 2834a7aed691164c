//! Numbers in either byte order, and a cursor that can't run over the end.

use crate::Damage;
use change::Timestamp;

/// Order of the bytes of lengths, indexes and header numbers. Column values are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowest byte first; what this version writes.
    Little,
    /// Highest byte first.
    Big,
}

impl Order {
    /// The other one.
    pub fn other(self) -> Order {
        match self {
            Order::Little => Order::Big,
            Order::Big => Order::Little,
        }
    }

    /// The number in two bytes.
    #[inline]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    /// The two bytes of a number.
    #[inline]
    pub fn of_u16(self, value: u16) -> [u8; 2] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    /// The four bytes of a number.
    #[inline]
    pub fn of_u32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    /// The eight bytes of a number.
    #[inline]
    pub fn of_u64(self, value: u64) -> [u8; 8] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }
}

/// Reads one thing after the other from a slice.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    length: usize,
    order: Order,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8], order: Order) -> Cursor<'a> {
        Cursor { rest: bytes, length: bytes.len(), order }
    }

    /// The byte order.
    #[inline]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Bytes read so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.length.saturating_sub(self.rest.len())
    }

    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes; `what` names them in the error.
    ///
    /// # Errors
    /// [`Damage::Short`], here and in all methods below.
    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Damage> {
        if change::sabotage::is_on("trust-declared-lengths") {
            let (taken, rest) = self.rest.split_at(count);
            self.rest = rest;
            return Ok(taken);
        }
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Damage::Short { what, needed: count as u64, left: self.rest.len() as u64 }),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Damage> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Damage::Short { what, needed: N as u64, left: self.rest.len() as u64 }),
        }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Damage> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// Two bytes as a number.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Damage> {
        let bytes = self.array(what)?;
        Ok(self.order.u16(bytes))
    }

    /// Four bytes as a number.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Damage> {
        let bytes = self.array(what)?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    /// Eight bytes as a number.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Damage> {
        let bytes = self.array(what)?;
        Ok(match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    /// A string: two bytes of length, then UTF-8. Bytes that are not UTF-8 are replaced.
    pub fn string(&mut self, what: &'static str) -> Result<String, Damage> {
        let length = self.u16(what)?;
        Ok(String::from_utf8_lossy(self.take(usize::from(length), what)?).into_owned())
    }
}

/// Longest string that [`put_string`] writes.
pub const STRING_BYTES_MAX: usize = 65_535;

/// Appends a string: two bytes of length, then its bytes, at most [`STRING_BYTES_MAX`] of them.
pub fn put_string(buffer: &mut Vec<u8>, order: Order, text: &str) {
    let text = clip(text, STRING_BYTES_MAX);
    buffer.extend_from_slice(&order.of_u16(u16::try_from(text.len()).unwrap_or(u16::MAX)));
    buffer.extend_from_slice(text.as_bytes());
}

/// The longest beginning of `text` that has at most `bytes_max` bytes.
pub fn clip(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

/// Microseconds from Julian day 0 (-4713-11-24 12:00 UTC) to 1970-01-01 00:00 UTC.
const JULIAN_MICROS_OF_UNIX_EPOCH: u64 = 210_866_760_000_000_000;

/// The instant as a trail counts it: microseconds since Julian day 0.
///
/// The addition wraps, so that even an instant out of all calendars comes back as it was.
#[inline]
pub fn julian_micros(time: Timestamp) -> u64 {
    time.unix_micros.cast_unsigned().wrapping_add(JULIAN_MICROS_OF_UNIX_EPOCH)
}

/// The instant that a trail counts as `micros`.
#[inline]
pub fn from_julian_micros(micros: u64) -> Timestamp {
    Timestamp::from_unix_micros(micros.wrapping_sub(JULIAN_MICROS_OF_UNIX_EPOCH).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn julian_time_agrees_with_published_samples() {
        let text = |micros| from_julian_micros(micros).to_string();
        assert_eq!(text(0x02F2_16D3_2953_57E1), "2014-01-23 09:17:07.072993");
        assert_eq!(text(0x02F2_9DAF_3D9E_3966), "2018-10-05 14:06:58.451814");
    }

    #[test]
    fn every_instant_comes_back() {
        for micros in [0, 1, -1, i64::MAX, i64::MIN, 1_700_000_000_000_000] {
            let time = Timestamp::from_unix_micros(micros);
            assert_eq!(from_julian_micros(julian_micros(time)), time);
        }
    }

    #[test]
    fn a_cursor_stops_at_the_end() {
        let mut cursor = Cursor::new(&[1, 2, 3], Order::Big);
        assert_eq!(cursor.u16("a"), Ok(0x0102));
        assert_eq!(cursor.u32("b"), Err(Damage::Short { what: "b", needed: 4, left: 1 }));
        assert_eq!((cursor.position(), cursor.u8("c")), (2, Ok(3)));
        assert!(cursor.is_empty());
    }
}
