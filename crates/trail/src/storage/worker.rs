//! Work beside the caller.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A piece of work.
pub type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// What became of a piece of work.
#[derive(Debug)]
pub struct Done {
    /// Its result.
    pub result: io::Result<()>,
    /// How long it took.
    pub took: Duration,
}

/// Somebody who does one piece of work at a time beside the caller.
///
/// Dropping it waits for the work that was started: nothing goes on behind the back of whoever comes next.
pub trait Worker: Send {
    /// Starts `work`. The work before it must have been asked for its result.
    fn start(&mut self, work: Work) -> io::Result<()>;

    /// The result of the work that was started, once; `None` when there is no work, or when it is not done yet and `wait` is
    /// not asked for.
    fn result(&mut self, wait: bool) -> Option<Done>;
}

/// Does work at once.
#[derive(Default)]
pub(super) struct Inline {
    done: Option<Done>,
}

impl Worker for Inline {
    fn start(&mut self, work: Work) -> io::Result<()> {
        self.done = Some(run(work));
        Ok(())
    }

    fn result(&mut self, _wait: bool) -> Option<Done> {
        self.done.take()
    }
}

pub(super) fn run(work: Work) -> Done {
    let begun = Instant::now();
    let result = work();
    Done { result, took: begun.elapsed() }
}

/// A thread, which comes into being with the first piece of work.
#[derive(Default)]
pub(super) struct Thread {
    running: Option<Running>,
    is_busy: bool,
}

struct Running {
    /// `None` only while it ends.
    work: Option<Sender<Work>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new() -> io::Result<Running> {
        let (work, to_do) = channel::<Work>();
        let (tell, done) = channel();
        let body = move || {
            // Ends when nobody is there any more to give work or to hear of it.
            while to_do.recv().is_ok_and(|work| tell.send(run(work)).is_ok()) {}
        };
        let thread = std::thread::Builder::new().name("trail-sync".to_owned()).spawn(body)?;
        Ok(Running { work: Some(work), done, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("the thread that syncs has ended")
}

impl Worker for Thread {
    fn start(&mut self, work: Work) -> io::Result<()> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(Running::new()?),
        };
        let sender = running.work.as_ref().ok_or_else(lost)?;
        sender.send(work).map_err(|_| lost())?;
        self.is_busy = true;
        Ok(())
    }

    fn result(&mut self, wait: bool) -> Option<Done> {
        let running = self.running.as_ref().filter(|_| self.is_busy)?;
        let done = if wait {
            running.done.recv().unwrap_or_else(|_| Done { result: Err(lost()), took: Duration::ZERO })
        } else {
            match running.done.try_recv() {
                Ok(done) => done,
                Err(std::sync::mpsc::TryRecvError::Empty) => return None,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => Done { result: Err(lost()), took: Duration::ZERO },
            }
        };
        self.is_busy = false;
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_thread_works_while_its_caller_goes_on_and_tells_once() {
        let mut thread = Thread::default();
        assert!(thread.result(true).is_none(), "there is no work");
        let (go, wait) = sync_channel(0);
        thread.start(Box::new(move || wait.recv().map_err(io::Error::other))).expect("starts");
        assert!(thread.result(false).is_none(), "it waits for us");
        go.send(()).expect("is there");
        assert!(thread.result(true).is_some_and(|done| done.result.is_ok()));
        assert!(thread.result(true).is_none(), "it was told");
        thread.start(Box::new(|| Err(io::ErrorKind::StorageFull.into()))).expect("starts again");
        assert!(thread.result(true).is_some_and(|done| done.result.is_err()));
    }

    #[test]
    fn work_that_was_started_is_done_when_the_thread_is_gone() {
        let done = Arc::new(AtomicBool::new(false));
        let mut thread = Thread::default();
        let told = Arc::clone(&done);
        let work: Work = Box::new(move || {
            told.store(true, Ordering::SeqCst);
            Ok(())
        });
        thread.start(work).expect("starts");
        drop(thread);
        assert!(done.load(Ordering::SeqCst));
    }
}
