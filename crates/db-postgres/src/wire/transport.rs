//! The socket, with or without TLS around it.

use super::config::{Config, Host, SslMode};
use super::frame::{Frame, Incoming};
use super::{Error, certificate, tls};
use bytes::{Buf, BytesMut};
use postgres_protocol::message::frontend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Answers that may pile up while we are still sending: a server that answers more than this to one batch is not sane.
const UNREAD_BYTES_MAX: usize = 256 << 20;
/// Growth step of the receive buffer.
const RECEIVE_BYTES: usize = 256 * 1024;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A point in time after which waiting ends; `None` waits for ever.
pub(crate) type Deadline = Option<Instant>;

/// A non-blocking connection whose waits have limits.
pub(crate) struct Transport {
    stream: Stream,
    tls: Option<Box<ClientConnection>>,
    incoming: Incoming,
}

impl Transport {
    /// Connects and, where the mode asks for it, encrypts.
    pub(crate) fn connect(config: &Config, deadline: Deadline) -> Result<Transport, Error> {
        let stream = match &config.host {
            Host::Tcp(host) => Stream::Tcp(connect_tcp(config, host, deadline).map_err(Error::Lost)?),
            Host::Directory(directory) => {
                let path = directory.join(format!(".s.PGSQL.{}", config.port));
                let stream = UnixStream::connect(path).map_err(Error::Lost)?;
                stream.set_nonblocking(true).map_err(Error::Lost)?;
                Stream::Unix(stream)
            }
        };
        let mut transport = Transport { stream, tls: None, incoming: Incoming::new(RECEIVE_BYTES) };
        if let Host::Tcp(host) = &config.host
            && config.ssl_mode != SslMode::Disable
        {
            transport.encrypt(config, host, deadline)?;
        }
        Ok(transport)
    }

    fn encrypt(&mut self, config: &Config, host: &str, deadline: Deadline) -> Result<(), Error> {
        let mut session = tls::session(config, host)?;
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        self.send(&mut request)?;
        // Exactly one byte: anything that came with it would be plain text in the place of encrypted text.
        let mut answer = [0_u8; 1];
        loop {
            match retry_later(self.stream.read(&mut answer)).map_err(Error::Lost)? {
                None => self.wait(false, deadline).map_err(Error::Lost)?,
                Some(0) => return Err(Error::Lost(io::ErrorKind::UnexpectedEof.into())),
                Some(_) => break,
            }
        }
        match answer {
            [b'S'] => {}
            [b'N'] if config.ssl_mode == SslMode::Prefer => return Ok(()),
            [b'N'] => return Err(Error::Login("sslmode asks for encryption, but the server has none")),
            _ => return Err(Error::Protocol("the answer to the request for encryption is neither yes nor no")),
        }
        while session.is_handshaking() {
            self.handshake_step(&mut session, deadline).map_err(Error::Lost)?;
        }
        self.tls = Some(Box::new(session));
        Ok(())
    }

