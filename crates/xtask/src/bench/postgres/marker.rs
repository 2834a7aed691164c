//! Waiting at the target for the rows by which a run's end is known.

use super::contender::Stage;
use std::process::Child;

/// A row of `bench_marker` that is waited for.
pub struct Marker(Child);

impl Stage<'_> {
    /// Starts to look for the marker, every few milliseconds for at most five minutes.
    pub fn look_for(&self, number: u64) -> Result<Marker, String> {
        // Each look is a transaction of its own: an old snapshot would keep the target from cleaning up.
        let sql = format!(
            "DO $$ BEGIN
                FOR look IN 1..60000 LOOP
                    IF EXISTS (SELECT FROM bench_marker WHERE id = {number}) THEN RETURN; END IF;
                    COMMIT;
                    PERFORM pg_sleep(0.005);
                END LOOP;
                RAISE 'it took too long';
            END $$"
        );
        let child = self.target.psql(self.to, &sql).spawn();
        Ok(Marker(child.map_err(|cause| format!("could not start psql: {cause}"))?))
    }

    /// Waits for the marker.
    pub fn await_marker(&self, number: u64) -> Result<(), String> {
        self.look_for(number)?.wait()
    }
}

impl Marker {
    /// Returns when it is visible.
    pub fn wait(mut self) -> Result<(), String> {
        let status = self.0.wait().map_err(|cause| format!("the observer was lost: {cause}"))?;
        if status.success() { Ok(()) } else { Err("the marker did not arrive".to_owned()) }
    }
}
