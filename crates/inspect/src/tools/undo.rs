//! `drover trail undo`: SQL that reverses a transaction.

use super::export::one_line;
use super::files::{TrailFiles, Work};
use super::pick::pick;
use super::select::{Selection, SelectionWish};
use super::sql::{self, Dialect};
use crate::error::Error;
use trail::Record;

/// Most bytes of statements: they are given in the reverse order, so all are kept until the last is known.
const STATEMENT_BYTES_MAX: usize = 1 << 30;

/// Prints the statements that reverse a transaction, named by its identifier or its CSN, the last change first. Prints nothing
/// when one of its changes can't be reversed.
///
/// # Errors
/// [`Error::Refused`] when the trail does not hold the transaction, not all of it, or not what was there before; [`Error`].
pub fn undo(
    files: &TrailFiles,
    transaction: &str,
    dialect: Option<Dialect>,
    work: &mut Work<'_>,
) -> Result<u64, Error> {
    let wish = SelectionWish { transaction: Some(transaction.to_owned()), ..SelectionWish::default() };
    let mut selection = Selection::new(wish)?;
    let mut statements: Vec<String> = Vec::new();
    let mut bytes = 0;
    let (mut product, mut found, mut is_whole) = (None, None, false);
    pick(files, &mut selection, work, &mut |_, entry| {
        let (place, commit) = match &entry.record {
            Record::Header(header) => {
                product = Dialect::of_product(&header.source.product);
                return Ok(());
            }
            Record::Restart { .. } => {
                // What was read of an open transaction is void: it comes again, or never.
                if !is_whole {
                    statements.clear();
                    (found, bytes) = (None, 0);
                }
                return Ok(());
            }
            Record::Change { place, commit, .. }
            | Record::Statement { place, commit, .. }
            | Record::Sequence { place, commit, .. } => (*place, commit),
            _ => return Ok(()),
        };
        if is_whole && found.as_ref() != Some(commit) {
            return Err(Error::refused(format!(
                "{transaction} names more than one transaction: give the CSN, or the identifier, that only one has"
            )));
        }
        if place.starts() {
            statements.clear();
            bytes = 0;
        } else if found.is_none() {
            return Err(Error::refused(format!(
                "the trail does not hold the beginning of transaction {transaction}: its first files are gone"
            )));
        }
        found = Some(commit.clone());
        let dialect = dialect.or(product).ok_or_else(|| {
            Error::refused("the trail does not say whose SQL it needs: name it with --dialect sqlite or postgresql")
        })?;
        match &entry.record {
            Record::Change { change, .. } => {
                let statement = sql::undo(dialect, change).map_err(|error| match error {
                    Error::Refused(reason) => Error::refused(format!(
                        "transaction {transaction} can't be reversed, at {}: {reason}",
                        entry.position
                    )),
                    error => error,
                })?;
                bytes += statement.as_ref().map_or(0, String::len);
                statements.extend(statement);
            }
            Record::Statement { statement, .. } => {
                return Err(Error::refused(format!(
                    "transaction {transaction} can't be reversed, at {}: it holds the statement {}",
                    entry.position,
                    statement.title()
                )));
            }
            // A sequence is not set back: other rows may have its later values.
            _ => {}
        }
        if bytes > STATEMENT_BYTES_MAX {
            return Err(Error::refused(format!("transaction {transaction} is larger than one run can reverse")));
        }
        is_whole = place.ends();
        Ok(())
    })?;
    let commit = found.ok_or_else(|| Error::refused(format!("the trail holds no transaction {transaction}")))?;
    if !is_whole {
        return Err(Error::refused(format!("the trail does not hold the end of transaction {transaction} yet")));
    }
    let (name, csn) = (one_line(commit.transaction.as_str()), one_line(commit.csn.as_str()));
    work.print(&format!("-- Reverses transaction {name}, csn {csn}, committed {} UTC.\n", commit.time))?;
    work.print("-- Rows that were changed after it lose those changes where both changed the same column.\nBEGIN;\n")?;
    let count = statements.len() as u64;
    for statement in statements.iter().rev() {
        work.print(statement)?;
        work.print("\n")?;
    }
    work.print("COMMIT;\n")?;
    Ok(count)
}
