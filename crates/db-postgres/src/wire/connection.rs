//! One session with a server.

use super::config::Config;
use super::error::During;
use super::frame::{Fields, Frame};
use super::pipeline::Statements;
use super::startup::{self, Welcome, version_number};
use super::transport::{Deadline, Transport};
use super::{Error, ServerError, TextRow, settings};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Notices that are kept until somebody asks for them.
const NOTICES_MAX: usize = 100;

/// Something that the server wanted to be known, such as a trigger's RAISE WARNING.
pub type Notice = ServerError;

/// The result of one statement of a simple query.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// Names of the result's columns.
    pub columns: Vec<String>,
    /// Rows, as text.
    pub rows: Vec<TextRow>,
    /// Number of rows that the command tag names.
    pub affected: u64,
}

/// One session with a server, with the [pinned settings](settings).
///
/// After an error of class [`ErrorClass::ConnectionLost`](database::ErrorClass::ConnectionLost) every later call fails.
pub struct Connection {
    pub(super) transport: Transport,
    pub(super) outgoing: BytesMut,
    pub(super) statements: Statements,
    config: Config,
    welcome: Welcome,
    version: u32,
    transaction: u8,
    notices: VecDeque<Notice>,
    changed_setting: Option<&'static str>,
    broken: bool,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`ErrorClass`](database::ErrorClass) `ConnectionLost` when the server is not reached in time, `Denied` when it
    /// does not let us in, `Missing` when there is no such database, `Permanent` when TLS can't be set up.
    pub fn connect(config: &Config) -> Result<Connection, database::Error> {
        Connection::open(config, false).during(|| format!("can't connect to {config}"))
    }

    /// Connects to a walsender that decodes changes of the database.
    ///
    /// # Errors
    /// As [`connect`](Connection::connect).
    pub fn connect_for_replication(config: &Config) -> Result<Connection, database::Error> {
        Connection::open(config, true).during(|| format!("can't connect to {config} for replication"))
    }

    fn open(config: &Config, replication: bool) -> Result<Connection, Error> {
        let deadline = Some(Instant::now() + config.connect_timeout);
        let mut transport = Transport::connect(config, deadline)?;
        let welcome = startup::log_in(&mut transport, config, replication, deadline)?;
        let version = welcome.parameters.get("server_version").map_or(0, |text| version_number(text));
        let mut connection = Connection {
            transport,
            outgoing: BytesMut::new(),
            statements: Statements::default(),
            config: config.clone(),
            welcome,
            version,
            transaction: b'I',
            notices: VecDeque::new(),
            changed_setting: None,
            broken: false,
        };
        connection.run(&settings::statements(version))?;
        connection.changed_setting = None;
        Ok(connection)
    }

    /// The server's version as `server_version_num` writes it: 150020 for 15.20.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.transport.is_encrypted()
    }

    /// Settings that the server reports, with their present values.
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.welcome.parameters
    }

    /// What this connection was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of the server's process behind this session.
    pub fn process_id(&self) -> i32 {
        self.welcome.process_id
    }

    /// Whether a transaction is open, failed ones included.
    pub fn is_in_transaction(&self) -> bool {
        self.transaction != b'I'
    }

    /// Whether a transaction is open that an error has spoiled. COMMIT would then roll back, and not say so.
    pub fn is_transaction_failed(&self) -> bool {
        self.transaction == b'E'
    }

    /// Takes the notices that came since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.notices.drain(..).collect()
    }

    /// A handle by which another thread can cancel what this session is doing.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            config: self.config.clone(),
            process_id: self.welcome.process_id,
            secret_key: self.welcome.secret_key,
        }
    }

    /// Runs statements as one simple query and returns the result of each.
    ///
    /// # Errors
    /// The first error; the statements of one query without BEGIN are one transaction.
    pub fn simple_query(&mut self, sql: &str) -> Result<Vec<QueryResult>, Error> {
        self.check()?;
        frontend::query(sql, &mut self.outgoing).map_err(|_| Error::Protocol("a statement holds a zero byte"))?;
        self.flush()?;
        let mut results = Vec::new();
        let mut current = QueryResult::default();
        let mut failure = None;
        loop {
            let frame = self.next_frame()?;
            match frame.tag {
                b'T' => current.columns = column_names(&frame)?,
                b'D' => current.rows.push(TextRow::decode(frame.body)?),
                b'C' => {
                    current.affected = affected(&frame);
                    results.push(std::mem::take(&mut current));
                }
                b'I' => results.push(std::mem::take(&mut current)),
                b'E' => failure = Some(self.failure(&frame)),
                b'Z' => break,
                _ => return Err(self.confused()),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.check_settings().map(|()| results),
        }
    }

    /// Runs statements whose results do not matter.
    ///
    /// # Errors
    /// As [`simple_query`](Connection::simple_query).
    pub fn run(&mut self, sql: &str) -> Result<u64, Error> {
        Ok(self.simple_query(sql)?.last().map_or(0, |result| result.affected))
    }

    /// Runs one statement with parameters given as text (`None` is NULL) and returns its rows.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn query(&mut self, sql: &str, parameters: &[Option<&str>]) -> Result<Vec<TextRow>, Error> {
        self.check()?;
        let bad = |_| Error::Protocol("a statement can't be encoded");
        frontend::parse("", sql, [], &mut self.outgoing).map_err(bad)?;
        super::pipeline::bind(
            "",
            parameters.iter().map(|parameter| match parameter {
                Some(text) => super::Parameter::Text(text.as_bytes()),
                None => super::Parameter::Null,
            }),
            &mut self.outgoing,
        )?;
        frontend::execute("", 0, &mut self.outgoing).map_err(bad)?;
        frontend::sync(&mut self.outgoing);
        self.flush()?;
        let mut rows = Vec::new();
        let mut failure = None;
        loop {
            let frame = self.next_frame()?;
            match frame.tag {
                b'1' | b'2' | b'C' | b'I' => {}
                b'D' => rows.push(TextRow::decode(frame.body)?),
                b'E' => failure = Some(self.failure(&frame)),
                b'Z' => break,
                _ => return Err(self.confused()),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.check_settings().map(|()| rows),
        }
    }

    /// As [`query`](Connection::query), for a statement that gives at most one row.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn query_one(&mut self, sql: &str, parameters: &[Option<&str>]) -> Result<Option<TextRow>, Error> {
        Ok(self.query(sql, parameters)?.into_iter().next())
    }

    /// Sends what is encoded.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.transport.send(&mut self.outgoing).inspect_err(|_| self.broken = true)
    }

    /// The next message that belongs to what was asked, waiting without limit.
    pub(super) fn next_frame(&mut self) -> Result<Frame, Error> {
        loop {
            // Without a deadline the wait ends only with a message or an error.
            if let Some(frame) = self.next_frame_until(None)? {
                return Ok(frame);
            }
        }
    }

    /// The next message that belongs to what was asked, or `None` at `deadline`.
    ///
    /// Messages that may come at any time are taken care of on the way.
    pub(super) fn next_frame_until(&mut self, deadline: Deadline) -> Result<Option<Frame>, Error> {
        loop {
            let Some(frame) = self.transport.next(deadline).inspect_err(|_| self.broken = true)? else {
                return Ok(None);
            };
            if let Some(frame) = self.sort(frame)? {
                return Ok(Some(frame));
            }
        }
    }

    /// As [`next_frame_until`](Connection::next_frame_until), without any waiting.
    pub(super) fn next_frame_arrived(&mut self) -> Result<Option<Frame>, Error> {
        while let Some(frame) = self.transport.next_arrived().inspect_err(|_| self.broken = true)? {
            if let Some(frame) = self.sort(frame)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    fn sort(&mut self, frame: Frame) -> Result<Option<Frame>, Error> {
        match frame.tag {
            b'S' => {
                let (name, value) = startup::parameter(&frame)?;
                if let Some((pinned, _)) =
                    settings::WATCHED.iter().find(|(pinned, wanted)| *pinned == name && *wanted != value)
                {
                    self.changed_setting = Some(pinned);
                }
                self.welcome.parameters.insert(name, value);
                Ok(None)
            }
            b'N' => {
                if self.notices.len() == NOTICES_MAX {
                    self.notices.pop_front();
                }
                self.notices.push_back(ServerError::decode(&frame.body));
                Ok(None)
            }
            // A notification: we never listen, but a trigger of the user's may make us.
            b'A' => Ok(None),
            b'Z' => {
                self.transaction = Fields(&frame.body).u8()?;
                Ok(Some(frame))
            }
            _ => Ok(Some(frame)),
        }
    }

    /// Refuses to use a connection that is lost.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.broken { Err(Error::Lost(std::io::ErrorKind::NotConnected.into())) } else { Ok(()) }
    }

    /// Refuses to go on when something in the database changed a setting that decides how values read.
    pub(super) fn check_settings(&mut self) -> Result<(), Error> {
        if self.changed_setting.is_none() {
            return Ok(());
        }
        self.broken = true;
        Err(Error::Protocol("a trigger or function changed a setting of our session that values depend on"))
    }

    /// The error in an ErrorResponse.
    pub(super) fn failure(&mut self, frame: &Frame) -> Error {
        let error = ServerError::decode(&frame.body);
        self.broken |= error.is_fatal();
        Error::Server(Box::new(error))
    }

    /// A message came that does not belong here: nothing that follows can be trusted.
    pub(super) fn confused(&mut self) -> Error {
        self.broken = true;
        Error::Protocol("a message came that does not belong to what was asked")
    }

    /// Marks the connection as unusable.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }
}

