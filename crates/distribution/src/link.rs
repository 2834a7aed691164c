//! A connection: messages over a WebSocket over TLS over TCP.
//!
//! A thread of its own encrypts, decrypts and waits for the network; whoever owns the [`Wire`] meanwhile works with the trail.
//! What leaves is bounded by the sender's [`Outlet`](crate::Outlet); of what comes only so much is taken that a few messages
//! wait, and TCP holds the rest back.

use crate::Error;
use crate::frame::{FRAME_BYTES_MAX, Frame};
use crate::line::Line;
use crate::tls::Identity;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, ClientConnection, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

/// Messages that came and were not taken yet.
const WAITING_MAX: usize = 16;

/// How long connecting and each step of the handshake may take. With the delays of the retry table, a partition of five minutes
/// is outlived.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Silence after which the other side is taken for dead, unless the operator says otherwise.
pub const SILENCE_DEFAULT: Duration = Duration::from_secs(30);

/// How long the reason why a connection has ended is waited for.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// How long what was sent may take to leave when its owner is gone.
const ENDING_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that TLS and WebSocket read and write at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// A stream with TLS on either side of it.
enum Secured {
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Secured {
    fn socket(&self) -> &TcpStream {
        match self {
            Secured::Client(stream) => &stream.sock,
            Secured::Server(stream) => &stream.sock,
        }
    }

    /// Whether encrypted bytes wait for room in the network's buffers.
    fn wants_write(&self) -> bool {
        match self {
            Secured::Client(stream) => stream.conn.wants_write(),
            Secured::Server(stream) => stream.conn.wants_write(),
        }
    }

    fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        let chain = match self {
            Secured::Client(stream) => stream.conn.peer_certificates(),
            Secured::Server(stream) => stream.conn.peer_certificates(),
        };
        chain?.first()
    }
}

impl Read for Secured {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Secured::Client(stream) => stream.read(buffer),
            Secured::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Secured {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Secured::Client(stream) => stream.write(buffer),
            Secured::Server(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Secured::Client(stream) => stream.flush(),
            Secured::Server(stream) => stream.flush(),
        }
    }
}

/// One end of a connection.
pub struct Wire {
    outgoing: Option<Sender<Bytes>>,
    /// Taken by one thread at a time; the lock makes that so.
    incoming: Mutex<Receiver<Result<Bytes, Error>>>,
    waker: Waker,
    socket: Arc<TcpStream>,
    thread: Option<std::thread::JoinHandle<()>>,
    peer: String,
}

/// Ends a connection from another thread.
#[derive(Clone)]
pub struct Cutter(Arc<TcpStream>);

impl Cutter {
    /// Ends it at once.
    pub fn cut(&self) {
        // Whoever waits for it hears of it by that.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[derive(Clone)]
struct Waker(Arc<UnixStream>);

impl Waker {
    fn wake(&self) {
        // A pipe that is full wakes as well.
        let _ = (&*self.0).write(&[1]);
    }
}

/// Connects to `host`, an address of IPv6 without brackets, at `port` and asks for `path`.
///
/// # Errors
/// [`Error::Network`]; [`Error::Certificate`]; [`Error::Protocol`].
pub fn connect(identity: &Identity, host: &str, port: u16, path: &str, silence: Duration) -> Result<Wire, Error> {
    let peer = format!("{}:{port}", parameter::bracketed(host));
    let network = |source: io::Error| Error::Network { peer: peer.clone(), source };
    let session = identity.client(host)?;
    let addresses = (host, port).to_socket_addrs().map_err(network)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut socket = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(connected) => {
                socket = Some(connected);
                break;
            }
            Err(error) => last = error,
        }
    }
    let socket = socket.ok_or(last).map_err(network)?;
    prepare(&socket).map_err(network)?;
    let mut stream = Secured::Client(Box::new(StreamOwned::new(session, socket)));
    handshake(&mut stream).map_err(|error| of_handshake(&peer, error))?;
    let url = format!("wss://{peer}{path}");
    let (socket, _) =
        tungstenite::client::client_with_config(url, stream, Some(configuration())).map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => of_websocket(&peer, error),
            tungstenite::HandshakeError::Interrupted(_) => network(io::ErrorKind::TimedOut.into()),
        })?;
    Wire::start(socket, peer, silence)
}

/// A connection that was taken in.
pub(crate) struct Accepted {
    pub(crate) wire: Wire,
    /// What it asks for.
    pub(crate) path: String,
    /// The name of the peer who connected, if his certificate is believed for itself.
    pub(crate) name: Option<String>,
}

