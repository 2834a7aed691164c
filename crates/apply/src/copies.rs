//! What an initial copy has put into the target already.

use change::{Csn, TableName};
use database::snapshot::CopyRow;
use std::collections::HashMap;

/// Per source table the snapshot that its rows in the target stem from.
#[derive(Default)]
pub(crate) struct Copies {
    csns: HashMap<TableName, Csn>,
}

impl Copies {
    /// From the rows that the copy left at the target.
    ///
    /// # Errors
    /// The first table whose copy is not finished.
    pub(crate) fn of(rows: Vec<CopyRow>) -> Result<Copies, TableName> {
        let csn = |row: CopyRow| match row.csn {
            Some(csn) => Ok((row.source, csn)),
            None => Err(row.source),
        };
        Ok(Copies { csns: rows.into_iter().map(csn).collect::<Result<_, _>>()? })
    }

    /// The last CSN that the copy of `table` holds.
    pub(crate) fn csn(&self, table: &TableName) -> Option<&Csn> {
        self.csns.get(table).filter(|_| !change::sabotage::is_on("forget-copies"))
    }
}
