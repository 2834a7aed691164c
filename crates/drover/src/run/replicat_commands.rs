//! What a running Replicat answers.

use super::Run;
use apply::AnyReplicat;
use process::channel::{Answer, Request};
use process::clock;

impl Run {
    /// Answers what was asked since the last step.
    pub(super) fn answer_replicat(&mut self, replicat: &AnyReplicat, trail: &str) {
        self.commands.parts.look(clock::now(), replicat.statistics());
        while let Some(pending) = self.commands.next() {
            let progress = replicat.progress();
            let answer = match pending.request() {
                Request::Status => Answer::told(self.status_of_replicat(replicat, trail)),
                Request::LogEnd => Answer::told([if progress.caught_up { "YES." } else { "NO." }]),
                Request::Lag => self.lag(progress.lag(clock::now()), progress.caught_up),
                request => {
                    let request = request.clone();
                    self.answer_of_group(&request, replicat.statistics(), "Applied to the target:")
                        .unwrap_or_else(|| self.unfit())
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
