//! Places of a source's log, as operators see them.

use change::LogPosition;

/// Bytes of a WAL file, unless the cluster was made with `--wal-segsize` and that is known.
const SEGMENT_BYTES: u64 = 16 << 20;

/// The place of a source's log in the words of its product: the log's name, and lines for SHOWCH.
pub struct Place {
    /// What kind of log it is.
    pub log: &'static str,
    /// Label and value of each line, but for the time.
    pub lines: Vec<(&'static str, String)>,
}

impl Place {
    /// What a position says, where a file of the log has so many bytes. One of a product that is not known is shown as it is.
    pub fn of(position: &LogPosition, log_file_bytes: Option<u64>) -> Place {
        // A power of two, by the server's rules.
        let segment_bytes = log_file_bytes.filter(|bytes| (1 << 20..=1 << 30).contains(bytes)).unwrap_or(SEGMENT_BYTES);
        let parts: Vec<&str> = position.as_str().split('-').collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        if let [lsn, _, timeline, _] = parts[..]
            && let Some((high, low)) = lsn.split_once('/').and_then(|(high, low)| Some((hex(high)?, hex(low)?)))
            && let Some(timeline) = hex(timeline)
        {
            let byte = high << 32 | low;
            let segment = byte / segment_bytes;
            let per_high = (1 << 32) / segment_bytes;
            return Place {
                log: "PostgreSQL WAL",
                lines: vec![
                    ("Timeline #", timeline.to_string()),
                    ("Sequence #", segment.to_string()),
                    ("RBA", (byte % segment_bytes).to_string()),
                    ("LSN", format!("{high:X}/{low:X}")),
                    ("WAL File", format!("{timeline:08X}{:08X}{:08X}", segment / per_high, segment % per_high)),
                ],
            };
        }
        if let [number, incarnation, part] = parts[..]
            && let Ok(number) = number.parse::<u64>()
        {
            return Place {
                log: "SQLite Change Table",
                lines: vec![("Change #", number.to_string()), ("Incarnation", format!("{incarnation}-{part}"))],
            };
        }
        Place { log: "Source Log", lines: vec![("Position", position.to_string())] }
    }

    /// The place on one line.
    pub fn line(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(|(label, value)| format!("{label} {value}")).collect();
        lines.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_shown_in_the_words_of_their_product() {
        let place = Place::of(&LogPosition::new("00000001/0A0000F8-65F0C0FFEE000001-00000003-0123456789ABCDEF"), None);
        assert_eq!(place.log, "PostgreSQL WAL");
        // pg_walfile_name('1/A0000F8') on timeline 3 is this one.
        let expected = "Timeline # 3, Sequence # 266, RBA 248, LSN 1/A0000F8, WAL File 00000003000000010000000A";
        assert_eq!(place.line(), expected);
        // The same place of a cluster that was made with --wal-segsize=64, and with 1.
        let place = |megabytes: u64| {
            let position = LogPosition::new("00000001/0A0000F8-65F0C0FFEE000001-00000003-0123456789ABCDEF");
            Place::of(&position, Some(megabytes << 20)).line()
        };
        let expected = "Timeline # 3, Sequence # 66, RBA 33554680, LSN 1/A0000F8, WAL File 000000030000000100000002";
        assert_eq!(place(64), expected);
        assert_eq!(
            place(1),
            "Timeline # 3, Sequence # 4256, RBA 248, LSN 1/A0000F8, WAL File 0000000300000001000000A0"
        );
        let place = Place::of(&LogPosition::new("00000000000000000042-7bc34c8d2ce6d408-ae5bd61b"), None);
        assert_eq!(place.line(), "Change # 42, Incarnation 7bc34c8d2ce6d408-ae5bd61b");
        assert_eq!(Place::of(&LogPosition::new("x-y"), None).line(), "Position x-y");
    }
}
