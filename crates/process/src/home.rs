//! The directory that groups work in.

use crate::{GroupKind, GroupName};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that makes a directory a home.
const MARKER: &str = "drover-home";

/// The marker while it is being written.
const UNFINISHED_MARKER: &str = "drover-home.new";

/// Layout of the home, written into the marker.
const VERSION: u32 = 1;

const DIRECTORIES: [&str; 7] = ["dirprm", "dirdat", "dirchk", "dirrpt", "dirtmp", "dirbr", "dircrd"];

/// Why a directory can't be used as a home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It was never made one.
    #[error("{} is not a Drover home: {reason}", path.display())]
    NotAHome {
        /// The directory.
        path: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// It can't be made one, because something else lives in it.
    #[error("{} can't become a Drover home: it holds {entry} and is not empty", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// Something that is in it.
        entry: String,
    },
    /// It was made by a version with another layout.
    #[error("{} is a Drover home of layout {found}, and this version knows layout {VERSION}", path.display())]
    Version {
        /// The directory.
        path: PathBuf,
        /// The layout that its marker names.
        found: String,
    },
    /// The operating system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, such as `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// A directory that groups work in: parameter files, trails, checkpoints, reports and the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// Makes `path` a home: creates it if it is not there, and whatever a home lacks if it is one.
    ///
    /// # Errors
    /// [`HomeError::Occupied`] when the directory holds anything and is not a home.
    pub fn create(path: impl AsRef<Path>) -> Result<Home, HomeError> {
        let path = path.as_ref();
        create_directory(path)?;
        let path = canonical(path)?;
        if !path.join(MARKER).exists() {
            let entries = fs::read_dir(&path).map_err(|source| refused("read", &path, source))?;
            for entry in entries {
                let name = entry.map_err(|source| refused("read", &path, source))?.file_name();
                // What a `create` left that was killed.
                if name != UNFINISHED_MARKER {
                    return Err(HomeError::Occupied { path, entry: name.to_string_lossy().into_owned() });
                }
            }
            write_marker(&path)?;
        }
        check_marker(&path)?;
        for directory in DIRECTORIES {
            create_directory(&path.join(directory))?;
        }
        sync_directory(&path)?;
        Ok(Home { path })
    }

    /// The home at `path`. Creates nothing: a directory that is missing in it may have held trails or checkpoints.
    ///
    /// # Errors
    /// [`HomeError::NotAHome`] when the directory was never made a home or lacks a part of one.
    pub fn open(path: impl AsRef<Path>) -> Result<Home, HomeError> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Err(HomeError::NotAHome { path: path.to_owned(), reason: "there is no such directory".to_owned() });
        }
        let path = canonical(path)?;
        check_marker(&path)?;
        match DIRECTORIES.into_iter().find(|directory| !path.join(directory).is_dir()) {
            None => Ok(Home { path }),
            Some(missing) => Err(HomeError::NotAHome { path, reason: format!("its directory {missing} is gone") }),
        }
    }

    /// Puts scripts for database administrators into the home, in place of those of an earlier version.
    ///
    /// # Errors
    /// [`HomeError::Io`].
    pub fn put_scripts(&self, scripts: &[(&str, String)]) -> Result<(), HomeError> {
        for (name, text) in scripts {
            let path = self.path.join(name);
            fs::write(&path, text).map_err(|source| refused("write", &path, source))?;
        }
        Ok(())
    }

    /// The home's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parameter files.
    pub fn dirprm(&self) -> PathBuf {
        self.path.join("dirprm")
    }

    /// Trails.
    pub fn dirdat(&self) -> PathBuf {
        self.path.join("dirdat")
    }

    /// Checkpoint files and locks.
    pub fn dirchk(&self) -> PathBuf {
        self.path.join("dirchk")
    }

    /// Reports.
    pub fn dirrpt(&self) -> PathBuf {
        self.path.join("dirrpt")
    }

    /// Files that may be removed while no group runs.
    pub fn dirtmp(&self) -> PathBuf {
        self.path.join("dirtmp")
    }

    /// Bounded Recovery.
    pub fn dirbr(&self) -> PathBuf {
        self.path.join("dirbr")
    }

    /// Credentials.
    pub fn dircrd(&self) -> PathBuf {
        self.path.join("dircrd")
    }

    /// The wallet. Made when a wallet is created.
    pub fn dirwlt(&self) -> PathBuf {
        self.path.join("dirwlt")
    }

    /// The log that all groups and commands of the home write to.
    pub fn event_log(&self) -> PathBuf {
        self.path.join("drover.log")
    }

    /// The group's parameter file.
    pub fn parameter_file(&self, group: &GroupName) -> PathBuf {
        self.dirprm().join(format!("{}.prm", group.to_lower()))
    }

    /// The group's current report.
    pub fn report_file(&self, group: &GroupName) -> PathBuf {
        self.dirrpt().join(format!("{group}.rpt"))
    }

    /// What a group's process that START started prints. The directory is made with the first one.
    pub fn output_file(&self, group: &GroupName) -> PathBuf {
        self.path.join("dirout").join(format!("{group}.out"))
    }

    /// What holds for the whole home; the file need not be there.
    pub fn globals(&self) -> PathBuf {
        self.path.join("GLOBALS")
    }

    /// Groups that have been added and not deleted, in name order.
    ///
    /// # Errors
    /// [`HomeError::Io`].
    pub fn groups(&self) -> Result<Vec<(GroupKind, GroupName)>, HomeError> {
        let directory = self.dirchk();
        let refused = |source| refused("read", &directory, source);
        let mut groups = Vec::new();
        for entry in fs::read_dir(&directory).map_err(refused)? {
            let name = entry.map_err(refused)?.file_name();
            groups.extend(name.to_str().and_then(group_of_file));
        }
        groups.sort_by(|one: &(GroupKind, GroupName), other| (&one.1, one.0).cmp(&(&other.1, other.0)));
        Ok(groups)
    }
}

