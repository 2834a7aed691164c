//! The JSON text of a checkpoint, as it stands in a slot.
//!
//! Names and units are written down in `docs/formats/checkpoint.md`. A name that this version does not know is passed over,
//! so that a later version may add some.

use super::{
    BoundedCheckpoint, Checkpoint, CheckpointBody, ExtractCheckpoint, LeftOutTransaction, ReadCheckpoint,
    ReplicatCheckpoint, ReplicatMode, StopStatus, StreamCheckpoint, TrailInput, WriteCheckpoint,
};
use change::{Commit, Csn, LogPosition, TableName, Timestamp, TransactionId};
use serde::{Deserialize, Serialize};
use trail::Position;

#[derive(Serialize, Deserialize)]
struct Text {
    created: i64,
    started: Option<i64>,
    updated: i64,
    stop_status: char,
    extract: Option<ExtractText>,
    replicat: Option<ReplicatText>,
}

#[derive(Serialize, Deserialize)]
struct ExtractText {
    startup: ReadText,
    recovery: ReadText,
    current: ReadText,
    written: Option<CommitText>,
    trails: Vec<WriteText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    streams: Vec<StreamText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bounded: Option<BoundedText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOutText>,
    /// Came with clusters whose log files are not of the usual size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_file_bytes: Option<u64>,
    /// Came with Pumps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<InputText>,
}

#[derive(Serialize, Deserialize)]
struct InputText {
    trail: String,
    after: Option<CommitText>,
    repositioned: bool,
}

#[derive(Serialize, Deserialize)]
struct StreamText {
    startup: ReadText,
    recovery: ReadText,
    current: ReadText,
}

#[derive(Serialize, Deserialize)]
struct BoundedText {
    number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<ReadText>,
    begin: ReadText,
    end: ReadText,
}

#[derive(Serialize, Deserialize)]
struct LeftOutText {
    transaction: String,
    asked: i64,
}

