//! What the commands do, one file per verb.

pub mod add;
pub mod certificate;
pub mod checkpoint_table;
pub mod delete;
pub mod error_queue;
pub mod heartbeat;
pub mod help;
pub mod info;
pub mod lag;
pub mod login;
pub mod path;
pub mod purge;
pub mod register;
pub mod remote;
pub mod send;
mod showch;
pub mod start;
pub mod stop;
pub mod synchronize;
pub mod trandata;
pub mod wallet;

use super::parse::Command;
use super::{Console, Failure};

/// Does a command that obeys the grammar.
pub type Verb = fn(&mut Console<'_>, &Command) -> Result<(), Failure>;
