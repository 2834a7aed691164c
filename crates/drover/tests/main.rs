//! End to end: the real binary, real databases, real kills.
//!
//! One test binary, one module per promise or subject. [`stage`] sets the scene.

mod compare;
mod console;
mod deletion;
mod demo;
mod interrupted;
mod kills;
mod mapping;
mod order;
mod readme;
mod refusals;
mod report;
mod sqlite;
mod stage;
mod two_way;
mod values;