#[derive(Serialize, Deserialize)]
struct ReplicatText {
    trail: String,
    checkpoint_table: String,
    group_key: i64,
    startup: String,
    current: String,
    applied: Option<CommitText>,
    /// Absent where the parameter file decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Of a coordinated group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct ReadText {
    position: String,
    time: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct WriteText {
    name: String,
    megabytes: u32,
    position: Option<String>,
    /// Came with sending to other homes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    remote: bool,
}

#[derive(Serialize, Deserialize)]
struct CommitText {
    csn: String,
    transaction: String,
    time: i64,
}

pub(super) fn encode(checkpoint: &Checkpoint) -> Vec<u8> {
    let text = Text {
        created: checkpoint.created.unix_micros,
        started: checkpoint.started.map(|time| time.unix_micros),
        updated: checkpoint.updated.unix_micros,
        stop_status: checkpoint.stop_status.letter(),
        extract: checkpoint.extract().map(|body| ExtractText {
            startup: read_text(&body.startup),
            recovery: read_text(&body.recovery),
            current: read_text(&body.current),
            written: body.written.as_ref().map(commit_text),
            trails: body.trails.iter().map(write_text).collect(),
            streams: body.streams.iter().map(stream_text).collect(),
            bounded: body.bounded.as_ref().map(bounded_text),
            left_out: body.left_out.iter().map(left_out_text).collect(),
            log_file_bytes: body.log_file_bytes,
            input: body.input.as_ref().map(|input| InputText {
                trail: input.trail.clone(),
                after: input.after.as_ref().map(commit_text),
                repositioned: input.is_repositioned,
            }),
        }),
        replicat: checkpoint.replicat().map(|body| ReplicatText {
            trail: body.trail.clone(),
            checkpoint_table: body.checkpoint_table.to_string(),
            group_key: body.group_key,
            startup: body.startup.to_string(),
            current: body.current.to_string(),
            applied: body.applied.as_ref().map(commit_text),
            mode: match body.mode {
                ReplicatMode::AsParametersSay => None,
                ReplicatMode::Parallel => Some("parallel".to_owned()),
                ReplicatMode::Coordinated { .. } => Some("coordinated".to_owned()),
            },
            threads: match body.mode {
                ReplicatMode::Coordinated { threads } => Some(threads),
                _ => None,
            },
        }),
    };
    serde_json::to_vec(&text).expect("plain names, texts and numbers can be written as JSON")
}

/// The checkpoint that `payload` says, or what is wrong with it.
pub(super) fn decode(payload: &[u8]) -> Result<Checkpoint, String> {
    let text: Text = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let stop_status = [StopStatus::Active, StopStatus::Graceful].into_iter();
    let stop_status = stop_status.clone().find(|status| status.letter() == text.stop_status);
    let body = match (text.extract, text.replicat) {
        (Some(body), None) => CheckpointBody::Extract(extract(body)?),
        (None, Some(body)) => CheckpointBody::Replicat(replicat(body)?),
        _ => return Err("it is neither of an Extract nor of a Replicat".to_owned()),
    };
    Ok(Checkpoint {
        created: Timestamp::from_unix_micros(text.created),
        started: text.started.map(Timestamp::from_unix_micros),
        updated: Timestamp::from_unix_micros(text.updated),
        stop_status: stop_status.ok_or("its stop status is unknown")?,
        body,
    })
}

fn extract(text: ExtractText) -> Result<ExtractCheckpoint, String> {
    Ok(ExtractCheckpoint {
        startup: read_checkpoint(text.startup),
        recovery: read_checkpoint(text.recovery),
        current: read_checkpoint(text.current),
        written: text.written.map(commit),
        trails: text.trails.into_iter().map(write_checkpoint).collect::<Result<_, _>>()?,
        streams: text.streams.into_iter().map(stream_checkpoint).collect(),
        bounded: text.bounded.map(bounded_checkpoint),
        left_out: text.left_out.into_iter().map(left_out).collect(),
        log_file_bytes: text.log_file_bytes,
        input: text.input.map(|input| {
            Box::new(TrailInput {
                trail: input.trail,
                after: input.after.map(commit),
                is_repositioned: input.repositioned,
            })
        }),
    })
}

fn replicat(text: ReplicatText) -> Result<ReplicatCheckpoint, String> {
    Ok(ReplicatCheckpoint {
        trail: text.trail,
        checkpoint_table: TableName::parse(&text.checkpoint_table).map_err(|error| error.to_string())?,
        group_key: text.group_key,
        startup: position(&text.startup)?,
        current: position(&text.current)?,
        applied: text.applied.map(commit),
        mode: match (text.mode.as_deref(), text.threads) {
            (None, None) => ReplicatMode::AsParametersSay,
            (Some("parallel"), None) => ReplicatMode::Parallel,
            (Some("coordinated"), Some(threads)) => ReplicatMode::Coordinated { threads },
            (mode, _) => return Err(format!("the mode {mode:?} of the Replicat is not known")),
        },
    })
}

fn position(text: &str) -> Result<Position, String> {
    Position::parse(text).ok_or_else(|| format!("{text:?} is not a position in a trail"))
}

fn read_text(place: &ReadCheckpoint) -> ReadText {
    ReadText { position: place.position.to_string(), time: place.time.map(|time| time.unix_micros) }
}

fn read_checkpoint(text: ReadText) -> ReadCheckpoint {
    ReadCheckpoint { position: LogPosition::new(text.position), time: text.time.map(Timestamp::from_unix_micros) }
}

fn stream_text(stream: &StreamCheckpoint) -> StreamText {
    StreamText {
        startup: read_text(&stream.startup),
        recovery: read_text(&stream.recovery),
        current: read_text(&stream.current),
    }
}

fn stream_checkpoint(text: StreamText) -> StreamCheckpoint {
    StreamCheckpoint {
        startup: read_checkpoint(text.startup),
        recovery: read_checkpoint(text.recovery),
        current: read_checkpoint(text.current),
    }
}

fn bounded_text(bounded: &BoundedCheckpoint) -> BoundedText {
    BoundedText {
        number: bounded.number,
        previous: bounded.previous.as_ref().map(read_text),
        begin: read_text(&bounded.begin),
        end: read_text(&bounded.end),
    }
}

fn bounded_checkpoint(text: BoundedText) -> BoundedCheckpoint {
    BoundedCheckpoint {
        number: text.number,
        previous: text.previous.map(read_checkpoint),
        begin: read_checkpoint(text.begin),
        end: read_checkpoint(text.end),
    }
}

fn left_out_text(left_out: &LeftOutTransaction) -> LeftOutText {
    LeftOutText { transaction: left_out.transaction.to_string(), asked: left_out.asked.unix_micros }
}

fn left_out(text: LeftOutText) -> LeftOutTransaction {
    let asked = Timestamp::from_unix_micros(text.asked);
    LeftOutTransaction { transaction: TransactionId::new(text.transaction), asked }
}

fn write_text(trail: &WriteCheckpoint) -> WriteText {
    let position = trail.position.map(|position| position.to_string());
    WriteText { name: trail.name.clone(), megabytes: trail.megabytes, position, remote: trail.is_remote }
}

fn write_checkpoint(text: WriteText) -> Result<WriteCheckpoint, String> {
    let position = text.position.as_deref().map(position).transpose()?;
    Ok(WriteCheckpoint { name: text.name, megabytes: text.megabytes, position, is_remote: text.remote })
}

fn commit_text(commit: &Commit) -> CommitText {
    let (csn, transaction) = (commit.csn.to_string(), commit.transaction.to_string());
    CommitText { csn, transaction, time: commit.time.unix_micros }
}

fn commit(text: CommitText) -> Commit {
    Commit {
        csn: Csn::new(text.csn),
        transaction: TransactionId::new(text.transaction),
        time: Timestamp::from_unix_micros(text.time),
    }
}
