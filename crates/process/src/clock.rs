//! The one place that reads the time.

use change::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// This moment, by the machine's clock.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the place that everybody else gets the time from")]
    let now = SystemTime::now();
    let micros = match now.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    };
    Timestamp::from_unix_micros(micros)
}

/// The date and time of an instant to the second, `YYYY-MM-DD HH:MM:SS`, in UTC.
pub fn to_second(time: Timestamp) -> String {
    let text = time.to_string();
    text.split('.').next().unwrap_or(&text).to_owned()
}
