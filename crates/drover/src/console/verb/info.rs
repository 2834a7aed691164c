//! INFO

use super::showch;
use crate::console::parse::Command;
use crate::console::{Console, Failure};
use crate::place::Place;
use crate::run::log_kept;
use change::{LogPosition, Timestamp};
use database::LogKept;
use process::channel::Request;
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupKind, GroupLock, GroupName, GroupStatus,
    Holder, ReadCheckpoint, ReplicatCheckpoint, ReplicatMode, TrailPlace, Wallet, clock, status,
};
use std::sync::Arc;
use trail::storage::Directory;
use trail::{Entry, Reader, Record, Start};

/// A group as INFO shows it.
struct Shown {
    checkpoint: Checkpoint,
    status: GroupStatus,
    holder: Option<Holder>,
    lag: Lag,
}

/// Lag at the last checkpoint.
enum Lag {
    Known {
        /// From the last record's commit to the checkpoint that covers it.
        seconds: i64,
    },
    /// Nothing was processed yet, or the source's clock is ahead of ours.
    Unknown,
}

impl Lag {
    fn text(&self) -> String {
        match self {
            Lag::Known { seconds } => duration(*seconds),
            Lag::Unknown => "UNKNOWN".to_owned(),
        }
    }
}

/// INFO ALL: a line per group.
pub fn all(console: &mut Console<'_>, _command: &Command) -> Result<(), Failure> {
    let now = clock::now();
    writeln!(
        console.output,
        "{:<11} {:<11} {:<11} {:<13} Time Since Chkpt\n",
        "Program", "Status", "Group", "Lag at Chkpt"
    )?;
    for (kind, group) in console.home.groups()? {
        // One damaged file must not hide the other groups.
        match console.shown(kind, &group) {
            Ok(shown) => writeln!(
                console.output,
                "{:<11} {:<11} {:<11} {:<13} {}",
                kind.to_string(),
                shown.status.to_string(),
                group.to_string(),
                shown.lag.text(),
                duration(seconds(shown.checkpoint.updated, now))
            )?,
            Err(failure) => {
                writeln!(
                    console.output,
                    "{:<11} {:<11} {:<11} {failure}",
                    kind.to_string(),
                    "UNKNOWN",
                    group.to_string()
                )?;
            }
        }
    }
    Ok(())
}

/// INFO EXTRACT
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let shown = console.shown(GroupKind::Extract, &group)?;
    let body = shown.checkpoint.extract().expect("the file is an Extract's");
    let kept = console.log_kept(&group);
    let output = &mut console.output;
    head(output, GroupKind::Extract, &group, &shown)?;
    if let (Some(input), Some(position)) = (&body.input, body.trail_position()) {
        writeln!(output, "{:<21} File {}{:09}", "Log Read Checkpoint", input.trail, position.sequence)?;
        let place = if input.after.is_none() && position.rba == 0 { "First Record  RBA" } else { "RBA" };
        writeln!(output, "{:<21} {}  {place} {}", "", time(body.current.time), position.rba)?;
        if command.has("SHOWCH") {
            return console.showch(GroupKind::Extract, &group, command, None);
        }
        written(output, body)?;
        output_trails(console, body)?;
        return console.files(GroupKind::Extract, &group);
    }
    if command.has("SHOWCH") {
        let place = Place::of(&body.current.position, body.log_file_bytes);
        writeln!(output, "{:<21} {}", "Log Read Checkpoint", place.log)?;
        writeln!(output, "{:<21} {}  {}", "", time(body.current.time), place.line())?;
        let from = kept.and_then(|kept| kept.from);
        return console.showch(GroupKind::Extract, &group, command, from.as_deref());
    }
    writeln!(output, "{:<21} Source position {}", "Log Read Checkpoint", body.current.position)?;
    writeln!(output, "{:<21} {}", "", time(body.current.time))?;
    writeln!(output, "{:<21} Source position {}", "Recovery Checkpoint", body.recovery.position)?;
    written(output, body)?;
    if let Some(kept) = &kept {
        writeln!(
            output,
            "{:<21} {}, {} read",
            "Slot",
            kept.holder,
            if kept.is_active { "being" } else { "not being" }
        )?;
        writeln!(output, "{:<21} {}", "Log kept", log_kept::amount(kept))?;
    }
    output_trails(console, body)?;
    console.files(GroupKind::Extract, &group)
}

fn written(output: &mut dyn std::io::Write, body: &ExtractCheckpoint) -> std::io::Result<()> {
    match &body.written {
        Some(commit) => {
            writeln!(output, "{:<21} CSN {}, transaction {}", "Last written", commit.csn, commit.transaction)
        }
        None => writeln!(output, "{:<21} Not Available", "Last written"),
    }
}

