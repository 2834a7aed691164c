//! Which master keys the files of a directory need.

use crate::Error;
use crate::scan::{Forward, Trouble};
use crate::storage::Storage;
use std::io;

/// The master key that a file's own key is wrapped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededKey {
    /// The file.
    pub file: String,
    /// Name of the master key.
    pub name: String,
    /// Version of the master key.
    pub version: u32,
}

/// The keys of all encrypted trail files of a directory, whatever trail they belong to, by file name. What is no trail file, or
/// has a header that can't be read, is passed over: no key would make it readable.
///
/// # Errors
/// [`Error::Io`].
pub fn keys_of_files(storage: &dyn Storage) -> Result<Vec<NeededKey>, Error> {
    let mut names = match storage.list() {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::io("list", storage, "the files", source)),
    };
    names.sort();
    let mut keys = Vec::new();
    for file in names {
        let open = || -> Result<_, Trouble> {
            let opened = storage.open_read(&file)?;
            let length = opened.len()?;
            Forward::open(opened, length)?.reread_header()
        };
        match open() {
            Ok(header) => {
                keys.extend(header.key.map(|key| NeededKey { file, name: key.name, version: key.version }));
            }
            Err(Trouble::Io(error)) if error.kind() != io::ErrorKind::NotFound && !is_directory(&error) => {
                return Err(Error::io("read", storage, &file, error));
            }
            Err(_) => {}
        }
    }
    Ok(keys)
}

fn is_directory(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::IsADirectory
}
