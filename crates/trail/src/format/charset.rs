//! Character sets by number, as file headers name them. The numbers are public.

/// UTF-8.
pub const UTF_8: u32 = 0;

/// A set that has no number.
pub const UNKNOWN: u32 = 0x2000_0000;

/// The number of a character set by its name in the registry of the IANA, in any case. The empty name stands for UTF-8.
pub fn number_of(name: &str) -> u32 {
    let upper = name.to_ascii_uppercase();
    let numbered = |prefix: &str| upper.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok());
    match upper.as_str() {
        "" | "UTF-8" => UTF_8,
        "UTF-16BE" => 2,
        "UTF-16LE" => 3,
        "US-ASCII" => 1000,
        "EUC-JP" => 5005,
        "GB2312" => 5007,
        "EUC-KR" => 5008,
        "EUC-TW" => 5009,
        "SHIFT_JIS" => 5024,
        "GB18030" => 5025,
        "GBK" => 5027,
        "BIG5" => 5030,
        _ => match (numbered("WINDOWS-"), numbered("ISO-8859-")) {
            (Some(page @ 1250..=1258), _) => page.saturating_sub(249),
            // There is no part 12.
            (_, Some(part @ 1..=11)) => part.saturating_add(1031),
            (_, Some(part @ 13..=15)) => part.saturating_add(1030),
            _ => UNKNOWN,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published ranges: 1001 to 1009 for windows-1250 to 1258, 1032 to 1045 for ISO-8859-1 to 15.
    #[test]
    fn the_published_ranges_begin_and_end_where_they_do() {
        for (name, number) in [
            ("utf-8", 0),
            ("windows-1250", 1001),
            ("windows-1258", 1009),
            ("ISO-8859-1", 1032),
            ("ISO-8859-15", 1045),
            ("ISO-8859-12", UNKNOWN),
            ("ISO-8859-16", UNKNOWN),
            ("windows-874", UNKNOWN),
            ("KOI8-R", UNKNOWN),
        ] {
            assert_eq!(number_of(name), number, "{name}");
        }
    }
}