fn group_of_file(name: &str) -> Option<(GroupKind, GroupName)> {
    let (stem, extension) = name.split_once('.')?;
    let kinds = [GroupKind::Extract, GroupKind::Replicat];
    let kind = kinds.into_iter().find(|kind| kind.checkpoint_extension() == extension)?;
    let group = GroupName::parse(stem).ok()?;
    (group.as_str() == stem).then_some((kind, group))
}

fn check_marker(path: &Path) -> Result<(), HomeError> {
    let marker = path.join(MARKER);
    let text = match fs::read_to_string(&marker) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let reason = format!("it has no file {MARKER}");
            return Err(HomeError::NotAHome { path: path.to_owned(), reason });
        }
        Err(source) => return Err(refused("read", &marker, source)),
    };
    match text.trim().strip_prefix("Drover home, layout ") {
        Some(found) if found == VERSION.to_string() => Ok(()),
        Some(found) => Err(HomeError::Version { path: path.to_owned(), found: found.to_owned() }),
        None => {
            let reason = format!("its file {MARKER} is not one of ours");
            Err(HomeError::NotAHome { path: path.to_owned(), reason })
        }
    }
}

fn write_marker(path: &Path) -> Result<(), HomeError> {
    let marker = path.join(MARKER);
    let unfinished = path.join(UNFINISHED_MARKER);
    let write = || {
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(format!("Drover home, layout {VERSION}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &marker)
    };
    write().map_err(|source| refused("create", &marker, source))
}

fn create_directory(path: &Path) -> Result<(), HomeError> {
    fs::create_dir_all(path).map_err(|source| refused("create", path, source))
}

fn sync_directory(path: &Path) -> Result<(), HomeError> {
    let sync = || fs::File::open(path)?.sync_all();
    sync().map_err(|source| refused("sync", path, source))
}

fn canonical(path: &Path) -> Result<PathBuf, HomeError> {
    path.canonicalize().map_err(|source| refused("find", path, source))
}

fn refused(action: &'static str, path: &Path, source: io::Error) -> HomeError {
    HomeError::Io { action, path: path.to_owned(), source }
}
