//! What can go wrong between us and a server.

use bytes::Bytes;
use database::ErrorClass;
use std::fmt;
use std::io;

/// A call to a server that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; the connection lives unless the class says otherwise.
    #[error(transparent)]
    Server(#[from] Box<ServerError>),
    /// The connection broke or could not be made.
    #[error("the connection to the server is lost")]
    Lost(#[source] io::Error),
    /// The server said something that the protocol does not allow here.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// The server can't log us in the way we are allowed to.
    #[error("the login is refused: {0}")]
    Login(&'static str),
    /// The certificates or keys that TLS needs can't be used.
    #[error("TLS can't be set up: {what}")]
    Tls {
        /// What could not be done to which file.
        what: String,
        /// Why.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// The reaction that the error asks for.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Server(error) => error.class(),
            Error::Lost(_) => ErrorClass::ConnectionLost,
            Error::Protocol(_) => ErrorClass::ConnectionLost,
            Error::Login(_) => ErrorClass::Denied,
            Error::Tls { .. } => ErrorClass::Permanent,
        }
    }

    /// What the server said, if it was the server.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Error::Server(error) => Some(error),
            _ => None,
        }
    }

    /// The five characters of the server's error code, if it was the server.
    pub fn code(&self) -> Option<&str> {
        self.server().map(ServerError::code)
    }

    /// The same failure in the words of the caller: `what` says what could not be done to what.
    pub fn during(self, what: impl Into<String>) -> database::Error {
        let error = database::Error::new(self.class(), what);
        let error = match self.next_step() {
            Some(step) => error.with_next_step(step),
            None => error,
        };
        error.with_cause(self)
    }

    fn next_step(&self) -> Option<&'static str> {
        Some(match self.code() {
            Some("28P01") => "check user and password",
            Some("28000") => "check user, database and the server's pg_hba.conf",
            Some("42501") => "grant the right that the cause names, or remove row-level security for our role",
            Some("53300") => "raise max_connections or wait until connections are free",
            Some("53400") => "raise the limit that the cause names, and restart the server",
            Some("53100") => "make room on the server's disk",
            Some("57P03") => "wait until the server has started",
            _ => match self {
                Error::Lost(_) => "check that the server runs and that the network lets us through",
                _ => return None,
            },
        })
    }
}

/// Adds the caller's words to a failure.
pub(crate) trait During<T> {
    /// See [`Error::during`].
    fn during<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, database::Error>;
}

impl<T> During<T> for Result<T, Error> {
    fn during<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T, database::Error> {
        self.map_err(|error| error.during(what()))
    }
}

/// An error or notice of the server, without the parts that can hold row values.
///
/// DETAIL, CONTEXT and HINT are never kept: they quote rows. The message itself is kept only where the server's source
/// puts no value into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    severity: String,
    code: String,
    message: Option<String>,
    schema: Option<String>,
    table: Option<String>,
    column: Option<String>,
    data_type: Option<String>,
    constraint: Option<String>,
}

impl ServerError {
    /// Reads the body of an ErrorResponse or NoticeResponse; parts that are not understood are left out.
    pub(crate) fn decode(body: &Bytes) -> ServerError {
        let mut error = ServerError { code: "XX000".to_owned(), ..ServerError::default() };
        let mut message = None;
        for part in body.split(|byte| *byte == 0) {
            let Some((kind, text)) = part.split_first() else { continue };
            let text = String::from_utf8_lossy(text).into_owned();
            match kind {
                // The severity that is never translated, since version 9.6.
                b'V' => error.severity = text,
                b'C' => error.code = text,
                b'M' => message = Some(text),
                b's' => error.schema = Some(text),
                b't' => error.table = Some(text),
                b'c' => error.column = Some(text),
                b'd' => error.data_type = Some(text),
                b'n' => error.constraint = Some(text),
                _ => {}
            }
        }
        error.message = message.filter(|_| message_is_free_of_values(&error.code));
        error
    }

    /// SQLSTATE: five characters.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The message, where it is known to be free of row values.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The constraint that was violated.
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The column concerned.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// Whether the server ends the session after it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// The reaction that the code asks for.
    pub fn class(&self) -> ErrorClass {
        match self.code.as_str() {
            "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" => ErrorClass::ConnectionLost,
            "40001" | "40P01" | "55P03" | "55006" | "57014" | "53200" | "53300" => ErrorClass::Transient,
            "53100" => ErrorClass::Full,
            "42501" => ErrorClass::Denied,
            "0A000" => ErrorClass::Unsupported,
            "42P01" | "42703" | "42704" | "42883" | "3D000" | "3F000" => ErrorClass::Missing,
            "XX001" | "XX002" => ErrorClass::Corrupt,
            code if code.starts_with("08") => ErrorClass::ConnectionLost,
            code if code.starts_with("28") => ErrorClass::Denied,
            _ => ErrorClass::Permanent,
        }
    }
}

