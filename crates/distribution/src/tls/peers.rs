//! Certificates that a home believes one by one.

use super::fingerprint::Fingerprint;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A certificate that a home believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// What the operator calls whoever has it. A trail that he sends belongs to this name, so that a renewed certificate may
    /// take an old one's place.
    pub name: String,
}

/// The file `dircrd/peers`: a line for each, fingerprint and name.
#[derive(Clone, Debug)]
pub struct Peers {
    file: PathBuf,
}

impl Peers {
    /// Those of a home's `dircrd`.
    pub fn of(dircrd: &Path) -> Peers {
        Peers { file: dircrd.join("peers") }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All of them; none when there is no file.
    ///
    /// # Errors
    /// When the file can't be read, or a line of it is wrong.
    pub fn read(&self) -> io::Result<Vec<Peer>> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        let lines = text.lines().enumerate();
        let told = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        told.map(|(index, line)| {
            peer(line).ok_or_else(|| {
                let what = format!("line {} is not a fingerprint of 64 hexadecimal digits and a name", index + 1);
                io::Error::new(io::ErrorKind::InvalidData, what)
            })
        })
        .collect()
    }

    /// Puts these in place of whatever was there.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, peers: &[Peer]) -> io::Result<()> {
        let unfinished = self.file.with_extension("new");
        let mut file = fs::File::create(&unfinished)?;
        for Peer { fingerprint, name } in peers {
            writeln!(file, "{fingerprint} {name}")?;
        }
        file.sync_all()?;
        fs::rename(&unfinished, &self.file)
    }
}

fn peer(line: &str) -> Option<Peer> {
    let mut words = line.split_whitespace();
    let (fingerprint, name) = (Fingerprint::parse(words.next()?)?, words.next()?.to_owned());
    words.next().is_none().then_some(Peer { fingerprint, name })
}
