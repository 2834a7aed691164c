//! Servers, simulated world and golden scripts for tests.

pub mod sabotage;
pub mod script;
pub mod world;