/// Whether the server's own messages of this code never quote a value.
///
/// Data exceptions (22) quote the value that is wrong; RAISE (P0), foreign data (HV) and codes of the user's own say
/// anything. Constraint violations (23) are what triggers like to raise in words of their own, and the names travel in
/// fields, so their message is left out too.
fn message_is_free_of_values(code: &str) -> bool {
    const CLASSES: [&str; 16] =
        ["08", "0A", "25", "26", "28", "2B", "34", "3B", "3D", "3F", "40", "42", "53", "54", "55", "57"];
    const SINGLE: [&str; 4] = ["22001", "58P01", "XX001", "XX002"];
    CLASSES.iter().any(|class| code.starts_with(class)) || SINGLE.contains(&code)
}

/// The name that the documentation gives to a code whose message is left out (PostgreSQL, Appendix A).
fn condition(code: &str) -> &'static str {
    match code {
        "22003" => "numeric value out of range",
        "22004" => "null value not allowed",
        "22007" => "invalid datetime format",
        "22008" => "datetime field overflow",
        "22012" => "division by zero",
        "2200N" | "2200M" => "invalid XML",
        "22021" => "character not in repertoire",
        "22023" => "invalid parameter value",
        "22P02" => "invalid text representation",
        "22P03" => "invalid binary representation",
        "22P04" => "bad copy file format",
        "22P05" => "untranslatable character",
        "22030" | "22032" => "invalid JSON",
        "23502" => "not-null violation",
        "23503" => "foreign key violation",
        "23505" => "unique violation",
        "23514" => "check violation",
        "23P01" => "exclusion violation",
        code if code.starts_with("23") => "integrity constraint violation",
        "P0001" => "raised by a function or trigger",
        code if code.starts_with("22") => "data exception",
        code if code.starts_with("XX") => "internal error",
        code if code.starts_with("P0") => "PL/pgSQL error",
        code if code.starts_with("58") => "system error",
        _ => "error",
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.message.as_deref().unwrap_or_else(|| condition(&self.code));
        write!(formatter, "the server says {}: {text}", self.code)?;
        let names = [
            ("schema", &self.schema),
            ("table", &self.table),
            ("column", &self.column),
            ("type", &self.data_type),
            ("constraint", &self.constraint),
        ];
        let mut before = " (";
        for (kind, name) in names.into_iter().filter_map(|(kind, name)| Some((kind, name.as_deref()?))) {
            write!(formatter, "{before}{kind} {name}")?;
            before = ", ";
        }
        if before == ", " { formatter.write_str(")") } else { Ok(()) }
    }
}

impl std::error::Error for ServerError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(fields: &[(u8, &str)]) -> Bytes {
        let mut bytes = Vec::new();
        for (kind, text) in fields {
            bytes.push(*kind);
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        bytes.push(0);
        Bytes::from(bytes)
    }

    #[test]
    fn names_are_kept_and_values_are_not() {
        let error = ServerError::decode(&body(&[
            (b'S', "FEHLER"),
            (b'V', "ERROR"),
            (b'C', "23505"),
            (b'M', "duplicate key value violates unique constraint \"k\""),
            (b'D', "Key (a)=(hunter2) already exists."),
            (b's', "s"),
            (b't', "t"),
            (b'n', "k"),
        ]));
        assert_eq!(error.to_string(), "the server says 23505: unique violation (schema s, table t, constraint k)");
        let error =
            ServerError::decode(&body(&[(b'C', "22P02"), (b'M', "invalid input: \"hunter2\""), (b'W', "hunter2")]));
        assert_eq!(error.to_string(), "the server says 22P02: invalid text representation");
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn codes_ask_for_the_right_reaction() {
        let class = |code: &str| ServerError::decode(&body(&[(b'C', code)])).class();
        assert_eq!(class("40P01"), ErrorClass::Transient);
        assert_eq!(class("57P01"), ErrorClass::ConnectionLost);
        assert_eq!(class("42P01"), ErrorClass::Missing);
        assert_eq!(class("28P01"), ErrorClass::Denied);
        assert_eq!(class("53100"), ErrorClass::Full);
        assert_eq!(class("XX001"), ErrorClass::Corrupt);
        assert_eq!(class("22012"), ErrorClass::Permanent);
    }
}
