//! PostgreSQL against real servers, which the tests start and stop.

#[path = "../../testkit/src/server/postgres.rs"]
#[allow(dead_code, reason = "tests of other crates use the rest")]
mod server;

mod apply;
mod capture;
mod conformance;
mod crash;
mod pgoutput;
mod stage;
mod wire;
