//! Progress of the demo: bars on a terminal, plain lines elsewhere, nothing for `--json`.

use super::watch::Seen;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a plain line is printed.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Shows how far the demo is.
pub struct Progress {
    show: Show,
    rows: u64,
    source: Rate,
    target: Rate,
}

enum Show {
    Bars { all: MultiProgress, source: ProgressBar, trail: ProgressBar, target: ProgressBar },
    Lines { last: Option<Instant>, start: Instant },
    Nothing,
}

impl Progress {
    /// Progress of a workload of `rows` row changes.
    pub fn new(rows: u64, quiet: bool) -> Progress {
        let show = if quiet {
            Show::Nothing
        } else if std::io::stderr().is_terminal() {
            let all = MultiProgress::new();
            let style = |template| ProgressStyle::with_template(template).expect("the template is valid");
            let bar = "{prefix:>9} {bar:32.cyan/blue} {human_pos:>11} of {human_len} changes {msg}";
            let make = |style: ProgressStyle, prefix: &'static str| {
                all.add(ProgressBar::new(rows).with_style(style).with_prefix(prefix))
            };
            let source = make(style(bar), "writers");
            let trail = make(style("{prefix:>9} {msg}"), "trail");
            let target = make(style(bar), "target");
            Show::Bars { all, source, trail, target }
        } else {
            Show::Lines { last: None, start: Instant::now() }
        };
        Progress { show, rows, source: Rate::default(), target: Rate::default() }
    }

    /// Shows new numbers. Call it about ten times a second.
    pub fn update(&mut self, seen: &Seen, trail_bytes: u64) {
        let (written, applied) = (seen.source_rows.load(Ordering::Relaxed), seen.target_rows.load(Ordering::Relaxed));
        let now = Instant::now();
        let (source_rate, target_rate) = (self.source.update(now, written), self.target.update(now, applied));
        let lag = milliseconds(seen.lag_micros.load(Ordering::Relaxed));
        let trail_text = format!("{:.1} MB", trail_bytes as f64 / 1e6);
        match &mut self.show {
            Show::Nothing => {}
            Show::Bars { source, trail, target, .. } => {
                // Writers overshoot by up to a transaction each.
                source.set_length(self.rows.max(written));
                source.set_position(written);
                source.set_message(format!("{source_rate:>8.0}/s"));
                trail.set_message(trail_text);
                target.set_length(self.rows.max(written));
                target.set_position(applied);
                target.set_message(format!("{target_rate:>8.0}/s  lag {lag}"));
            }
            Show::Lines { last, start } => {
                if last.is_none_or(|last| now - last >= LINE_EVERY) {
                    *last = Some(now);
                    eprintln!(
                        "{:5.1} s  written {written}, applied {applied} of {} changes, {target_rate:.0}/s, trail \
                         {trail_text}, lag {lag}",
                        start.elapsed().as_secs_f64(),
                        self.rows,
                    );
                }
            }
        }
    }

    /// Shows that something happened.
    pub fn event(&self, text: &str) {
        match &self.show {
            Show::Nothing => {}
            // Printing fails only when the terminal is gone; the demo's result does not depend on it.
            Show::Bars { all, .. } => drop(all.println(text)),
            Show::Lines { start, .. } => eprintln!("{:5.1} s  {text}", start.elapsed().as_secs_f64()),
        }
    }

    /// Takes the bars away or leaves them as they are.
    pub fn finish(&self) {
        if let Show::Bars { source, trail, target, .. } = &self.show {
            [source, trail, target].into_iter().for_each(ProgressBar::abandon);
        }
    }
}

/// Changes per second, smoothed over about a second.
#[derive(Default)]
struct Rate {
    last: Option<(Instant, u64)>,
    smoothed: f64,
}

impl Rate {
    fn update(&mut self, now: Instant, count: u64) -> f64 {
        if let Some((before, earlier)) = self.last {
            let seconds = (now - before).as_secs_f64();
            if seconds > 0.0 {
                let weight = 1.0 - (-seconds).exp();
                let rate = count.saturating_sub(earlier) as f64 / seconds;
                self.smoothed =
                    if self.smoothed == 0.0 { rate } else { self.smoothed + (rate - self.smoothed) * weight };
            }
        }
        self.last = Some((now, count));
        self.smoothed
    }
}

/// Microseconds as text in milliseconds, or in seconds from ten of them on.
pub fn milliseconds(micros: u64) -> String {
    if micros < 10_000_000 { format!("{:.1} ms", micros as f64 / 1e3) } else { format!("{:.1} s", micros as f64 / 1e6) }
}
