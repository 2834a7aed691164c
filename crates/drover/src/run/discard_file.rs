//! The discard file of a Replicat.

use apply::Discard;
use process::{Code, Failure, GroupName, Home};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// A file that takes rows which are dropped, each durable before it is dropped.
pub(super) struct DiscardFile {
    path: PathBuf,
    bytes_max: u64,
    purge: bool,
    /// Opened with the first row, so that a group without discarded rows leaves no file.
    file: Option<File>,
}

impl DiscardFile {
    /// The file that the parameters name, or the group's own in the report directory.
    ///
    /// # Errors
    /// When its directory does not exist: that should not be found out with the first row.
    pub(super) fn open(
        home: &Home,
        group: &GroupName,
        parameters: &parameter::DiscardFile,
    ) -> Result<DiscardFile, Box<Failure>> {
        let path = match &parameters.path {
            Some(path) => home.path().join(path),
            None => home.dirrpt().join(format!("{group}.dsc")),
        };
        let has_directory = path.parent().is_some_and(std::path::Path::is_dir);
        if !has_directory {
            let what = format!("the directory of the discard file {} does not exist", path.display());
            return Err(Failure::new(Code::DiscardRefused, what).into());
        }
        let bytes_max = u64::from(parameters.megabytes) * 1_000_000;
        Ok(DiscardFile { path, bytes_max, purge: parameters.purge, file: None })
    }
}

impl Discard for DiscardFile {
    fn append(&mut self, text: &str) -> io::Result<()> {
        let named = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", self.path.display()));
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.create(true);
                if self.purge {
                    options.write(true).truncate(true);
                } else {
                    options.append(true);
                }
                let file = options.open(&self.path).map_err(named)?;
                self.file.insert(file)
            }
        };
        let length = file.metadata().map_err(named)?.len();
        if length + text.len() as u64 > self.bytes_max {
            let what = format!("{} has reached its {} MB", self.path.display(), self.bytes_max / 1_000_000);
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        file.write_all(text.as_bytes()).map_err(named)?;
        file.sync_data().map_err(named)
    }
}
