//! How changes rest on disk, and come back after a crash.
