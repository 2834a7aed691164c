//! How a trail gets to another place, each record exactly once.
//!
//! Records travel as the bytes that they are; see [`trail::copy`]. An [`Outlet`] numbers what leaves and remembers what has
//! not arrived for good; an [`Intake`] appends what comes, syncs it, and answers how far it is durable; the answer moves the
//! sender's [`Standing`]. A [`Pump`] has both in one process. Between machines lies a network, which may lose, repeat and cut
//! whatever it likes.
//!
//! # What holds
//! - The sender's standing moves only after the answer, and the answer comes only after the sync.
//! - Where the target trail ends decides where sending goes on: with the transaction after its last complete one, which is found
//!   in the source trail by its identity. A target that ends with something that the source does not hold is never written.
//! - A slow target costs the files of the source trail and nothing else: what is under way is bounded.
//!
//! The crate knows no database.

mod error;
mod frame;
mod intake;
mod ledger;
mod line;
mod link;
mod outlet;
mod pump;
mod receiver;
mod retry;
mod rule;
mod sender;
mod session;
mod signing;
mod standing;
mod tls;

pub use error::Error;
pub use frame::{Frame, Hello, Refused};
pub use intake::{Answer, Intake};
pub use ledger::GroupLedger;
pub use line::Line;
pub use link::{SILENCE_DEFAULT, Wire, connect};
pub use outlet::Outlet;
pub use pump::{Pump, PumpSetup, Step};
pub use receiver::{OpenTrail, ReceiverSetup, listen};
pub use retry::{NetworkRetry, Response, RetryTable, RetryTableError, TABLE_DEFAULT};
pub use rule::PathRules;
pub use sender::{RemoteSender, SenderSetup};
pub use session::Session;
pub use signing::Signing;
pub use standing::{Beginning, Ledger, Standing, begin};
pub use tls::{CERTIFICATE_DEFAULT, Fingerprint, Identity, Peer, Peers};
