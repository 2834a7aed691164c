//! Small charts out of characters.

const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar for `value`, where `max` has `width` characters.
pub(super) fn bar(value: u64, max: u64, width: u64) -> String {
    let eighths = (u128::from(value) * u128::from(width) * 8).checked_div(u128::from(max)).unwrap_or(0);
    let (whole, rest) = ((eighths / 8) as usize, (eighths % 8) as usize);
    let mut bar = "█".repeat(whole);
    if rest > 0 {
        bar.push(BLOCKS[rest - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_the_value() {
        assert_eq!(
            [bar(0, 10, 4), bar(10, 10, 4), bar(5, 10, 4), bar(1, 32, 4), bar(3, 0, 4)],
            ["", "████", "██", "▏", ""]
        );
    }
}
