//! How far a sender has come, and where it goes on.

use crate::Error;
use change::Commit;
use std::sync::Arc;
use trail::cipher::MasterKeys;
use trail::copy::{CopyReader, CopyRules};
use trail::storage::Storage;
use trail::{Position, Start, TrailName};

/// How far a sender has come: everything before is durable in the target trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The place in the source trail after a transaction.
    pub position: Position,
    /// That transaction; `None` at the start of a file.
    pub after: Option<Commit>,
    /// The end of the target trail then; `None` when nothing was sent yet.
    pub target: Option<Position>,
    /// The last transaction of the target trail then. Rules may have left out those after it.
    pub delivered: Option<Commit>,
    /// The operator has set the position, and nothing was sent since.
    pub is_repositioned: bool,
}

/// Where a [`Standing`] rests.
pub trait Ledger: Send {
    /// The last one that was saved.
    fn standing(&self) -> Standing;

    /// Makes one durable.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    fn save(&mut self, standing: &Standing) -> Result<(), Error>;
}

/// Where a sender goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Where its standing says.
    Standing,
    /// After the transaction that the target trail ends with, which must be found: it is not the one of the standing.
    After(Commit),
}

/// Where a sender with this standing goes on when the target trail ends with the transaction `last`.
///
/// # Errors
/// [`Error::TargetLost`] when the target holds nothing although something was sent.
pub fn begin(standing: &Standing, last: Option<&Commit>) -> Result<Beginning, Error> {
    match (&standing.delivered, last) {
        // What the operator wants sent again is sent again.
        _ if standing.is_repositioned => Ok(Beginning::Standing),
        (None, None) => Ok(Beginning::Standing),
        (Some(delivered), Some(last)) if is_same(delivered, last) => Ok(Beginning::Standing),
        (_, Some(last)) => Ok(Beginning::After(last.clone())),
        (Some(delivered), None) => Err(Error::TargetLost {
            csn: delivered.csn.clone(),
            transaction: delivered.transaction.clone(),
            position: standing.target.unwrap_or_default(),
        }),
    }
}

/// Whether both are one transaction. Their times need not be equal: a trail knows microseconds, a source may know more.
fn is_same(one: &Commit, other: &Commit) -> bool {
    (&one.csn, &one.transaction) == (&other.csn, &other.transaction)
}

/// A source trail, opened where sending goes on.
pub struct Opened {
    /// The reader.
    pub reader: CopyReader,
    /// What the target trail has lost and gets again, for the operator.
    pub notice: Option<String>,
}

/// Opens the source trail where the sender goes on, and saves what must be durable before anything is sent.
///
/// # Errors
/// [`Error::TargetLost`]; [`Error::TargetUnlike`] when the source trail does not hold the transaction `last`;
/// [`Error::Source`]; [`Error::Checkpoint`].
pub fn open_source(
    storage: Arc<dyn Storage>,
    trail: TrailName,
    ledger: &mut dyn Ledger,
    last: Option<&Commit>,
    rules: Box<dyn CopyRules>,
    keys: Option<Arc<dyn MasterKeys>>,
) -> Result<Opened, Error> {
    let standing = ledger.standing();
    let open = |position, after: Option<&Commit>| {
        let after = after.map(|commit| (commit.csn.clone(), commit.transaction.clone()));
        let start = Start::At { position, after };
        CopyReader::open(Arc::clone(&storage), trail, start, rules, keys)
    };
    let beginning = begin(&standing, last)?;
    if standing.is_repositioned {
        let saved = Standing { delivered: last.cloned(), is_repositioned: false, ..standing.clone() };
        ledger.save(&saved)?;
    }
    match beginning {
        Beginning::Standing => {
            let reader = open(standing.position, standing.after.as_ref()).map_err(Error::source)?;
            Ok(Opened { reader, notice: None })
        }
        Beginning::After(last) => {
            let reader = open(standing.position, Some(&last)).map_err(|error| match error {
                trail::Error::Mismatch { .. } => {
                    Error::TargetUnlike { csn: last.csn.clone(), transaction: last.transaction.clone() }
                }
                error => Error::source(error),
            })?;
            let notice = (reader.position() < standing.position).then(|| {
                format!(
                    "the target trail ends with transaction {} (CSN {}), before what it held once: what comes after is sent \
                     again, from source position {}",
                    last.transaction,
                    last.csn,
                    reader.position()
                )
            });
            Ok(Opened { reader, notice })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Csn, Timestamp, TransactionId};

    fn commit(number: u64) -> Commit {
        Commit {
            csn: Csn::new(format!("{number:020}")),
            transaction: TransactionId::new(format!("{number}.1")),
            time: Timestamp::from_unix_micros(number as i64),
        }
    }

    fn standing(delivered: Option<u64>) -> Standing {
        Standing { delivered: delivered.map(commit), target: Some(Position::new(1, 9)), ..Standing::default() }
    }

    #[test]
    fn the_end_of_the_target_decides_where_sending_goes_on() {
        let begins = |standing: &Standing, last: Option<u64>| begin(standing, last.map(commit).as_ref());
        assert_eq!(begins(&standing(None), None).ok(), Some(Beginning::Standing));
        assert_eq!(begins(&standing(Some(3)), Some(3)).ok(), Some(Beginning::Standing));
        for other in [2, 4] {
            assert_eq!(begins(&standing(Some(3)), Some(other)).ok(), Some(Beginning::After(commit(other))));
        }
        assert_eq!(begins(&standing(None), Some(4)).ok(), Some(Beginning::After(commit(4))));
        let lost = begins(&standing(Some(3)), None).expect_err("is lost");
        assert!(lost.to_string().contains("3.1") && lost.to_string().contains("000000001:9"), "{lost}");
        let moved = Standing { is_repositioned: true, ..standing(Some(3)) };
        assert_eq!(begins(&moved, None).ok(), Some(Beginning::Standing));
    }
}
