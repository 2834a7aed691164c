//! A running group's files, in real directories and on a disk that loses what was not synced.

mod checkpoint_crash;
mod checkpoint_file;
mod golden;
mod home;
mod policy;
mod sample;
