//! The bytes of a trail file, as `docs/formats/trail.md` describes them.
//!
//! A file is a run of records without gaps. A record is a frame of tokens ([`token`]): `G`, a 34-byte header `H`, the data
//! `D`, further tokens `T`, and a trailer `Z` that repeats the length, so that records can be walked in both directions
//! ([`record`]). What a record tells is its [`operation`]. Data is a list of columns ([`column`](mod@column)), a definition ([`metadata`]), or a part of something
//! too long for one record ([`fragment`]). The first record is the file header ([`header`]).
//!
//! Nothing here touches a disk, and no input makes a decoder panic: what can't be read is a [`Damage`](crate::Damage).

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)
)]

pub mod bytes;
pub mod charset;
pub mod column;
pub mod fragment;
pub mod header;
pub mod layout;
pub mod metadata;
pub mod operation;
pub mod partition;
pub mod record;
pub mod sequence;
pub mod statement;
pub mod token;
pub mod user_token;
