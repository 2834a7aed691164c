//! Partitions of a table, by name (PNR).
//!
//! A record of IOType 170 and kind 4 whose object is the name, a NUL, a 64-bit identifier and 32 bits of flags. The length of
//! the whole is public; how the last twelve bytes are split is not.

use super::bytes::{Cursor, Order};
use crate::Damage;

/// Longest name of a partition.
pub const NAME_BYTES_MAX: usize = 1000;

/// A partition of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PartitionName {
    /// Its name.
    pub name: String,
    /// Its number in the source database.
    pub id: u64,
    /// 1 for a partition that is told by PARTITION.
    pub flags: u32,
}

impl PartitionName {
    /// Appends what stands in `H` after its fixed part.
    pub fn put(&self, buffer: &mut Vec<u8>, order: Order) {
        buffer.extend_from_slice(self.name.as_bytes());
        buffer.push(0);
        buffer.extend_from_slice(&order.of_u64(self.id));
        buffer.extend_from_slice(&order.of_u32(self.flags));
    }

    /// Reads what [`put`](PartitionName::put) appends.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn read(bytes: &[u8], order: Order) -> Result<PartitionName, Damage> {
        const WHAT: &str = "partition";
        const NUMBERS: usize = 12;
        let Some((name, numbers)) = bytes.split_last_chunk::<NUMBERS>() else {
            return Err(Damage::Short { what: WHAT, needed: NUMBERS as u64, left: bytes.len() as u64 });
        };
        let Some((0, name)) = name.split_last() else { return Err(Damage::Content("a partition's name does not end")) };
        let name = std::str::from_utf8(name).map_err(|_| Damage::Content("a partition's name is not UTF-8"))?;
        let mut cursor = Cursor::new(numbers, order);
        Ok(PartitionName { name: name.to_owned(), id: cursor.u64(WHAT)?, flags: cursor.u32(WHAT)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published record of this partition stands at RBA 3425 and the next one at 3486.
    #[test]
    fn a_partition_has_the_published_length_and_comes_back() {
        let partition = PartitionName { name: "P1".to_owned(), id: 75_234, flags: 1 };
        for order in [Order::Little, Order::Big] {
            let mut bytes = Vec::new();
            partition.put(&mut bytes, order);
            assert_eq!(4 + 4 + 34 + bytes.len() + 4, 3486 - 3425);
            assert_eq!(PartitionName::read(&bytes, order), Ok(partition.clone()));
            for length in 0..bytes.len() {
                assert!(PartitionName::read(&bytes[..length], order).is_err(), "cut to {length} bytes");
            }
        }
    }
}
