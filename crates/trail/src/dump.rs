//! A trail file as text.

use crate::storage::Storage;
use crate::{Damage, Error};
use std::io;

/// What [`dump`] saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSummary {
    /// Whole records.
    pub records: u64,
    /// Where and why it stopped before the end of the file.
    pub damage: Option<(u64, Damage)>,
}

/// Prints every record of the file called `name` readably, up to its end or to the first damage.
pub fn dump(storage: &dyn Storage, name: &str, output: &mut dyn io::Write) -> Result<DumpSummary, Error> {
    let _ = (storage, name, output);
    unimplemented!()
}
