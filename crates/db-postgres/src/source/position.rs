//! Positions that carry the identity of the history they belong to.

use crate::wire::Lsn;
use change::LogPosition;
use std::fmt;

/// Which history a position belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// The cluster, from `IDENTIFY_SYSTEM`.
    pub(crate) system: u64,
    /// The timeline, which a promotion or a recovery to an earlier point changes.
    pub(crate) timeline: u32,
    /// The registration of the group: a random number that is kept with the publication.
    pub(crate) registration: u64,
}

/// A place in the log of one history.
///
/// Written as `LSN-SYSTEM-TIMELINE-REGISTRATION`, all in hexadecimal of fixed width, so that texts of one history sort
/// as their places do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) lsn: Lsn,
    pub(crate) history: History,
}

impl Place {
    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(position: &LogPosition) -> Option<Place> {
        let mut parts = position.as_str().split('-');
        let lsn = Lsn::parse(parts.next()?)?;
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let plain = part.len() == digits && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        let history =
            History { system: number(16)?, timeline: u32::try_from(number(8)?).ok()?, registration: number(16)? };
        parts.next().is_none().then_some(Place { lsn, history })
    }

    /// The position as the rest of Drover keeps it.
    pub(crate) fn position(self) -> LogPosition {
        LogPosition::new(self.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let History { system, timeline, registration } = self.history;
        write!(formatter, "{}-{system:016X}-{timeline:08X}-{registration:016X}", self.lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_as_it_was_written_and_nothing_else_does() {
        let history = History { system: 7_312_345_678_901_234_567, timeline: 2, registration: u64::MAX };
        let place = Place { lsn: Lsn(0x1_0153_A2B8), history };
        assert_eq!(Place::parse(&place.position()), Some(place));
        for text in
            ["", "0", "00000001/0153A2B8", "00000001/0153A2B8-1-2-3", &format!("{place}-"), &format!("{place}0")]
        {
            assert_eq!(Place::parse(&LogPosition::new(text)), None, "{text}");
        }
    }
}
