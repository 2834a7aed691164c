//! What a running Replicat answers.

use super::Run;
use super::conflicts::ConflictDesk;
use apply::AnyReplicat;
use process::channel::{Answer, Request};
use process::clock;

impl Run {
    /// Answers what was asked since the last step.
    pub(super) fn answer_replicat(&mut self, replicat: &AnyReplicat, trail: &str, desk: &ConflictDesk) {
        self.commands.parts.look(clock::now(), replicat.statistics());
        while let Some(pending) = self.commands.next() {
            let progress = replicat.progress();
            let answer = match pending.request() {
                Request::Status => {
                    let lines = self.status_of_replicat(replicat, trail).into_iter();
                    Answer::told(lines.chain(desk.lines(replicat)))
                }
                Request::LogEnd => Answer::told([if progress.caught_up { "YES." } else { "NO." }]),
                Request::Lag => self.lag(progress.lag(clock::now()), progress.caught_up),
                request => {
                    let request = request.clone();
                    let answer = self.answer_of_group(&request, replicat.statistics(), "Applied to the target:");
                    match (answer.unwrap_or_else(|| self.unfit()), &request) {
                        (Answer::Done { lines }, Request::Statistics(asked)) if !asked.reset => {
                            Answer::told(lines.into_iter().chain(conflict_lines(desk, replicat)))
                        }
                        (answer, _) => answer,
                    }
                }
            };
            pending.answer(&answer);
        }
    }

    fn status_of_replicat(&self, replicat: &AnyReplicat, trail: &str) -> Vec<String> {
        let progress = replicat.progress();
        let doing = if progress.caught_up { "At EOF" } else { "Processing data" };
        let time = progress.last_commit_time.map_or("Not Available".to_owned(), |time| time.to_string());
        let total = replicat.statistics().total();
        let seconds = clock::now().elapsed_since(replicat.statistics().since()).as_secs().max(1);
        vec![
            self.title(),
            format!("  Current status: {doing}"),
            String::new(),
            "Current read position:".to_owned(),
            format!("Sequence #: {}", progress.position.sequence),
            format!("RBA: {}", progress.position.rba),
            format!("Timestamp: {time}"),
            format!("Extract Trail: {trail}"),
            String::new(),
            format!(
                "Operations: {} read, {} applied, {} filtered; {} transactions; {} a second since the start",
                total.read,
                total.written,
                total.filtered_total(),
                progress.transactions,
                total.read / seconds
            ),
        ]
    }
}

/// What STATS adds where there were conflicts or parked transactions, always since the start.
fn conflict_lines(desk: &ConflictDesk, replicat: &AnyReplicat) -> Vec<String> {
    let mut lines = desk.lines(replicat);
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}
