//! One session at a time for each group.
//!
//! A Replicat that loses its connection comes back with a new one and reads its checkpoint row. The old backend may still be
//! at work on what was sent to it, commit included, because a pipeline does not wait for answers. Were the row read before
//! that commit, its transaction would be applied twice. So each session holds an advisory lock for as long as its backend
//! lives, and a new one waits for it before it reads anything.

use crate::wire::{Connection, Error as WireError};
use database::{Error, ErrorClass, SessionRequest};
use std::time::{Duration, Instant};

/// How long the lock is waited for at once; the caller comes back.
const WAIT_LIMIT: Duration = Duration::from_secs(15);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock of the group with this name and key, until the connection ends.
///
/// # Errors
/// [`ErrorClass::Transient`] when another session holds it.
pub(super) fn take(connection: &mut Connection, request: &SessionRequest) -> Result<(), Error> {
    let group = &request.group;
    let failed = |error: WireError| error.during(format!("can't take the lock of group {group}"));
    if change::sabotage::is_on("share-a-group") {
        return Ok(());
    }
    let name = format!("drover {group} {}", request.group_key);
    let started = Instant::now();
    loop {
        let lock = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
        if connection.query_one(lock, &[Some(&name)]).map_err(failed)?.is_some_and(|row| row.flag(0)) {
            return Ok(());
        }
        if started.elapsed() >= WAIT_LIMIT {
            let what = format!("another session of group {group} is at work in the target");
            return Err(Error::new(ErrorClass::Transient, what).with_next_step(
                "stop the other Replicat of this name; one that was killed is gone when its backend is",
            ));
        }
        std::thread::sleep(PAUSE);
    }
}
