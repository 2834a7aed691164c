//! Tests against real SQLite files. Users write through connections of their own, which know nothing of Drover.

mod another_version;
mod capture;
mod conformance;
mod healing;
mod history;
mod killed;
mod replaced;
mod session;
mod source;
mod stage;