/// Says goodbye, so that the server's log shows no lost connection.
impl Drop for Connection {
    fn drop(&mut self) {
        if !self.broken && self.outgoing.is_empty() {
            frontend::terminate(&mut self.outgoing);
            // The process goes on either way.
            let _ = self.transport.send(&mut self.outgoing);
        }
    }
}

/// Cancels what a session is doing, from another thread.
#[derive(Clone, Debug)]
pub struct Canceller {
    config: Config,
    process_id: i32,
    secret_key: i32,
}

impl Canceller {
    /// Asks the server to cancel. Whether something was cancelled shows in the session itself.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub fn cancel(&self) -> Result<(), database::Error> {
        self.send().during(|| format!("can't cancel a statement at {}", self.config))
    }

    fn send(&self) -> Result<(), Error> {
        let deadline = Some(Instant::now() + self.config.connect_timeout);
        let mut transport = Transport::connect(&self.config, deadline)?;
        let mut out = BytesMut::new();
        frontend::cancel_request(self.process_id, self.secret_key, &mut out);
        transport.send(&mut out)?;
        // The server closes the connection once it has passed the request on.
        match transport.next(deadline) {
            Err(Error::Lost(_)) | Ok(None) => Ok(()),
            Err(error) => Err(error),
            Ok(Some(_)) => Err(Error::Protocol("a request to cancel got an answer")),
        }
    }
}

fn column_names(frame: &Frame) -> Result<Vec<String>, Error> {
    let mut fields = Fields(&frame.body);
    (0..fields.u16()?)
        .map(|_| {
            let name = fields.text()?.to_owned();
            // Table, column number, type, length, modifier, format.
            fields.bytes(18)?;
            Ok(name)
        })
        .collect()
}

/// The number of rows that a command tag ends with; 0 for commands that count none.
pub(super) fn affected(frame: &Frame) -> u64 {
    let tag = frame.body.strip_suffix(b"\0").unwrap_or(&frame.body);
    let digits = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
