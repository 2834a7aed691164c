//! Servers, simulated world and golden scripts for tests.
