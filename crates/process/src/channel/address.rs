//! Where the socket of a group is.

use crate::{GroupName, Home};
use std::io;
use std::path::{Path, PathBuf};

/// Longest path of a socket. The operating system's own limit is 108 bytes on Linux and 104 elsewhere, the closing zero
/// included.
const PATH_BYTES_MAX: usize = 100;

/// The socket of a group.
pub(super) struct Address {
    directory: PathBuf,
    name: String,
}

impl Address {
    pub(super) fn of(home: &Home, group: &GroupName) -> Address {
        Address { directory: home.dirtmp(), name: format!("{group}.sock") }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Where the socket is made before it is ready.
    pub(super) fn unready_path(&self) -> PathBuf {
        self.directory.join(format!("{}.new", self.name))
    }

    /// Gives `path`, which is in the directory, to `call` in a form that is short enough for a socket. A home may lie as
    /// deep as its operator likes.
    pub(super) fn shortened<T>(&self, path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return call(path);
        }
        through_directory(&self.directory, path, call)
    }
}

/// Linux reaches a directory by the number of an open file, too.
#[cfg(target_os = "linux")]
fn through_directory<T>(directory: &Path, path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    use std::os::fd::AsRawFd;
    let open = std::fs::File::open(directory)?;
    let name = path.file_name().unwrap_or_default();
    call(&Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(name))
}

#[cfg(not(target_os = "linux"))]
fn through_directory<T>(_: &Path, path: &Path, _: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let what = format!("{} is too long for a socket, use a home with a shorter path", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
