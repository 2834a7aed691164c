//! Where the trail lies that an operator calls `./dirdat/aa`.

use std::path::{Component, Path, PathBuf};
use trail::TrailName;

/// A trail's directory and two characters, or those of a single file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailPlace {
    /// The directory. A relative one counts from the home.
    pub directory: PathBuf,
    /// The two characters, or the name of a single file: two characters never name one.
    pub name: TrailName,
}

impl TrailPlace {
    /// The place that `text` names. Two texts that name one trail give equal places.
    ///
    /// # Errors
    /// [`trail::Error::Name`] when `text` ends neither with a trail name nor with one that a single file can have.
    pub fn parse(home: &Path, text: &str) -> Result<TrailPlace, trail::Error> {
        let (directory, name) = text.rsplit_once('/').map_or(("", text), |(directory, name)| (directory, name));
        let directory = if text.starts_with('/') && directory.is_empty() { "/" } else { directory };
        let joined = home.join(directory);
        let directory = joined.components().filter(|part| *part != Component::CurDir).collect();
        Ok(TrailPlace { directory, name: TrailName::parse(name).or_else(|_| TrailName::single(name))? })
    }

    /// The parameter and the word of commands that it is written with: `EXTTRAIL` or `EXTFILE`.
    pub fn keyword(&self) -> &'static str {
        if self.name.is_single() { "EXTFILE" } else { "EXTTRAIL" }
    }

    /// What messages call the place that the operator wrote as `text`.
    pub fn described(&self, text: &str) -> String {
        format!("{} {text}", if self.name.is_single() { "file" } else { "trail" })
    }

    /// Whether both are one trail, also when a symbolic link leads to its directory.
    pub fn is_same(&self, other: &TrailPlace) -> bool {
        let directory = |place: &TrailPlace| place.directory.canonicalize();
        self.name == other.name
            && (self.directory == other.directory
                || matches!((directory(self), directory(other)), (Ok(one), Ok(two)) if one == two))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_trail_lead_to_one_place() {
        let place = |text| TrailPlace::parse(Path::new("/gg"), text).expect("a trail");
        assert_eq!(place("./dirdat/aa").directory, Path::new("/gg/dirdat"));
        for text in ["dirdat/aa", "/gg/dirdat/aa", "./dirdat/./aa", "dirdat//aa"] {
            assert_eq!(place(text), place("./dirdat/aa"), "{text}");
        }
        assert_ne!(place("./dirdat/ab"), place("./dirdat/aa"));
        assert_eq!(place("aa").directory, Path::new("/gg"));
        assert!(place("./dirdat/load.ext").name.is_single() && !place("./dirdat/aa").name.is_single());
        for text in ["./dirdat/", "./dirdat/aa000000001", "./dirdat/aa.safe"] {
            assert!(TrailPlace::parse(Path::new("/gg"), text).is_err(), "{text}");
        }
    }
}
