//! A running group's files, in real directories and on a disk that loses what was not synced.

mod channel;
mod checkpoint_crash;
mod checkpoint_file;
mod golden;
mod heartbeat_network;
mod heartbeat_properties;
mod heartbeat_scripts;
mod home;
mod policy;
mod sample;
