//! PostgreSQL to PostgreSQL through the real binary, on servers that the tests start.
//!
//! What a test claims about data is asked by psql; what it claims about processes comes from their exit status, their output
//! and their files.

mod checkpoint_table;
mod coordinated;
mod copy;
mod ddl;
mod encrypted;
mod error_queue;
mod from_remote;
mod guide;
mod happy;
mod heartbeat;
mod identity;
mod joining;
mod kills;
mod many;
mod misfits;
mod names;
mod operations;
mod parallel;
mod partitions;
mod prepared;
mod products;
mod progress;
mod registration;
mod repair;
mod rights;
mod rules;
mod send;
mod shapes;
mod showch;
mod slots;
mod stage;
mod streaming;
mod target;
mod tls;
mod trail_tools;
mod trandata;
mod two_way;
mod values;
mod versions;
mod wide;
