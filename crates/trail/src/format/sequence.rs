//! Body of a record that tells where a sequence stands (IOType 132).
//!
//! Public is only the number. Ours: `DVSQ`, version u16 1, schema and name as strings, flags u8 (1: the value was handed out),
//! increment as a 64-bit number, value as a string of decimal digits.

use super::bytes::{Cursor, Order, STRING_BYTES_MAX, put_string};
use crate::Damage;
use change::{SequenceState, TableName};

/// What the data starts with.
pub const MAGIC: [u8; 4] = *b"DVSQ";
const VERSION: u16 = 1;
const IS_CALLED: u8 = 1;

/// Why a sequence can't be written, if it can't.
pub fn refusal(sequence: &SequenceState) -> Option<&'static str> {
    let long = |text: &str| text.len() > STRING_BYTES_MAX / 4;
    (long(&sequence.name.schema) || long(&sequence.name.table)).then_some("its name is longer than 16383 bytes")
}

/// The data of the record.
pub fn body(sequence: &SequenceState, order: Order) -> Vec<u8> {
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(&order.of_u16(VERSION));
    put_string(&mut body, order, &sequence.name.schema);
    put_string(&mut body, order, &sequence.name.table);
    body.push(if sequence.is_called { IS_CALLED } else { 0 });
    body.extend_from_slice(&order.of_u64(sequence.increment.cast_unsigned()));
    put_string(&mut body, order, &sequence.value.to_string());
    body
}

/// Reads the data of the record.
///
/// # Errors
/// [`Damage`].
pub fn read_body(data: &[u8], order: Order) -> Result<SequenceState, Damage> {
    const WHAT: &str = "sequence";
    let mut cursor = Cursor::new(data, order);
    if cursor.take(MAGIC.len(), WHAT)? != MAGIC {
        return Err(Damage::Content("the sequence is not in this product's form"));
    }
    if cursor.u16(WHAT)? != VERSION {
        return Err(Damage::Content("the sequence is of a later version"));
    }
    let name = TableName { schema: cursor.string(WHAT)?, table: cursor.string(WHAT)? };
    let is_called = cursor.u8(WHAT)? & IS_CALLED != 0;
    let increment = cursor.u64(WHAT)?.cast_signed();
    let value = cursor.string(WHAT)?.parse().map_err(|_| Damage::Content("a sequence's value is no number"))?;
    Ok(SequenceState { name, value, increment, is_called })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_comes_back() {
        for (value, increment) in [(i128::MAX, -1), (i128::MIN, i64::MIN), (0, 1)] {
            let name = TableName::new("s", "number");
            let sequence = SequenceState { name, value, increment, is_called: value == 0 };
            for order in [Order::Little, Order::Big] {
                let body = body(&sequence, order);
                assert_eq!(read_body(&body, order), Ok(sequence.clone()));
                (0..body.len()).for_each(|length| assert!(read_body(&body[..length], order).is_err(), "{length}"));
            }
        }
    }
}
