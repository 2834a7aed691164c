//! Servers, simulated world and golden scripts for tests.
//!
//! - [`world`]: the whole pipeline in one thread, ruled by a seed, where anything may die at any call.
//! - [`script`]: text files of commands and the output that they must give.
//! - [`mutation`]: trail and checkpoint files changed at random, for every decoder.
//! - [`sabotage`]: the switches that break a promise on purpose, and the tests that must notice.
//!
//! A unit test can't use this crate where this crate uses the one under test: it would see two copies of its types. Such
//! tests stand in `tests/`.
//!
//! Start reading at [`world`].

pub mod mutation;
pub mod sabotage;
pub mod script;
pub mod world;