/// Takes a connection in.
///
/// # Errors
/// As [`connect`].
pub(crate) fn accept(identity: &Identity, socket: TcpStream, silence: Duration) -> Result<Accepted, Error> {
    let peer = socket.peer_addr().map_or_else(|_| "somebody".to_owned(), |address| address.to_string());
    let network = |source: io::Error| Error::Network { peer: peer.clone(), source };
    prepare(&socket).map_err(network)?;
    let mut stream = Secured::Server(Box::new(StreamOwned::new(identity.server()?, socket)));
    handshake(&mut stream).map_err(|error| of_handshake(&peer, error))?;
    let name = stream.peer_certificate().and_then(|certificate| identity.peer(certificate));
    let mut path = String::new();
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let see = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        path = request.uri().to_string();
        Ok(response)
    };
    let socket =
        tungstenite::accept_hdr_with_config(stream, see, Some(configuration())).map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => of_websocket(&peer, error),
            tungstenite::HandshakeError::Interrupted(_) => network(io::ErrorKind::TimedOut.into()),
        })?;
    Ok(Accepted { wire: Wire::start(socket, peer, silence)?, path, name })
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))
}

/// Does the handshake of TLS, so that what is wrong with certificates is told as such.
fn handshake(stream: &mut Secured) -> io::Result<()> {
    match stream {
        Secured::Client(stream) => {
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
        }
        Secured::Server(stream) => {
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
        }
    }
    Ok(())
}

fn configuration() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}

/// The error of a handshake: what TLS says of certificates, or what the network did.
fn of_handshake(peer: &str, error: io::Error) -> Error {
    let of_trust = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some_and(is_of_trust);
    match of_trust {
        true => Error::Certificate { what: format!("no trust between this home and {peer}"), source: Box::new(error) },
        false => Error::Network { peer: peer.to_owned(), source: error },
    }
}

/// Whether trying again is of no use. A message that was damaged on its way says nothing about trust.
fn is_of_trust(error: &rustls::Error) -> bool {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::PeerIncompatible(_) => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            Alert::NoCertificate
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::ProtocolVersion
                | Alert::CertificateRequired
        ),
        _ => false,
    }
}

fn of_websocket(peer: &str, error: tungstenite::Error) -> Error {
    match error {
        tungstenite::Error::Io(source) => of_handshake(peer, source),
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            Error::Network { peer: peer.to_owned(), source: io::ErrorKind::ConnectionReset.into() }
        }
        tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Error::Network { peer: peer.to_owned(), source: io::ErrorKind::ConnectionReset.into() }
        }
        error => Error::Protocol(error.to_string()),
    }
}

impl Wire {
    fn start(socket: WebSocket<Secured>, peer: String, silence: Duration) -> Result<Wire, Error> {
        let network = |source: io::Error| Error::Network { peer: peer.clone(), source };
        let tcp = socket.get_ref().socket();
        tcp.set_read_timeout(None).map_err(network)?;
        tcp.set_write_timeout(None).map_err(network)?;
        tcp.set_nonblocking(true).map_err(network)?;
        let cutter = Arc::new(tcp.try_clone().map_err(network)?);
        let (waker, woken) = UnixStream::pair().map_err(network)?;
        waker.set_nonblocking(true).map_err(network)?;
        woken.set_nonblocking(true).map_err(network)?;
        let (outgoing, leaving) = channel();
        let (coming, incoming) = sync_channel(WAITING_MAX);
        let pump = Loop { socket, leaving, coming, woken, silence, peer: peer.clone(), held: None, is_ending: false };
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn(move || pump.run()).map_err(network)?;
        let waker = Waker(Arc::new(waker));
        let incoming = Mutex::new(incoming);
        Ok(Wire { outgoing: Some(outgoing), incoming, waker, socket: cutter, thread: Some(thread), peer })
    }

    /// Something that ends the connection from another thread.
    pub fn cutter(&self) -> Cutter {
        Cutter(Arc::clone(&self.socket))
    }

    fn incoming(&self) -> MutexGuard<'_, Receiver<Result<Bytes, Error>>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the connection has ended.
    fn reason(&self) -> Error {
        loop {
            match self.incoming().recv_timeout(REASON_TIMEOUT) {
                Ok(Ok(message)) => {
                    if let Ok(Frame::Refused(refused)) = Frame::decode(message) {
                        return Error::Refused { peer: self.peer.clone(), refused };
                    }
                }
                Ok(Err(error)) => return error,
                Err(_) => return self.ended(),
            }
        }
    }

    fn ended(&self) -> Error {
        Error::Network { peer: self.peer.clone(), source: io::ErrorKind::ConnectionAborted.into() }
    }
}