fn output_trails(console: &mut Console<'_>, body: &ExtractCheckpoint) -> Result<(), Failure> {
    writeln!(console.output, "\nTarget Extract Trails:\n")?;
    writeln!(console.output, "  {:<40} {:>10} {:>12} {:>7}  Trail Type", "Trail Name", "Seqno", "RBA", "Max MB")?;
    for trail in &body.trails {
        let position = trail.position.unwrap_or_default();
        let place = TrailPlace::parse(console.home.path(), &trail.name);
        let keyword = place.map_or("EXTTRAIL", |place| super::add::keyword(&place, trail.is_remote));
        let megabytes = if trail.megabytes == 0 { "-".to_owned() } else { trail.megabytes.to_string() };
        writeln!(
            console.output,
            "  {:<40} {:>10} {:>12} {:>7}  {keyword}",
            trail.name, position.sequence, position.rba, megabytes
        )?;
    }
    Ok(())
}

/// INFO REPLICAT
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let shown = console.shown(GroupKind::Replicat, &group)?;
    let body = shown.checkpoint.replicat().expect("the file is a Replicat's");
    let file = match TrailPlace::parse(console.home.path(), &body.trail) {
        Ok(place) if place.name.is_single() => body.trail.clone(),
        _ => format!("{}{:09}", body.trail, body.current.sequence),
    };
    let output = &mut console.output;
    head(output, GroupKind::Replicat, &group, &shown)?;
    writeln!(output, "{:<21} File {file}", "Log Read Checkpoint")?;
    let commit = body.applied.as_ref();
    let place = if commit.is_none() && body.current.rba == 0 { "First Record  RBA" } else { "RBA" };
    writeln!(output, "{:<21} {}  {place} {}", "", time(commit.map(|commit| commit.time)), body.current.rba)?;
    if command.has("SHOWCH") {
        console.threads(body)?;
        return console.showch(GroupKind::Replicat, &group, command, None);
    }
    match commit {
        Some(commit) => {
            writeln!(output, "{:<21} CSN {}, transaction {}", "Last applied", commit.csn, commit.transaction)?
        }
        None => writeln!(output, "{:<21} Not Available", "Last applied")?,
    }
    writeln!(output, "{:<21} {}, group key {}", "Checkpoint table", body.checkpoint_table, body.group_key)?;
    if body.mode != ReplicatMode::AsParametersSay {
        writeln!(output, "{:<21} {}", "Mode", body.mode)?;
    }
    if shown.holder.is_some() {
        // One that does not answer is shown without them.
        let told = console.ask(GroupKind::Replicat, &group, &Request::Status).unwrap_or_default();
        let counts =
            told.iter().filter(|line| ["Conflicts: ", "Error queue: "].iter().any(|word| line.starts_with(word)));
        for line in counts {
            let (label, rest) = line.split_once(": ").unwrap_or_default();
            writeln!(console.output, "{label:<21} {rest}")?;
        }
    }
    console.threads(body)?;
    console.files(GroupKind::Replicat, &group)
}

fn head(output: &mut dyn std::io::Write, kind: GroupKind, group: &GroupName, shown: &Shown) -> std::io::Result<()> {
    let started = shown.checkpoint.started.map_or_else(|| "Not Available".to_owned(), minute);
    writeln!(
        output,
        "{:<11}{:<10}Last Started {started:<17} Status {}",
        kind.to_string(),
        group.to_string(),
        shown.status
    )?;
    let ago = duration(seconds(shown.checkpoint.updated, clock::now()));
    writeln!(output, "{:<21} {} (updated {ago} ago)", "Checkpoint Lag", shown.lag.text())?;
    if let Some(id) = shown.holder.and_then(|holder| holder.process_id) {
        writeln!(output, "{:<21} {id}", "Process ID")?;
    }
    Ok(())
}

