//! Two homes with a network between them: SQLite, Extract, trail, Pump, TLS, receiver, trail, Replicat, SQLite.

mod guide;
mod homes;
mod kills;
mod network;
mod paths;
mod rmttrail;
