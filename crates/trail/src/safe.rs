//! The published safe position.
