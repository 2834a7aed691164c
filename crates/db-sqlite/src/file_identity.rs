//! Telling a file apart from another one that took its name.

use database::{Error, ErrorClass};
use std::io;
use std::path::Path;

/// What tells a file apart from another one that took its name.
#[cfg(unix)]
pub(crate) fn file_number(path: &Path) -> io::Result<u128> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path)?;
    Ok(u128::from(facts.dev()) << 64 | u128::from(facts.ino()))
}

#[cfg(not(unix))]
pub(crate) fn file_number(path: &Path) -> io::Result<u128> {
    std::fs::metadata(path).map(|_| 0)
}

/// The same, as an error of the database.
pub(crate) fn identity_of(path: &Path) -> Result<u128, Error> {
    file_number(path).map_err(|cause| {
        Error::new(ErrorClass::Missing, format!("database file {} is gone", path.display()))
            .with_cause(cause)
            .with_next_step("put it back, or delete the group")
    })
}

/// Refuses to go on with an open file whose name belongs to another one by now: what is written to it would be lost.
///
/// # Errors
/// [`ErrorClass::ConnectionLost`] when `path` is not the file `known` any more, [`ErrorClass::Missing`] when it is gone.
pub(crate) fn verify(path: &Path, known: u128) -> Result<(), Error> {
    if identity_of(path)? == known {
        return Ok(());
    }
    Err(Error::new(ErrorClass::ConnectionLost, format!("database file {} was replaced by another one", path.display())))
}
