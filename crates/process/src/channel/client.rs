//! The end of the channel of somebody who asks.

use super::address::Address;
use super::{ANSWER_BYTES_MAX, Answer, Request};
use crate::{GroupLock, GroupName, Home, LockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Why a group gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// No process runs it.
    #[error("group {group} is not running")]
    NotRunning {
        /// The group.
        group: GroupName,
    },
    /// Its process does not answer: it hangs, it is just starting, or it is of a version that does not listen.
    #[error("group {group} runs{} and does not answer", process_id.map(|id| format!(" with process id {id}")).unwrap_or_default())]
    Silent {
        /// The group.
        group: GroupName,
        /// Who runs it.
        process_id: Option<u32>,
        /// What the operating system says, where it says something.
        source: io::Error,
    },
    /// What came is no answer.
    #[error("group {group} gave an answer that is not understood")]
    Garbled {
        /// The group.
        group: GroupName,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Whether it runs can't be told.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Asks a running group, and waits at most `wait` for its answer.
///
/// # Errors
/// [`ChannelError`].
pub fn ask(home: &Home, group: &GroupName, request: &Request, wait: Duration) -> Result<Answer, ChannelError> {
    let Some(holder) = GroupLock::holder(home, group)? else {
        return Err(ChannelError::NotRunning { group: group.clone() });
    };
    let line = exchange(&Address::of(home, group), request, wait).map_err(|source| ChannelError::Silent {
        group: group.clone(),
        process_id: holder.process_id,
        source,
    })?;
    serde_json::from_slice(&line).map_err(|source| ChannelError::Garbled { group: group.clone(), source })
}

fn exchange(address: &Address, request: &Request, wait: Duration) -> io::Result<Vec<u8>> {
    let mut stream = address.shortened(&address.path(), |path| UnixStream::connect(path))?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_until(b'\n', &mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}