    fn handshake_step(&mut self, session: &mut ClientConnection, deadline: Deadline) -> io::Result<()> {
        while session.wants_write() {
            if retry_later(session.write_tls(&mut self.stream))?.is_none() {
                self.wait(true, deadline)?;
            }
        }
        if !session.wants_read() {
            return Ok(());
        }
        match retry_later(session.read_tls(&mut self.stream))? {
            None => self.wait(false, deadline)?,
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => {
                if let Err(error) = session.process_new_packets() {
                    // The server's log then says why we went away.
                    let _ = session.write_tls(&mut self.stream);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        Ok(())
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// What SCRAM can bind the login to.
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        certificate::end_point(self.tls.as_ref()?.peer_certificates()?.first()?)
    }

    /// Sends all of `bytes`, taking in what the server says meanwhile.
    pub(crate) fn send(&mut self, bytes: &mut BytesMut) -> Result<(), Error> {
        match self.try_send(bytes) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.last_words(error)),
        }
    }

    fn try_send(&mut self, bytes: &mut BytesMut) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = match &mut self.tls {
                None => retry_later(self.stream.write(bytes))?,
                // The session buffers a limited amount, and says how much it took.
                Some(session) => Some(session.writer().write(bytes)?),
            };
            bytes.advance(taken.unwrap_or(0));
            if self.flush_tls()? || taken.is_none() {
                self.exchange()?;
            }
        }
        while self.flush_tls()? {
            self.exchange()?;
        }
        Ok(())
    }

    /// Waits until the socket takes or gives something, and takes in what it gives.
    fn exchange(&mut self) -> io::Result<()> {
        if self.poll(PollFlags::IN | PollFlags::OUT, None)?.contains(PollFlags::IN) {
            while self.fill()? {
                if self.incoming.len() > UNREAD_BYTES_MAX {
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many answers to one batch"));
                }
            }
        }
        Ok(())
    }

    /// The server's reason for closing the connection, if it gave one before it went.
    fn last_words(&mut self, error: io::Error) -> Error {
        while let Ok(true) = self.fill() {}
        while let Ok(Some(frame)) = self.incoming.next() {
            if frame.tag == b'E' {
                return Error::Server(Box::new(super::ServerError::decode(&frame.body)));
            }
        }
        Error::Lost(error)
    }

    /// The next message, waiting for it until `deadline`; `None` when it did not come.
    pub(crate) fn next(&mut self, deadline: Deadline) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(frame) = self.incoming.next()? {
                return Ok(Some(frame));
            }
            if self.fill().map_err(Error::Lost)? {
                continue;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero())
                || self.poll(PollFlags::IN, left).map_err(Error::Lost)?.is_empty()
            {
                return Ok(None);
            }
        }
    }

    /// The next message if it has arrived already.
    pub(crate) fn next_arrived(&mut self) -> Result<Option<Frame>, Error> {
        if let Some(frame) = self.incoming.next()? {
            return Ok(Some(frame));
        }
        if self.fill().map_err(Error::Lost)? { self.incoming.next() } else { Ok(None) }
    }

    /// Takes in what has arrived, once; `false` when there is nothing.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(session) = &mut self.tls else {
            return match retry_later(self.stream.read(self.incoming.spare()))? {
                None => Ok(false),
                Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => {
                    self.incoming.advance(count);
                    Ok(true)
                }
            };
        };
        loop {
            match retry_later(session.reader().read(self.incoming.spare()))? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => {
                    self.incoming.advance(count);
                    return Ok(true);
                }
                None => {}
            }
            match retry_later(session.read_tls(&mut self.stream))? {
                None => return Ok(false),
                // The session itself then says whether the end was announced.
                Some(_) => session
                    .process_new_packets()
                    .map(drop)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
            }
            // What TLS itself wants to say, such as an answer to a key update, goes out as far as the socket takes it.
            while session.wants_write() && retry_later(session.write_tls(&mut self.stream))?.is_some() {}
        }
    }

    /// Sends what TLS holds; `true` when the socket takes no more now.
    fn flush_tls(&mut self) -> io::Result<bool> {
        let Some(session) = &mut self.tls else { return Ok(false) };
        while session.wants_write() {
            if retry_later(session.write_tls(&mut self.stream))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn wait(&self, to_write: bool, deadline: Deadline) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let flags = if to_write { PollFlags::OUT } else { PollFlags::IN };
        if self.poll(flags, left)?.is_empty() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// What the socket is ready for, empty after `wait`; errors and hang-ups count as ready to read.
    fn poll(&self, flags: PollFlags, wait: Option<Duration>) -> io::Result<PollFlags> {
        let until = wait.map(|wait| Instant::now() + wait);
        let mut left = wait;
        loop {
            let mut descriptors = [PollFd::new(&self.stream, flags)];
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut descriptors, limit.as_ref()) {
                Ok(0) => return Ok(PollFlags::empty()),
                Ok(_) => {
                    let ready = descriptors[0].revents();
                    let broken = ready.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
                    return Ok(if broken { ready | PollFlags::IN } else { ready });
                }
                Err(rustix::io::Errno::INTR) => {
                    left = until.map(|until| until.saturating_duration_since(Instant::now()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Turns "would block" and "interrupted" into `None`.
fn retry_later(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

fn connect_tcp(config: &Config, host: &str, deadline: Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host's name has no address");
    for address in (host, config.port).to_socket_addrs()? {
        match connect_address(config, address, deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_address(config: &Config, address: SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    match deadline {
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            socket.connect_timeout(&address.into(), left)?;
        }
        None => socket.connect(&address.into())?,
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let reference = SockRef::from(&stream);
    if !config.keepalive_idle.is_zero() {
        let interval = (config.keepalive_idle / 3).max(Duration::from_secs(1));
        reference.set_tcp_keepalive(
            &TcpKeepalive::new().with_time(config.keepalive_idle).with_interval(interval).with_retries(3),
        )?;
    }
    #[cfg(target_os = "linux")]
    if !config.tcp_user_timeout.is_zero() {
        reference.set_tcp_user_timeout(Some(config.tcp_user_timeout))?;
    }
    Ok(stream)
}
