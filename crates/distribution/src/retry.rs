//! What a sender does about a network that fails: the table of GoldenGate's `tcperrs`.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// What holds where the home has no file of its own.
pub const TABLE_DEFAULT: &str = "\
# Error          Response  Delay (csecs)  Max Retries
ECONNABORTED     RETRY     1000           10
ECONNREFUSED     RETRY     1000           12
ECONNRESET       RETRY      500           10
EHOSTUNREACH     RETRY     3000           50
ENETDOWN         RETRY     3000           50
ENETRESET        RETRY     1000           10
ENETUNREACH      RETRY     3000           50
ENOBUFS          RETRY      100           60
ENOTCONN         RETRY      100           10
EPIPE            RETRY      500           10
ESHUTDOWN        RETRY     1000           10
ETIMEDOUT        RETRY     1000           10
";

/// For each error of a network: whether, when and how often a sender tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryTable {
    rows: HashMap<String, Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    /// `None`: it gives up at once.
    delay: Option<Duration>,
    most: u32,
}

/// A line of the table that can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not `ERROR RETRY|ABEND delay retries`: {text}")]
pub struct RetryTableError {
    /// Its number, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
}

impl RetryTable {
    /// Reads a table: a line for each error, with its name, RETRY or ABEND, a delay in hundredths of a second, and the most
    /// retries. `#` starts a comment. Errors that it does not name are as in [`TABLE_DEFAULT`].
    ///
    /// # Errors
    /// The first line that can't be read.
    pub fn parse(text: &str) -> Result<RetryTable, RetryTableError> {
        let mut rows = rows(TABLE_DEFAULT)?;
        rows.extend(self::rows(text)?);
        Ok(RetryTable { rows })
    }
}

fn rows(text: &str) -> Result<HashMap<String, Row>, RetryTableError> {
    let mut rows = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let told = line.split('#').next().unwrap_or_default();
        if told.trim().is_empty() {
            continue;
        }
        let wrong = || RetryTableError { line: index + 1, text: line.trim().to_owned() };
        let (name, row) = row(told).ok_or_else(wrong)?;
        rows.insert(name, row);
    }
    Ok(rows)
}

fn row(line: &str) -> Option<(String, Row)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, response, delay, most] = words[..] else { return None };
    let delay = Duration::from_millis(delay.parse::<u32>().ok().map(|delay| u64::from(delay) * 10)?);
    let delay = match response.to_ascii_uppercase().as_str() {
        "RETRY" => Some(delay),
        "ABEND" => None,
        _ => return None,
    };
    let is_name = name.starts_with('E') && name.chars().all(|character| character.is_ascii_uppercase());
    is_name.then(|| Some((name.to_owned(), Row { delay, most: most.parse().ok()? })))?
}

/// What to do about an error of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Try again after this time.
    Retry(Duration),
    /// Give up.
    Abend,
    /// The table says nothing of it.
    Unnamed,
}

/// Counts what happened since records last arrived.
#[derive(Clone, Debug)]
pub struct NetworkRetry {
    table: RetryTable,
    counts: HashMap<&'static str, u32>,
}

impl NetworkRetry {
    /// Nothing has happened.
    pub fn new(table: RetryTable) -> NetworkRetry {
        NetworkRetry { table, counts: HashMap::new() }
    }

    /// What to do about the next error since the last success.
    pub fn decide(&mut self, error: &io::Error) -> Response {
        let Some(name) = name(error) else { return Response::Unnamed };
        let Some(row) = self.table.rows.get(name) else { return Response::Unnamed };
        let count = self.counts.entry(name).or_default();
        *count += 1;
        match row.delay {
            Some(delay) if *count <= row.most => Response::Retry(delay),
            _ => Response::Abend,
        }
    }

    /// Records arrived: the next error is the first again.
    pub fn succeeded(&mut self) {
        self.counts.clear();
    }
}

/// The name that operating systems give the error.
fn name(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind;
    use rustix::io::Errno;
    if let Some(number) = error.raw_os_error() {
        let named = [(Errno::NETRESET, "ENETRESET"), (Errno::NOBUFS, "ENOBUFS"), (Errno::SHUTDOWN, "ESHUTDOWN")];
        let found = named.iter().find(|(known, _)| known.raw_os_error() == number);
        if let Some((_, name)) = found {
            return Some(name);
        }
    }
    Some(match error.kind() {
        ErrorKind::ConnectionAborted => "ECONNABORTED",
        ErrorKind::ConnectionRefused => "ECONNREFUSED",
        // The other end was gone before it had said so.
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => "ECONNRESET",
        ErrorKind::HostUnreachable => "EHOSTUNREACH",
        ErrorKind::NetworkDown => "ENETDOWN",
        ErrorKind::NetworkUnreachable => "ENETUNREACH",
        ErrorKind::NotConnected => "ENOTCONN",
        ErrorKind::BrokenPipe => "EPIPE",
        // Connecting with a timeout, a silence that was too long.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "ETIMEDOUT",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: io::ErrorKind) -> io::Error {
        kind.into()
    }

    #[test]
    fn each_error_is_tried_again_as_often_and_as_late_as_the_table_says() {
        let mut retry = NetworkRetry::new(RetryTable::parse("").expect("is empty"));
        // What GoldenGate ships: 1000 hundredths of a second, 12 times.
        for _ in 0..12 {
            let response = retry.decide(&error(io::ErrorKind::ConnectionRefused));
            assert_eq!(response, Response::Retry(Duration::from_secs(10)));
        }
        assert_eq!(retry.decide(&error(io::ErrorKind::ConnectionRefused)), Response::Abend);
        assert_eq!(retry.decide(&error(io::ErrorKind::ConnectionReset)), Response::Retry(Duration::from_secs(5)));
        assert_eq!(retry.decide(&error(io::ErrorKind::Other)), Response::Unnamed);
        retry.succeeded();
        assert_ne!(retry.decide(&error(io::ErrorKind::ConnectionRefused)), Response::Abend);
    }

    #[test]
    fn a_file_of_the_home_changes_what_it_names() {
        let text = "# ours\nECONNREFUSED RETRY 5 1\nECONNRESET ABEND 0 0 # at once\n";
        let mut retry = NetworkRetry::new(RetryTable::parse(text).expect("can be read"));
        let refused = || error(io::ErrorKind::ConnectionRefused);
        assert_eq!(retry.decide(&refused()), Response::Retry(Duration::from_millis(50)));
        assert_eq!(retry.decide(&refused()), Response::Abend);
        assert_eq!(retry.decide(&error(io::ErrorKind::UnexpectedEof)), Response::Abend);
        assert_eq!(retry.decide(&error(io::ErrorKind::TimedOut)), Response::Retry(Duration::from_secs(10)));
        for wrong in
            ["ECONNREFUSED", "ECONNREFUSED TRY 5 1", "ECONNREFUSED RETRY x 1", "refused RETRY 5 1", "E RETRY 5 1 1"]
        {
            let text = format!("\n{wrong}\n");
            let found = RetryTable::parse(&text).expect_err("is wrong");
            assert_eq!((found.line, &*found.text), (2, wrong));
        }
    }
}
