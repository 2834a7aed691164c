//! The group's end of the channel.

use super::address::Address;
use super::{Answer, READ_LIMIT, REQUEST_BYTES_MAX, Request, WAITING_MAX, WRITE_LIMIT};
use crate::{GroupName, Home};
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a connection that could not be taken: the system is out of something that somebody must give back first.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes requests for a group, and hands them to its loop. Whoever makes one holds the group's lock.
pub struct CommandChannel {
    address: Address,
    requests: Receiver<Pending>,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Pending {
    request: Request,
    stream: Option<UnixStream>,
}

impl CommandChannel {
    /// Listens for `group`. A socket that a killed process has left is replaced.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn open(home: &Home, group: &GroupName) -> io::Result<CommandChannel> {
        let address = Address::of(home, group);
        let (path, unready) = (address.path(), address.unready_path());
        remove(&unready)?;
        let listener = address.shortened(&unready, |path| UnixListener::bind(path))?;
        // Nobody else may ask, not even for a moment: the socket comes under its name when that holds.
        fs::set_permissions(&unready, Permissions::from_mode(0o600))?;
        fs::rename(&unready, &path)?;
        let (sender, requests) = sync_channel(WAITING_MAX);
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let listen = move || listen(&listener, &sender, &closed);
        let thread = std::thread::Builder::new().name("commands".to_owned()).spawn(listen)?;
        Ok(CommandChannel { address, requests, is_closed, thread: Some(thread) })
    }

    /// The next request, if one has come.
    pub fn next(&self) -> Option<Pending> {
        self.requests.try_recv().ok()
    }

    /// The next request; waits for it at most `wait`.
    pub fn wait(&self, wait: Duration) -> Option<Pending> {
        match self.requests.recv_timeout(wait) {
            Ok(pending) => Some(pending),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(wait);
                None
            }
        }
    }
}

impl Drop for CommandChannel {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let path = self.address.path();
        // Wakes the thread.
        let woken = self.address.shortened(&path, |path| UnixStream::connect(path));
        // One that can't be removed is replaced at the next start.
        let _ = remove(&path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Pending {
    /// What is wanted.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Answers. A client that is gone misses its answer.
    pub fn answer(mut self, answer: &Answer) {
        if let Some(stream) = self.stream.take() {
            let _ = write(stream, answer);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = write(stream, &Answer::refused("the group ended before it could answer"));
        }
    }
}

fn remove(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn listen(listener: &UnixListener, requests: &SyncSender<Pending>, is_closed: &AtomicBool) {
    for stream in listener.incoming() {
        if is_closed.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // A client that sends nonsense or nothing gets what it can be given, and others go on.
        let _ = take(stream, requests);
    }
}

fn take(stream: UnixStream, requests: &SyncSender<Pending>) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_LIMIT))?;
    stream.set_write_timeout(Some(WRITE_LIMIT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let request: Request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(error) => {
            return write(stream, &Answer::refused(format!("the request is not understood: {error}")));
        }
    };
    match requests.try_send(Pending { request, stream: Some(stream) }) {
        Ok(()) => {}
        Err(TrySendError::Full(pending)) => {
            pending.answer(&Answer::refused("too many requests are waiting for the group; ask again"));
        }
        // Its end answers.
        Err(TrySendError::Disconnected(_)) => {}
    }
    Ok(())
}

fn write(mut stream: UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
