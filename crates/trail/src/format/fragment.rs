//! Parts of a record that is too long for one frame (IOType 161).
//!
//! Public is only that such records exist and are marked Continued; the body is ours. Each part's data is
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | `DVFR` |
//! | 4 | 2 | version, 1 |
//! | 6 | 1 | operation of the whole record |
//! | 7 | 1 | 0 |
//! | 8 | 4 | number of the part, from 0 |
//! | 12 | 8 | bytes of the whole data |
//! | 20 | | the part |

use super::bytes::{Cursor, Order};
use crate::Damage;

/// What the data of each part starts with.
pub const MAGIC: [u8; 4] = *b"DVFR";
const VERSION: u16 = 1;

/// Bytes before the part itself.
pub const PREFIX_BYTES: usize = 20;

/// What a part says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Operation of the whole record.
    pub operation: u8,
    /// Number of the part, from 0.
    pub number: u32,
    /// Bytes of the data of the whole record.
    pub total: u64,
    /// The part.
    pub part: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Reads the data of a fragment record.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn read(data: &'a [u8], order: Order) -> Result<Fragment<'a>, Damage> {
        const WHAT: &str = "fragment";
        let mut cursor = Cursor::new(data, order);
        if cursor.take(MAGIC.len(), WHAT)? != MAGIC {
            return Err(Damage::Content("the fragment is not in this product's form"));
        }
        if cursor.u16(WHAT)? != VERSION {
            return Err(Damage::Content("the fragment is of a later version"));
        }
        let operation = cursor.u8(WHAT)?;
        cursor.u8(WHAT)?;
        let (number, total) = (cursor.u32(WHAT)?, cursor.u64(WHAT)?);
        Ok(Fragment { operation, number, total, part: cursor.rest() })
    }

    /// Appends the data of a fragment record.
    pub fn put(&self, buffer: &mut Vec<u8>, order: Order) {
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&order.of_u16(VERSION));
        buffer.extend_from_slice(&[self.operation, 0]);
        buffer.extend_from_slice(&order.of_u32(self.number));
        buffer.extend_from_slice(&order.of_u64(self.total));
        buffer.extend_from_slice(self.part);
    }
}
