//! Which of the public layouts a file has: compatibility level, byte order, and how tables are named.

use super::bytes::Order;

/// Compatibility level that is written when nothing else is asked for (product release 19.1), and the highest that is read.
pub const LEVEL: u16 = 8;

/// Lowest level at which a file holds definitions and its records name tables by their index.
pub const LEVEL_OF_DEFINITIONS: u16 = 5;

/// Lowest level that is written. Files of level 0 have no header record.
pub const LEVEL_MIN: u16 = 1;

/// Levels by the release that introduced them.
const RELEASES: [(u16, u16, u16); 11] = [
    (9, 0, 0),
    (9, 5, 0),
    (10, 0, 1),
    (10, 4, 2),
    (11, 1, 2),
    (11, 2, 3),
    (12, 1, 4),
    (12, 2, 5),
    (12, 3, 6),
    (18, 1, 7),
    (19, 1, 8),
];

/// The last release whose files have level [`LEVEL`].
const RELEASE_MAX: (u16, u16) = (21, u16::MAX);

/// The level of files of release `major`.`minor`; `None` for a release that is older or newer than all that are known.
pub fn level_of_release(major: u16, minor: u16) -> Option<u16> {
    let known =
        RELEASES.iter().rev().find(|(known_major, known_minor, _)| (*known_major, *known_minor) <= (major, minor));
    known.map(|(.., level)| *level).filter(|_| (major, minor) <= RELEASE_MAX)
}

/// How updates with an image before are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateImages {
    /// Both images in one record, as the source told them: operations 134 and 135.
    #[default]
    Together,
    /// Both images in one record; that after holds the key and the columns that differ (UPDATERECORDFORMAT COMPACT).
    Compact,
    /// Both images in one record; that after holds all columns whose values are known (UPDATERECORDFORMAT FULL).
    Full,
    /// A record with the image before, then one with the image after: operation 15 twice, or 15 and 115.
    Separate,
}

/// What becomes of a transaction that a crash left without its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryMode {
    /// It stays, followed by a marker.
    #[default]
    Append,
    /// It is overwritten, and so is everything behind the write checkpoint.
    Overwrite,
}

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Compatibility level.
    pub level: u16,
    /// Byte order of lengths, indexes and header numbers.
    pub order: Order,
    /// Whether the file holds definitions, and records name tables by their index. If not, they name tables by name.
    pub has_definitions: bool,
    /// How updates are written.
    pub updates: UpdateImages,
}

/// What an operator asks for; `None` leaves a thing to the level, and the level to the trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// FORMAT RELEASE, as a level. Without it a trail keeps the level of its last file, and a new one has [`LEVEL`].
    pub level: Option<u16>,
    /// TRAILBYTEORDER.
    pub order: Option<Order>,
    /// OBJECTDEFS or NO_OBJECTDEFS.
    pub has_definitions: Option<bool>,
    /// UPDATERECORDFORMAT.
    pub updates: Option<UpdateImages>,
    /// RECOVERYOPTIONS.
    pub recovery: Option<RecoveryMode>,
}

impl Format {
    /// The layout of new files behind a file of level `existing`.
    ///
    /// # Errors
    /// Which two wishes contradict each other.
    pub fn layout(&self, existing: Option<u16>) -> Result<Layout, String> {
        let level = self.level.or(existing).unwrap_or(LEVEL);
        if !(LEVEL_MIN..=LEVEL).contains(&level) {
            return Err(format!("files of level {level} can't be written, only those of {LEVEL_MIN} to {LEVEL}"));
        }
        let knows_definitions = level >= LEVEL_OF_DEFINITIONS;
        let has_definitions = self.has_definitions.unwrap_or(knows_definitions);
        if has_definitions && !knows_definitions {
            return Err(format!("files of level {level} hold no definitions: that came with release 12.2"));
        }
        let order = self.order.unwrap_or(if knows_definitions { Order::Little } else { Order::Big });
        if order == Order::Little && level < 4 {
            return Err(format!("files of level {level} are big-endian: other orders came with release 12.1"));
        }
        let updates = self.updates.unwrap_or(match knows_definitions {
            true => UpdateImages::Together,
            false => UpdateImages::Separate,
        });
        if updates != UpdateImages::Separate && level < 4 {
            return Err(format!("files of level {level} hold no unified updates: they came with release 12.1"));
        }
        Ok(Layout { level, order, has_definitions, updates })
    }

    /// How the trail is recovered: by appending, unless overwriting is asked for or the level is that of a release before 10,
    /// whose readers know no markers.
    pub fn recovery(&self) -> RecoveryMode {
        match self.level {
            Some(level) if level < LEVEL_MIN => RecoveryMode::Overwrite,
            _ => self.recovery.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_the_levels_that_are_known() {
        let levels = [(9, 5), (10, 0), (11, 1), (11, 2), (12, 1), (12, 2), (12, 3), (18, 1), (19, 1), (21, 3)];
        let found = levels.map(|(major, minor)| level_of_release(major, minor));
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8].map(Some));
        assert_eq!([level_of_release(8, 0), level_of_release(23, 4)], [None, None]);
    }

    #[test]
    fn the_level_decides_what_was_not_asked_for() {
        let at = |level| Format { level: Some(level), ..Format::default() };
        let current = Format::default().layout(None).expect("is possible");
        assert_eq!((current.level, current.order, current.has_definitions), (8, Order::Little, true));
        let old = at(3).layout(Some(8)).expect("is possible");
        assert_eq!(
            (old.level, old.order, old.has_definitions, old.updates),
            (3, Order::Big, false, UpdateImages::Separate)
        );
        assert_eq!(Format::default().layout(Some(4)).map(|layout| layout.level), Ok(4), "a trail keeps its level");
        assert!(Format { has_definitions: Some(true), ..at(4) }.layout(None).is_err());
        assert!(Format { order: Some(Order::Little), ..at(3) }.layout(None).is_err());
        assert!(Format { updates: Some(UpdateImages::Compact), ..at(3) }.layout(None).is_err());
        assert!(at(0).layout(None).is_err() && at(9).layout(None).is_err());
    }

    #[test]
    fn files_from_before_release_10_are_overwritten_by_themselves() {
        let format = |level, recovery| Format { level, recovery, ..Format::default() };
        assert_eq!(format(Some(0), None).recovery(), RecoveryMode::Overwrite);
        assert_eq!(format(Some(0), Some(RecoveryMode::Append)).recovery(), RecoveryMode::Overwrite);
        assert_eq!(format(Some(1), None).recovery(), RecoveryMode::Append);
        assert_eq!(format(None, Some(RecoveryMode::Overwrite)).recovery(), RecoveryMode::Overwrite);
    }
}
