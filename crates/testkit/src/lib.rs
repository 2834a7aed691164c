//! Servers, simulated world and golden scripts for tests.

pub mod script;
