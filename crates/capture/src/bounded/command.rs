//! SEND EXTRACT …, BR: what an operator can ask of Bounded Recovery.

use super::{INTERVAL_MAX, INTERVAL_MIN};
use crate::long::clock_text;
use crate::open::CommittedSource;
use change::Timestamp;
use process::channel::{Answer, BoundedRequest};
use std::time::Duration;

/// Answers `request` at `now`.
pub fn answer(source: Option<&mut CommittedSource>, request: &BoundedRequest, now: Timestamp) -> Answer {
    let Some(source) = source else {
        return idle(request, "tells committed transactions only", Vec::new());
    };
    if !source.can_be_bounded() {
        let (memory, peak, spilled) = source.kept();
        let lines = vec![
            format!("Open transactions kept: {}", source.open_transactions().len()),
            format!("Memory: {memory} bytes, {peak} at most; spilled so far: {spilled} bytes"),
        ];
        return idle(request, "tells every open transaction again whole after a restart", lines);
    }
    let Some(bounded) = source.bounded() else {
        return match request {
            BoundedRequest::Status | BoundedRequest::Statistics => Answer::told(["Bounded Recovery: OFF (BROFF)"]),
            _ => Answer::refused_but(
                "Bounded Recovery is off",
                "take BROFF out of the parameter file, and start the group again",
            ),
        };
    };
    match request {
        BoundedRequest::Status => return Answer::told(bounded.describe(now)),
        BoundedRequest::Statistics => return Answer::told(bounded.statistics()),
        BoundedRequest::Checkpoint => bounded.want_checkpoint(now),
        BoundedRequest::CheckpointIn { seconds } => {
            bounded.want_checkpoint(now.after(Duration::from_secs(*seconds)));
        }
        BoundedRequest::CheckpointAt { unix_micros } => {
            let at = Timestamp::from_unix_micros(*unix_micros);
            if at < now {
                return Answer::refused(format!("{at} has passed: it is {now}"));
            }
            bounded.want_checkpoint(at);
        }
        BoundedRequest::Start => bounded.go_on(),
        BoundedRequest::Stop => bounded.stop(),
        BoundedRequest::Interval { seconds } => {
            let interval = Duration::from_secs(*seconds);
            if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
                let (least, most) = (clock_text(INTERVAL_MIN), clock_text(INTERVAL_MAX));
                return Answer::refused(format!(
                    "BRINTERVAL is from {least} to {most}, and not {}",
                    clock_text(interval)
                ));
            }
            bounded.set_interval(interval);
        }
    }
    Answer::processed()
}

/// The answer where nothing needs to be persisted.
fn idle(request: &BoundedRequest, why: &str, more: Vec<String>) -> Answer {
    match request {
        BoundedRequest::Status | BoundedRequest::Statistics => {
            let first = format!("Bounded Recovery: nothing to do, this source {why}");
            Answer::told(std::iter::once(first).chain(more))
        }
        _ => Answer::refused(format!(
            "Bounded Recovery has nothing to do here: this source {why}, so that nothing is persisted"
        )),
    }
}