impl Console<'_> {
    fn shown(&self, kind: GroupKind, group: &GroupName) -> Result<Shown, Failure> {
        let mut checkpoints = CheckpointFile::read(&*self.checkpoint_storage(), kind, group, 1)?;
        let checkpoint = checkpoints.swap_remove(0);
        let holder = GroupLock::holder(&self.home, group)?;
        let time = match (checkpoint.extract(), checkpoint.replicat()) {
            (Some(body), _) => body.current.time,
            // Nothing more in the trail: however long ago the last commit was, nothing lags behind it.
            (_, Some(body)) if self.is_at_end_of_trail(body) => Some(checkpoint.updated),
            (_, Some(body)) => body.applied.as_ref().map(|commit| commit.time),
            _ => None,
        };
        let lag = match time.map(|time| checkpoint.updated.micros_since(time)) {
            Some(micros) if micros >= 0 => Lag::Known { seconds: micros / 1_000_000 },
            Some(_) => Lag::Unknown,
            None if holder.is_some() => Lag::Unknown,
            None => Lag::Known { seconds: 0 },
        };
        Ok(Shown { status: status(holder.is_some(), &checkpoint), checkpoint, holder, lag })
    }

    /// What the database that is logged in to keeps for the group, if it is the group's source.
    fn log_kept(&self, group: &GroupName) -> Option<LogKept> {
        self.login.as_ref()?.log_kept(group.as_str()).ok().flatten()
    }

    /// Whether the trail holds nothing behind the checkpoint. A trail that can't be read says nothing.
    fn is_at_end_of_trail(&self, body: &ReplicatCheckpoint) -> bool {
        let Some(applied) = &body.applied else { return false };
        let Ok(place) = self.trail_place(&body.trail) else { return false };
        let after = Some((applied.csn.clone(), applied.transaction.clone()));
        let reader = Reader::open_with(
            Arc::new(Directory::new(&place.directory)),
            place.name,
            Start::At { position: body.current, after },
            &[],
            Some(Arc::new(Wallet::of(&self.home))),
        );
        let Ok(mut reader) = reader else { return false };
        loop {
            match reader.next() {
                Ok(None) => return true,
                Ok(Some(Entry { record: Record::Change { .. }, .. })) | Err(_) => return false,
                Ok(Some(_)) => {}
            }
        }
    }

    /// Where each thread of a coordinated group stands, as its row says; in the database that is logged in to.
    fn threads(&mut self, body: &ReplicatCheckpoint) -> Result<(), Failure> {
        let ReplicatMode::Coordinated { threads } = body.mode else { return Ok(()) };
        let sets = match &self.login {
            Some(database) => database.checkpoint_sets(&body.checkpoint_table).unwrap_or_default(),
            None => Vec::new(),
        };
        let Some(set) = sets.into_iter().find(|set| set.group.group_key == body.group_key) else {
            writeln!(self.output, "{:<21} {threads}; DBLOGIN to the target shows where each of them is", "Threads")?;
            return Ok(());
        };
        writeln!(self.output, "\nThreads:\n\n  {:<4} {:<10} {:>10} {:>12}  CSN", "ID", "Group Name", "Seqno", "RBA")?;
        for row in set.rows() {
            let number = row.group_key - set.group.group_key;
            let csn = row.log_csn.as_deref().unwrap_or("Not Available");
            writeln!(self.output, "  {number:<4} {:<10} {:>10} {:>12}  {csn}", row.group_name, row.sequence, row.rba)?;
        }
        Ok(writeln!(self.output)?)
    }

    /// The whole checkpoint, and as many before it as the command asks for. `kept_from` is where the log begins that the source
    /// keeps for the group, if it tells.
    fn showch(
        &mut self,
        kind: GroupKind,
        group: &GroupName,
        command: &Command,
        kept_from: Option<&str>,
    ) -> Result<(), Failure> {
        let more: usize = command.option("SHOWCH").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut records = CheckpointFile::records(&*self.checkpoint_storage(), kind, group, more + 1)?;
        // A source that remembers for us where the oldest open transaction starts knows it better than we do.
        if let (Some(from), Some(CheckpointBody::Extract(body))) =
            (kept_from, records.first_mut().map(|record| &mut record.checkpoint.body))
            && let Some((_, history)) = body.recovery.position.as_str().split_once('-')
        {
            let position = LogPosition::new(format!("{from}-{history}"));
            body.recovery = ReadCheckpoint { position, time: None };
        }
        Ok(showch::write(self.output, &records)?)
    }

    fn files(&mut self, kind: GroupKind, group: &GroupName) -> Result<(), Failure> {
        let checkpoint = self.home.dirchk().join(format!("{group}.{}", kind.checkpoint_extension()));
        let files = [
            ("Current directory", self.home.path().to_owned()),
            ("Report file", self.home.report_file(group)),
            ("Parameter file", self.home.parameter_file(group)),
            ("Checkpoint file", checkpoint),
            ("Event log", self.home.event_log()),
        ];
        writeln!(self.output)?;
        for (label, path) in files {
            writeln!(self.output, "{label:<21} {}", path.display())?;
        }
        Ok(())
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    (to.micros_since(from) / 1_000_000).max(0)
}

/// `hh:mm:ss`; hours may exceed 99.
fn duration(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn minute(time: Timestamp) -> String {
    let text = clock::to_second(time);
    text.rsplit_once(':').map_or(text.clone(), |(minute, _)| minute.to_owned())
}

fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "Not Available".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_hours_minutes_and_seconds() {
        assert_eq!(duration(0), "00:00:00");
        assert_eq!(duration(3_725), "01:02:05");
        assert_eq!(duration(400_000), "111:06:40");
    }
}
