//! Changes of plain bytes.

/// Numbers at which decoders go wrong.
const NUMBERS: [u64; 14] = [0, 1, 2, 3, 4, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF];

/// Longest that any input is made.
const BYTES_MAX: usize = 60_000;

/// Changes `bytes` in one way or another.
pub(super) fn bytes(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    if bytes.is_empty() {
        bytes.extend((0..random.usize(..12)).map(|_| random.u8(..)));
        return;
    }
    // What stands at the start says what follows, so it is changed more often than its share.
    let range = if random.bool() { bytes.len().min(48) } else { bytes.len() };
    let at = random.usize(..range);
    match random.u8(..8) {
        0 => bytes[at] ^= 1 << random.u8(..8),
        1 => bytes[at] = random.u8(..),
        2 | 3 => number(bytes, at, random),
        4 => {
            let count = random.usize(1..=16.min(bytes.len() - at));
            bytes.drain(at..at + count);
        }
        5 => {
            let new: Vec<u8> = (0..random.usize(1..16)).map(|_| random.u8(..)).collect();
            bytes.splice(at..at, new);
        }
        6 => bytes.truncate(at),
        _ => {
            let count = random.usize(1..=64.min(bytes.len() - at));
            let copy = bytes[at..at + count].to_vec();
            let times = random.usize(1..8);
            if bytes.len() + times * count < BYTES_MAX {
                let to = random.usize(..=bytes.len());
                bytes.splice(to..to, copy.repeat(times));
            }
        }
    }
}

/// Puts a number of 1, 2, 4 or 8 bytes over what stands at `at`.
fn number(bytes: &mut [u8], at: usize, random: &mut fastrand::Rng) {
    let width = 1 << random.u8(..4);
    let mut number = NUMBERS[random.usize(..NUMBERS.len())];
    match random.u8(..4) {
        // Just below and above what there is.
        0 => number = (bytes.len() - at) as u64,
        1 => number = ((bytes.len() - at) as u64).wrapping_add_signed(random.i64(-8..=8)),
        2 => number = u64::MAX - number,
        _ => {}
    }
    let new = if random.bool() { number.to_le_bytes() } else { number.rotate_right(8 * width as u32).to_be_bytes() };
    for (place, byte) in bytes[at..].iter_mut().zip(new).take(width) {
        *place = byte;
    }
}
