//! A receiver: listens for senders and writes their records into trails of its home.
//!
//! A trail has one sender, for ever: whose it is stands in `dirchk/<trail>.received`. One that connects anew takes the place of
//! his own earlier connection, which may be half open; anybody else is refused.

use crate::frame::{Frame, Hello, Refused, VERSION};
use crate::line::{Line, expect};
use crate::link::{self, Accepted, Cutter, Wire};
use crate::tls::Identity;
use crate::{Error, Intake, Session};
use process::{Code, Failure};
use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trail::TrailName;
use trail::copy::CopyWriter;
use trail::storage::Storage;

/// Connections at one time: each has two threads and a few megabytes.
const CONNECTIONS_MAX: usize = 256;

/// Where senders go.
pub(crate) const TARGETS: &str = "/services/v2/targets";

/// How long a sender may take to say what he wants.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of an earlier connection is waited for.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a connection looks whether the receiver is to stop.
const TICK: Duration = Duration::from_millis(100);

/// What a receiver needs of its process.
pub struct ReceiverSetup {
    /// Its certificate and those that it believes.
    pub identity: Identity,
    /// Silence after which a sender is taken for dead.
    pub silence: Duration,
    /// The home's `dirchk`.
    pub dirchk: Arc<dyn Storage>,
    /// Opens the trail that a sender names.
    pub open: OpenTrail,
    /// For the operator.
    pub say: Box<dyn Fn(Code, String) + Send + Sync>,
    /// Whether it is to stop.
    pub is_stopping: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Opens the trail of a name for a sender, or says why not.
pub type OpenTrail = Box<dyn Fn(&str, &Hello) -> Result<CopyWriter, Box<Failure>> + Send + Sync>;

struct Shared {
    setup: ReceiverSetup,
    trails: Mutex<HashMap<String, Slot>>,
    changed: Condvar,
    connections: Mutex<usize>,
    ended: Condvar,
}

/// A trail that was asked for.
enum Slot {
    /// Nobody sends now.
    Idle(Box<CopyWriter>),
    /// Somebody does.
    Busy { cutter: Cutter, owner: String },
}

/// Takes connections until it is told to stop.
///
/// # Errors
/// When the socket can't be used.
pub fn listen(listener: &TcpListener, setup: ReceiverSetup) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let shared = Arc::new(Shared {
        setup,
        trails: Mutex::default(),
        changed: Condvar::new(),
        connections: Mutex::default(),
        ended: Condvar::new(),
    });
    while !(shared.setup.is_stopping)() {
        match listener.accept() {
            Ok((socket, _)) => Shared::take(&shared, socket)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(listener)?,
            // What befell one connection, or a lack of descriptors that passes.
            Err(_) => std::thread::sleep(TICK),
        }
    }
    let mut connections = lock(&shared.connections);
    while *connections > 0 {
        connections = shared.ended.wait(connections).unwrap_or_else(PoisonError::into_inner);
    }
    drop(connections);
    for (_, slot) in lock(&shared.trails).drain() {
        if let Slot::Idle(writer) = slot {
            // What counts is synced; a next start repairs the rest.
            let _ = writer.close();
        }
    }
    Ok(())
}

