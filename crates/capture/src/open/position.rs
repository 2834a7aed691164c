//! Places in a log of which transactions may be open.

use change::LogPosition;

/// Where a reader of a log stands that tells uncommitted work: two positions in one.
///
/// Its notation is `CURRENT@RECOVERY`, so that places order as their current positions do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What committed before here was handed out: the Current Checkpoint.
    pub current: LogPosition,
    /// Where reading must start to see every transaction whole that was open at `current`: the Recovery Checkpoint.
    pub recovery: LogPosition,
}

impl Place {
    /// The notation.
    pub fn position(&self) -> LogPosition {
        LogPosition::new(format!("{}@{}", self.current, self.recovery))
    }

    /// Reads a notation. A position without the second part is one at which nothing was open.
    pub fn parse(position: &LogPosition) -> Place {
        match position.as_str().split_once('@') {
            Some((current, recovery)) => {
                Place { current: LogPosition::new(current), recovery: LogPosition::new(recovery) }
            }
            None => Place { current: position.clone(), recovery: position.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_positions_come_back_and_the_current_one_decides_about_order() {
        let place = |current: &str, recovery: &str| Place {
            current: LogPosition::new(current),
            recovery: LogPosition::new(recovery),
        };
        for known in [place("020", "003"), place("020", "020")] {
            assert_eq!(Place::parse(&known.position()), known);
        }
        assert_eq!(Place::parse(&LogPosition::new("020")), place("020", "020"));
        assert!(place("020", "003").position() < place("021", "001").position());
        assert!(LogPosition::new("020") < place("020", "003").position());
    }
}
