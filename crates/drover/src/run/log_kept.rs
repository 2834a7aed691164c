//! Watching how much log the source keeps for an Extract.

use super::SharedJournal;
use capture::{LogKeptLevel, LogKeptLimits, LogKeptWatch};
use database::{Database, LogKept};
use parameter::LogKeptLevels;
use process::Code;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A thread that looks, beside the capturing: a source that answers slowly must not hold the group up. It ends with this
/// value.
pub(super) struct Watching {
    /// Closed when we go. The thread may hang in a connection then, and nobody waits for it.
    _end: Sender<()>,
}

impl Watching {
    /// Looks now, before anything is read, and then every half minute. What goes wrong with it is the capturing's to tell.
    pub(super) fn start(
        database: Arc<dyn Database>,
        group: String,
        levels: LogKeptLevels,
        journal: SharedJournal,
    ) -> Option<Watching> {
        let limits = LogKeptLimits { warning: levels.warning, critical: levels.critical };
        let mut watch = LogKeptWatch::new(limits);
        // Where nothing is kept that could fill a disk, there is nothing to watch.
        let kept = database.log_kept(&group).ok()??;
        journal.say(Code::Notice, describe(&kept));
        tell(&mut watch, &kept, &journal);
        let (end, ended) = channel::<()>();
        let look = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Ok(Some(kept)) = database.log_kept(&group) else { continue };
                if ended.try_recv() == Err(TryRecvError::Disconnected) {
                    return;
                }
                tell(&mut watch, &kept, &journal);
            }
        };
        // Without the thread nobody is warned, and everything else works.
        let _ = std::thread::Builder::new().name("log-kept".to_owned()).spawn(look);
        Some(Watching { _end: end })
    }
}

fn tell(watch: &mut LogKeptWatch, kept: &LogKept, journal: &SharedJournal) {
    if let Some(level) = watch.look(kept) {
        journal.say(code(level), describe(kept));
    }
}

fn code(level: LogKeptLevel) -> Code {
    match level {
        LogKeptLevel::Usual => Code::LogKeptAgain,
        LogKeptLevel::Warning => Code::LogKept,
        LogKeptLevel::Critical => Code::LogKeptCritical,
    }
}

/// One line about what is kept.
pub(crate) fn describe(kept: &LogKept) -> String {
    format!("the source keeps log for slot {}: {}", kept.holder, amount(kept))
}

/// How much is kept, and what the source says about it.
pub(crate) fn amount(kept: &LogKept) -> String {
    let limit = match (kept.limit, kept.left) {
        (Some(limit), Some(left)) => format!(" of at most {}; {} may still be written", size(limit), size(left)),
        (Some(limit), None) => format!(" of at most {}", size(limit)),
        (None, _) => String::new(),
    };
    format!("{}{limit} (wal_status {})", size(kept.bytes), kept.state_name)
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut rest = bytes as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if rest < 1024.0 {
            break;
        }
        rest /= 1024.0;
        unit = larger;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{rest:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use database::LogState;

    #[test]
    fn sizes_are_told_in_a_fitting_unit() {
        assert_eq!((size(0), size(1023)), ("0 bytes".to_owned(), "1023 bytes".to_owned()));
        assert_eq!((size(1024), size(5 << 30)), ("1.0 kB".to_owned(), "5.0 GB".to_owned()));
    }

    #[test]
    fn a_limit_is_told_with_what_is_left_of_it() {
        let mut kept = LogKept {
            from: None,
            holder: "drover_e1_5".to_owned(),
            is_active: true,
            bytes: 3 << 20,
            state: LogState::Reserved,
            state_name: "reserved".to_owned(),
            limit: None,
            left: None,
        };
        let usual = "the source keeps log for slot drover_e1_5: 3.0 MB (wal_status reserved)";
        assert_eq!(describe(&kept), usual);
        (kept.limit, kept.left) = (Some(1 << 30), Some(20 << 20));
        assert_eq!(describe(&kept), usual.replace("MB", "MB of at most 1.0 GB; 20.0 MB may still be written"));
    }
}
