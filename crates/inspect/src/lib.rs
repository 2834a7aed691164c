//! What a trail holds, told to people.
//!
//! [`Session`] is Logdump: commands in, text out, over [`trail::storage`]. Its commands stand in one table, [`grammar`], from which
//! parser, help, completion and the reference page come. [`layout`] prints records column by column as documented, [`filter`] says which
//! ones, [`walk`] finds them, in whole files and in damaged ones, of whatever product.
//!
//! [`tools`] are for those who do not know Logdump: show, grep, stat, export, verify and undo.
//!
//! Nothing here knows a terminal, a clock, an environment or a database.
//!
//! Start reading at [`Session`].

pub mod definitions;
pub mod environment;
mod error;
pub mod filter;
pub mod grammar;
pub mod hex;
pub mod layout;
mod open_file;
mod session;
pub mod statistics;
pub mod time;
pub mod tools;
pub mod walk;
mod words;

pub use error::Error;
pub use open_file::{Given, OpenFile, Piece};
pub use session::{Flow, Hands, Progress, Session};
