//! Bytes as Logdump prints them.

use std::fmt::Write;

/// Bytes on one line.
const LINE_BYTES: usize = 20;

/// Which characters stand beside the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Characters {
    /// As ASCII.
    #[default]
    Ascii,
    /// As EBCDIC.
    Ebcdic,
}

/// Appends `bytes`: a blank, ten groups of two bytes, ` | ` at column 50, and the characters, a dot for each that can't be
/// printed.
pub fn dump(text: &mut String, bytes: &[u8], characters: Characters) {
    for line in bytes.chunks(LINE_BYTES) {
        let mut column = 1;
        text.push(' ');
        for (place, byte) in line.iter().enumerate() {
            if place > 0 && place % 2 == 0 {
                text.push(' ');
                column += 1;
            }
            // Writing to a string can't fail.
            _ = write!(text, "{byte:02x}");
            column += 2;
        }
        text.extend(std::iter::repeat_n(' ', 50 - column));
        text.push_str(" | ");
        text.extend(line.iter().map(|byte| printable(*byte, characters)));
        text.push('\n');
    }
}

fn printable(byte: u8, characters: Characters) -> char {
    match characters {
        Characters::Ascii if matches!(byte, 0x20..0x7F) => char::from(byte),
        Characters::Ascii => '.',
        Characters::Ebcdic => ebcdic_character(byte).unwrap_or('.'),
    }
}

/// The bytes that a text in hexadecimal stands for; blanks between them do not matter.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

/// Runs of letters and digits in code page 037: first byte, first character, how many.
const EBCDIC_RUNS: [(u8, u8, u8); 7] = [
    (0x81, b'a', 9),
    (0x91, b'j', 9),
    (0xA2, b's', 8),
    (0xC1, b'A', 9),
    (0xD1, b'J', 9),
    (0xE2, b'S', 8),
    (0xF0, b'0', 10),
];

/// Other characters of code page 037.
const EBCDIC_SIGNS: [(u8, char); 26] = [
    (0x40, ' '),
    (0x4B, '.'),
    (0x4C, '<'),
    (0x4D, '('),
    (0x4E, '+'),
    (0x4F, '|'),
    (0x50, '&'),
    (0x5A, '!'),
    (0x5B, '$'),
    (0x5C, '*'),
    (0x5D, ')'),
    (0x5E, ';'),
    (0x60, '-'),
    (0x61, '/'),
    (0x6B, ','),
    (0x6C, '%'),
    (0x6D, '_'),
    (0x6E, '>'),
    (0x6F, '?'),
    (0x7A, ':'),
    (0x7B, '#'),
    (0x7C, '@'),
    (0x7D, '\''),
    (0x7E, '='),
    (0x7F, '"'),
    (0xA1, '~'),
];

fn ebcdic_character(byte: u8) -> Option<char> {
    let run = EBCDIC_RUNS.iter().find(|(first, _, count)| (*first..*first + *count).contains(&byte));
    run.map(|(first, character, _)| char::from(character + (byte - first)))
        .or_else(|| EBCDIC_SIGNS.iter().find(|(sign, _)| *sign == byte).map(|(_, character)| *character))
}

/// The text in EBCDIC; `None` when it has a character that code page 037 has not.
pub fn ebcdic(text: &str) -> Option<Vec<u8>> {
    let byte = |wanted: char| (0..=u8::MAX).find(|byte| ebcdic_character(*byte) == Some(wanted));
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published line of a dump.
    #[test]
    fn a_line_has_ten_groups_and_the_characters_behind_them() {
        let bytes = parse("0000 0600 0000 0000 0001 0100 0a00 0000 0600 696e 7365 7274").expect("is hexadecimal");
        let mut text = String::new();
        dump(&mut text, &bytes, Characters::Ascii);
        let expected = " 0000 0600 0000 0000 0001 0100 0a00 0000 0600 696e | ..................in\n \
                        7365 7274                                         | sert\n";
        assert_eq!(text, expected);
        assert_eq!((parse("0"), parse("0g"), parse("")), (None, None, None));
    }

    #[test]
    fn ebcdic_is_read_and_written() {
        assert_eq!(ebcdic("Az 09"), Some(vec![0xC1, 0xA9, 0x40, 0xF0, 0xF9]));
        let mut text = String::new();
        dump(&mut text, &[0xC8, 0x89, 0x00], Characters::Ebcdic);
        assert!(text.ends_with("| Hi.\n"), "{text}");
    }
}