fn wait_for(listener: &TcpListener) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn take(shared: &Arc<Shared>, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        let mut connections = lock(&shared.connections);
        if *connections == CONNECTIONS_MAX {
            return Ok(());
        }
        *connections += 1;
        drop(connections);
        let own = Arc::clone(shared);
        let started = std::thread::Builder::new().name("sender".to_owned()).spawn(move || {
            let _leaving = Leaving(&own);
            if let Err(error) = own.serve(socket) {
                let failure = Failure::from(&error);
                let lines = failure.causes().iter().map(|cause| format!("\n  cause: {cause}"));
                (own.setup.say)(Code::SenderGone, format!("{}{}", failure.what(), lines.collect::<String>()));
            }
        });
        if started.is_err() {
            *lock(&shared.connections) -= 1;
        }
        Ok(())
    }

    fn serve(&self, socket: TcpStream) -> Result<(), Error> {
        let Accepted { wire, path, name } = link::accept(&self.setup.identity, socket, self.setup.silence)?;
        let wire = Arc::new(wire);
        let Frame::Hello(hello) = expect(&*wire, HELLO_TIMEOUT)? else {
            return Err(Error::Protocol("a sender did not say what he wants".to_owned()));
        };
        let refuse = |failure: &Failure| {
            let refused = refusal(failure);
            let _ = wire.send(Frame::Refused(refused.clone()).encode(None));
            Error::Refused { peer: wire.peer().to_owned(), refused }
        };
        // What a peer says of himself counts only beside what his certificate says.
        let owner = match name {
            Some(name) => format!("{} as {name}", hello.who),
            None => hello.who.clone(),
        };
        if hello.version != VERSION {
            let what = format!("the sender speaks version {} of the protocol, and this is {VERSION}", hello.version);
            return Err(refuse(&Failure::new(Code::PathProtocol, what)));
        }
        if path.split('?').next() != Some(TARGETS) {
            let what = format!("{path} is nothing that a receiver has");
            return Err(refuse(&Failure::new(Code::PathRefused, what)));
        }
        let (trail, writer) = self.claim(&hello, &owner, &wire).map_err(|failure| refuse(&failure))?;
        (self.setup.say)(Code::SenderConnected, format!("{owner} sends {} into trail {trail}", hello.source));
        let (result, writer) = self.session(&wire, writer);
        let result = result.map_err(|error| match error {
            // The sender should know what became of his records.
            Error::Target(_) => refuse(&Failure::from(&error)),
            error => error,
        });
        let mut trails = lock(&self.trails);
        match writer {
            Some(writer) => trails.insert(trail.clone(), Slot::Idle(Box::new(writer))),
            None => trails.remove(&trail),
        };
        self.changed.notify_all();
        drop(trails);
        result
    }

    /// Takes the trail for this sender.
    fn claim(&self, hello: &Hello, owner: &str, wire: &Wire) -> Result<(String, CopyWriter), Box<Failure>> {
        let trail = hello.target.rsplit('/').next().unwrap_or_default().to_owned();
        let directory = hello.target.strip_suffix(&*trail).unwrap_or_default();
        let is_name = TrailName::parse(&trail).or_else(|_| TrailName::single(&trail)).is_ok();
        if !matches!(directory, "" | "./dirdat/" | "dirdat/") || !is_name {
            let what = format!("{:?} is no trail that a sender may name", hello.target);
            let failure = Failure::new(Code::PathRefused, what);
            return Err(failure
                .with_next_step("name a trail in dirdat of the receiver's home, such as ./dirdat/bb")
                .into());
        }
        let idle = self.take_slot(&trail, owner, wire)?;
        let opened = self.is_known_owner(&trail, owner).and_then(|is_known| {
            let writer = match idle {
                Some(writer) => writer,
                None => (self.setup.open)(&trail, hello)?,
            };
            // Only who may write the trail is its owner for good.
            if !is_known {
                self.note_owner(&trail, owner)?;
            }
            Ok(writer)
        });
        if opened.is_err() {
            lock(&self.trails).remove(&trail);
            self.changed.notify_all();
        }
        opened.map(|writer| (trail, writer))
    }

    /// Keeps all others away from the trail. Returns the writer of an earlier connection, if it can be used again.
    fn take_slot(&self, trail: &str, owner: &str, wire: &Wire) -> Result<Option<CopyWriter>, Box<Failure>> {
        let mut trails = lock(&self.trails);
        let idle = loop {
            match trails.remove(trail) {
                None => break None,
                // Files that were removed meanwhile are missed by opening the trail anew.
                Some(Slot::Idle(writer)) => break Some(*writer).filter(CopyWriter::is_in_place),
                Some(Slot::Busy { cutter, owner: other }) => {
                    let is_same = other == owner;
                    if is_same {
                        // The same sender, whose earlier connection may be half open.
                        cutter.cut();
                    }
                    let busy = Slot::Busy { cutter, owner: other.clone() };
                    trails.insert(trail.to_owned(), busy);
                    if !is_same {
                        return Err(taken(trail, &other, owner));
                    }
                    let (again, waited) =
                        self.changed.wait_timeout(trails, TAKE_OVER_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
                    trails = again;
                    if waited.timed_out() {
                        let what = format!("the earlier connection of {owner} to trail {trail} does not end");
                        return Err(Failure::new(Code::PathUnreachable, what).into());
                    }
                }
            }
        };
        trails.insert(trail.to_owned(), Slot::Busy { cutter: wire.cutter(), owner: owner.to_owned() });
        Ok(idle)
    }

    /// Whether the trail is known to be this sender's; `false` when it is nobody's yet.
    fn is_known_owner(&self, trail: &str, owner: &str) -> Result<bool, Box<Failure>> {
        match self.setup.dirchk.read_whole(&note_of(trail)) {
            Ok(other) if other == owner.as_bytes() => Ok(true),
            Ok(other) => Err(taken(trail, &String::from_utf8_lossy(&other), owner)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(unusable(trail, &error)),
        }
    }

    /// Makes the trail this sender's.
    fn note_owner(&self, trail: &str, owner: &str) -> Result<(), Box<Failure>> {
        let (disk, name) = (&*self.setup.dirchk, note_of(trail));
        let made = || -> io::Result<()> {
            let unnamed = format!("{name}.new");
            match disk.remove(&unnamed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.create(&unnamed)?;
            file.write_at(owner.as_bytes(), 0)?;
            file.sync()?;
            disk.rename(&unnamed, &name)?;
            disk.sync_directory()
        };
        made().map_err(|error| unusable(trail, &error))
    }

    /// Takes batches until the connection ends. Gives the writer back if it can be used again.
    fn session(&self, wire: &Arc<Wire>, writer: CopyWriter) -> (Result<(), Error>, Option<CopyWriter>) {
        let line = Arc::clone(wire) as Arc<dyn Line>;
        let mut session = match Intake::new(writer).and_then(|intake| Session::begin(line, intake)) {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        let result = loop {
            if (self.setup.is_stopping)() {
                break session.settle();
            }
            if let Err(error) = session.step(TICK) {
                break Err(error);
            }
        };
        let is_usable = !matches!(result, Err(Error::Target(_)));
        (result, is_usable.then(|| session.into_writer()))
    }
}

/// The file in dirchk that says whose a trail is.
fn note_of(trail: &str) -> String {
    format!("{trail}.received")
}

fn taken(trail: &str, owner: &str, other: &str) -> Box<Failure> {
    let what = format!("trail {trail} is that of {owner}, and {other} can't send into it, too");
    Failure::new(Code::TargetTrailTaken, what).with_object(trail).into()
}

fn unusable(trail: &str, error: &io::Error) -> Box<Failure> {
    Failure::new(Code::HomeRefused, format!("could not use {} in dirchk", note_of(trail))).with_cause(error).into()
}

/// What a sender is told of a failure at the receiver.
fn refusal(failure: &Failure) -> Refused {
    let is_passing = failure.code().is_passing() || failure.code() == Code::TrailDiskFull;
    let mut what = failure.what().to_owned();
    failure.causes().iter().for_each(|cause| what = format!("{what}: {cause}"));
    Refused { code: failure.code().to_string(), what, next_step: failure.next_step().to_owned(), is_passing }
}

/// Counts a connection out, however its thread ends.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *lock(&self.0.connections) -= 1;
        self.0.ended.notify_all();
    }
}
