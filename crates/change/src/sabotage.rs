//! Switches that break a promise on purpose, in test builds only.
//!
//! `cargo x sabotage` builds with the `sabotage` feature, turns on one switch at a time through the environment variable
//! `DROVER_SABOTAGE`, and expects the test suite to go red. In every other build [`is_on`] is the constant `false`.

/// Whether the switch called `name` is turned on.
#[cfg(feature = "sabotage")]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("DROVER_SABOTAGE").ok()).as_deref() == Some(name)
}

/// Whether the switch called `name` is turned on: never, outside test builds.
#[cfg(not(feature = "sabotage"))]
#[inline(always)]
pub const fn is_on(_name: &str) -> bool {
    false
}
