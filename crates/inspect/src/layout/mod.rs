//! How records look, column by column as documented.
//!
//! The forms are those of release 21. For files of earlier levels a few lines have the forms of the releases that wrote them.

mod columns;
mod definition;
mod file_header;
mod record;

pub use definition::MetadataFormat;
pub use file_header::file_header;
pub use record::{LINE, Shown, header_tokens, record};

use crate::hex::Characters;
use crate::time::{LocalOffset, Zone};

/// A setting that is off, on, or on with more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Not shown.
    #[default]
    Off,
    /// Shown.
    On,
    /// Shown with all parts.
    Detail,
}

impl Depth {
    /// `OFF`, `ON` or `DETAIL`.
    pub fn name(self) -> &'static str {
        match self {
            Depth::Off => "OFF",
            Depth::On => "ON",
            Depth::Detail => "DETAIL",
        }
    }
}

/// What of a record is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// GHDR: the fields of the record header.
    pub header: bool,
    /// DETAIL: On lists columns, Detail (DETAIL DATA) also their bytes.
    pub columns: Depth,
    /// HEADERTOKEN: the tokens that a record is made of.
    pub header_tokens: Depth,
    /// GGSTOKEN: what stands in `T`.
    pub tokens: Depth,
    /// USERTOKEN.
    pub user_tokens: Depth,
    /// FILEHEADER.
    pub file_header: Depth,
    /// METADATA.
    pub metadata: MetadataFormat,
    /// RECLEN: most bytes of the data that are dumped.
    pub data_bytes_max: usize,
    /// TIMEOFFSET.
    pub zone: Zone,
    /// ASCIIDATA or EBCDICDATA.
    pub data_characters: Characters,
    /// ASCIIHEADER or EBCDICHEADER.
    pub header_characters: Characters,
    /// ASCIIDUMP or EBCDICDUMP.
    pub dump_characters: Characters,
}

impl Default for Display {
    fn default() -> Display {
        Display {
            header: false,
            columns: Depth::Off,
            header_tokens: Depth::Off,
            tokens: Depth::Off,
            user_tokens: Depth::Off,
            file_header: Depth::Off,
            metadata: MetadataFormat::Detail,
            data_bytes_max: 140,
            zone: Zone::Local,
            data_characters: Characters::Ascii,
            header_characters: Characters::Ascii,
            dump_characters: Characters::Ascii,
        }
    }
}

/// Display settings with what they need of the machine.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// The settings.
    pub display: &'a Display,
    /// Local time.
    pub local: LocalOffset<'a>,
}
