//! End to end: the real binary, real databases, real kills.
//!
//! One test binary, one module per promise or subject. [`stage`] sets the scene.

mod checkpoint_table;
mod compare;
mod conflict_hook;
mod console;
mod deletion;
mod demo;
mod differences;
mod encryption;
mod error_queue;
mod from_remote;
mod heartbeat;
mod interrupted;
mod kills;
mod logdump;
mod mapping;
mod misfits;
mod order;
mod postgres;
mod pump;
mod pump_heartbeat;
mod purge;
mod readme;
mod refusals;
mod remote;
mod report;
mod restored;
mod send;
#[path = "../../testkit/src/server/postgres.rs"]
#[allow(dead_code, reason = "tests of other crates use the rest")]
mod server;
mod showch;
mod single_file;
mod sqlite;
mod stage;
mod start;
mod trail_format;
mod trail_tools;
mod two_way;
mod values;
