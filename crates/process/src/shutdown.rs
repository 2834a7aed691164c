//! How a process is told to stop.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish to stop, from a signal or from within. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: Arc<AtomicBool>,
}

impl Shutdown {
    /// Listens to SIGTERM and SIGINT. The first asks to stop in good order; a second one ends the process at once, with
    /// the exit code that shells give to a process that the signal killed.
    ///
    /// # Errors
    /// When the operating system does not let signals be handled.
    pub fn install() -> io::Result<Shutdown> {
        let shutdown = Shutdown::default();
        for signal in [SIGTERM, SIGINT] {
            // Order matters: the first signal must find the flag still down when it comes to this line.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&shutdown.requested))?;
            signal_hook::flag::register(signal, Arc::clone(&shutdown.requested))?;
        }
        Ok(shutdown)
    }

    /// Whether to stop.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }
}
