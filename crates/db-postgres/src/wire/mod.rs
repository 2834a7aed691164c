//! A blocking client for the PostgreSQL protocol, version 3.0.
//!
//! # How it works
//! The socket is non-blocking and every wait is a `poll` with a limit, so one thread can send a long pipeline while the
//! server already answers: neither side can wait for the other for ever. What arrives lies in one large buffer, and
//! messages are slices of it.
//!
//! # What it promises
//! - Every session has the [pinned settings](settings), whatever the role or the database says.
//! - A password is never printed, and an error never holds a row value: texts of the server that quote values are left
//!   out.
//!
//! Start reading at [`Connection`].

mod certificate;
mod config;
mod connection;
mod copy;
mod error;
mod frame;
mod lsn;
mod password;
mod pipeline;
mod replication;
mod row;
pub mod settings;
mod startup;
mod tls;
mod transport;

pub use config::{ChannelBinding, Config, Host, Secret, SslMode};
pub use connection::{Canceller, Connection, Notice, QueryResult};
pub use copy::{CopyIn, CopyOut};
pub use error::{Error, ServerError};
pub use lsn::Lsn;
pub use pipeline::{Failed, Parameter, Pipeline, Statement};
pub use replication::{ReplicationMessage, ReplicationStream};
pub use row::TextRow;
