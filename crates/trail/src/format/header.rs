//! The first record of a file.

/// What the first record of a file says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Number of the file.
    pub sequence: u32,
}
