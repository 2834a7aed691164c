//! How SQLite does it.