impl Line for Wire {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn send(&self, frame: Bytes) -> Result<(), Error> {
        let sent = self.outgoing.as_ref().is_some_and(|outgoing| outgoing.send(frame).is_ok());
        self.waker.wake();
        match sent {
            true => Ok(()),
            // Why it has ended stands behind what came before.
            false => Err(self.reason()),
        }
    }

    fn receive(&self, timeout: Duration) -> Result<Option<Frame>, Error> {
        let received = match timeout.is_zero() {
            true => self.incoming().try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            false => self.incoming().recv_timeout(timeout),
        };
        match received {
            Ok(message) => {
                self.waker.wake();
                Frame::decode(message?).map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }
}

impl Drop for Wire {
    /// Lets what was sent leave, then closes.
    fn drop(&mut self) {
        self.outgoing = None;
        self.waker.wake();
        // The thread must not wait for room for what came: nobody takes it any more.
        while !self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished) {
            if let Err(RecvTimeoutError::Disconnected) = self.incoming().recv_timeout(Duration::from_millis(20)) {
                break;
            }
            self.waker.wake();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread of a connection does.
struct Loop {
    socket: WebSocket<Secured>,
    leaving: Receiver<Bytes>,
    coming: SyncSender<Result<Bytes, Error>>,
    woken: UnixStream,
    silence: Duration,
    peer: String,
    /// A message for which there was no room.
    held: Option<Bytes>,
    /// The owner is gone: what is left leaves, and that is all.
    is_ending: bool,
}

impl Loop {
    fn run(mut self) {
        if let Err(error) = self.work() {
            // The owner hears of it behind all messages that came; if he is gone, nobody has to know.
            let _ = self.coming.send(Err(error));
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        let ping_every = self.silence / 3;
        let (mut heard, mut pinged) = (Instant::now(), Instant::now());
        let (mut is_pending, mut ending) = (false, None);
        loop {
            let mut drained = [0; 256];
            while matches!((&self.woken).read(&mut drained), Ok(length) if length == drained.len()) {}
            while !is_pending && !self.is_ending {
                match self.leaving.try_recv() {
                    Ok(message) => is_pending = self.written(|socket| socket.write(Message::Binary(message)))?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        (self.is_ending, ending) = (true, Some(Instant::now()));
                        is_pending = self.written(|socket| socket.close(None))?;
                    }
                }
            }
            if pinged.elapsed() >= ping_every && !self.is_ending {
                pinged = Instant::now();
                self.written(|socket| socket.write(Message::Ping(Bytes::new())))?;
            }
            is_pending = self.written(WebSocket::flush)? || self.socket.get_ref().wants_write();
            if self.is_ending && (!is_pending || ending.is_none_or(|since: Instant| since.elapsed() >= ENDING_TIMEOUT))
            {
                return Ok(());
            }
            if let Some(message) = self.held.take() {
                self.hand_over(message);
            }
            while self.held.is_none() {
                match self.socket.read() {
                    Ok(Message::Binary(message)) => {
                        heard = Instant::now();
                        self.hand_over(message);
                    }
                    Ok(Message::Close(_)) => return Err(self.network(io::ErrorKind::ConnectionAborted.into())),
                    Ok(_) => heard = Instant::now(),
                    Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(of_websocket(&self.peer, error)),
                }
            }
            if self.held.is_none() && heard.elapsed() >= self.silence {
                let source = io::Error::new(io::ErrorKind::TimedOut, "the other side has been silent for too long");
                return Err(self.network(source));
            }
            if self.held.is_some() {
                heard = Instant::now();
            }
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, self.held.is_none());
            flags.set(PollFlags::OUT, is_pending);
            let mut polled =
                [PollFd::new(self.socket.get_ref().socket(), flags), PollFd::new(&self.woken, PollFlags::IN)];
            let timeout = (ping_every / 4).min(Duration::from_millis(500));
            let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.network(error.into())),
            }
        }
    }

    /// Does something that may have to wait for room in the network's buffers; returns whether it has.
    fn written(
        &mut self,
        write: impl FnOnce(&mut WebSocket<Secured>) -> Result<(), tungstenite::Error>,
    ) -> Result<bool, Error> {
        match write(&mut self.socket) {
            Ok(()) => Ok(false),
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(tungstenite::Error::ConnectionClosed) if self.is_ending => Ok(false),
            Err(error) => Err(of_websocket(&self.peer, error)),
        }
    }

    fn hand_over(&mut self, message: Bytes) {
        if self.is_ending {
            return;
        }
        match self.coming.try_send(Ok(message)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(message)) => self.held = message.ok(),
        }
    }

    fn network(&self, source: io::Error) -> Error {
        Error::Network { peer: self.peer.clone(), source }
    }
}
