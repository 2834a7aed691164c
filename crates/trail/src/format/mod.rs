//! The bytes of a trail file.
pub mod header;
