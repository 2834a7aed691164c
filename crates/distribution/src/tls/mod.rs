//! Who may speak to whom: TLS 1.3 with certificates on both sides.
//!
//! A home has a certificate, and says whom it believes: single certificates by their fingerprints (`dircrd/peers`), and
//! authorities that sign certificates (`dircrd/ca.crt`).

mod fingerprint;
mod identity;
mod peers;
mod trust;

pub use fingerprint::Fingerprint;
pub use identity::{CERTIFICATE_DEFAULT, Identity};
pub use peers::{Peer, Peers};
