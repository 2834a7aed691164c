//! Names and kinds of groups.

use std::fmt;

/// Which of the two processes a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// Captures changes into a trail.
    Extract,
    /// Applies changes from a trail.
    Replicat,
}

impl GroupKind {
    /// `Extract` or `Replicat`.
    pub fn name(self) -> &'static str {
        match self {
            GroupKind::Extract => "Extract",
            GroupKind::Replicat => "Replicat",
        }
    }

    /// Ending of the checkpoint file's name.
    pub fn checkpoint_extension(self) -> &'static str {
        match self {
            GroupKind::Extract => "cpe",
            GroupKind::Replicat => "cpr",
        }
    }
}

/// Writes `EXTRACT` or `REPLICAT`, as commands do.
impl fmt::Display for GroupKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            GroupKind::Extract => "EXTRACT",
            GroupKind::Replicat => "REPLICAT",
        })
    }
}

/// Why a text is not the name of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a group name: a letter, _ or $, then letters, digits, _ or $, at most {} characters",
    GroupName::LENGTH_MAX
)]
pub struct GroupNameError {
    /// The text that was given.
    pub text: String,
}

/// Name of a group, in upper case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(String);

impl GroupName {
    /// Longest name in characters, as in the specification (goldengate.md 0.1).
    pub const LENGTH_MAX: usize = 8;

    /// A name from text in any case.
    ///
    /// # Errors
    /// [`GroupNameError`] when the text does not have the form `[A-Z_$][A-Z0-9_$]*` or is too long.
    pub fn parse(text: &str) -> Result<GroupName, GroupNameError> {
        let name = text.to_ascii_uppercase();
        let is_first = |character: char| character.is_ascii_uppercase() || matches!(character, '_' | '$');
        let starts_well = name.chars().next().is_some_and(is_first);
        let goes_on_well = name.chars().all(|character| is_first(character) || character.is_ascii_digit());
        if starts_well && goes_on_well && name.len() <= GroupName::LENGTH_MAX {
            Ok(GroupName(name))
        } else {
            Err(GroupNameError { text: text.to_owned() })
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as parameter files have it: in lower case.
    pub fn to_lower(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_names_follow_the_rule() {
        for (text, name) in [("e1", "E1"), ("_A$9", "_A$9"), ("abcdefgh", "ABCDEFGH"), ("$", "$")] {
            assert_eq!(GroupName::parse(text).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        for text in ["", "1e", "abcdefghi", "a-b", "a b", "é", "a/b", "..", "a\0"] {
            assert_eq!(GroupName::parse(text), Err(GroupNameError { text: text.to_owned() }), "{text:?}");
        }
    }
}
