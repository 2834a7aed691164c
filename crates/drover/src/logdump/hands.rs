//! What a session needs of the machine.

use change::Timestamp;
use inspect::{Hands, Progress};
use process::{Home, Wallet, clock};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;
use trail::cipher::MasterKeys;
use trail::storage::{Directory, Storage};

/// The machine's own hands.
pub struct RealHands {
    home: Option<PathBuf>,
    interrupt: Arc<AtomicBool>,
    shows_progress: bool,
}

impl RealHands {
    /// With the home whose wallet decrypts, and the flag that Ctrl-C raises.
    pub fn new(home: Option<PathBuf>, interrupt: Arc<AtomicBool>, shows_progress: bool) -> RealHands {
        RealHands { home, interrupt, shows_progress }
    }
}

impl Hands for RealHands {
    fn directory(&self, path: &Path) -> Arc<dyn Storage> {
        Arc::new(Directory::new(path))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    fn is_same(&self, one: &Path, other: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| self.absolute(path));
        whole(one) == whole(other)
    }

    fn now(&self) -> Timestamp {
        clock::now()
    }

    fn local_offset(&self, instant: Timestamp) -> i32 {
        local_offset(instant)
    }

    fn modified(&self, path: &Path) -> Option<Timestamp> {
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
        let micros = modified.duration_since(UNIX_EPOCH).ok()?.as_micros();
        Some(Timestamp::from_unix_micros(i64::try_from(micros).ok()?))
    }

    fn keys(&self) -> Result<Arc<dyn MasterKeys>, String> {
        wallet_keys(self.home.as_deref())
    }

    fn run_program(&self, command: &str) -> Result<(), String> {
        let status = Command::new("sh").args(["-c", command]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{command}: {status}")),
            Err(error) => Err(format!("could not run {command}: {error}")),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn progress(&self, progress: Progress) {
        if self.shows_progress {
            show_progress(progress);
        }
    }
}

/// Shows on one line of standard error how far a search is, and wipes the line at the end.
pub fn show_progress(progress: Progress) {
    let Progress { records, rba, length, is_over } = progress;
    let text = match is_over {
        true => "\r\x1b[K".to_owned(),
        false => {
            let percent = (u128::from(rba) * 100).checked_div(u128::from(length)).unwrap_or(100);
            format!("\rScanned {records} records, RBA {rba}, {percent} %")
        }
    };
    // A terminal that is gone needs no sign of life.
    _ = std::io::stderr().write_all(text.as_bytes());
}

/// How far the clocks of this machine's time zone are ahead of UTC at an instant, in seconds.
pub fn local_offset(instant: Timestamp) -> i32 {
    let timestamp = jiff::Timestamp::from_microsecond(instant.unix_micros).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::tz::TimeZone::system().to_offset(timestamp).seconds()
}

/// The master keys of a home's wallet, or why they can't be had.
pub fn wallet_keys(home: Option<&Path>) -> Result<Arc<dyn MasterKeys>, String> {
    let home = home.ok_or("no home is given, whose wallet has the keys: use --home HOME or DROVER_HOME")?;
    let home = Home::open(home).map_err(|error| process::Failure::from(&error).render())?;
    let wallet = Wallet::of(&home);
    wallet.check().map_err(|error| process::Failure::from(&error).render())?;
    Ok(Arc::new(wallet))
}
