//! SEND, STATUS, LAG, STATS: asking a group that runs.

use super::delete::confirmed;
use crate::console::parse::Command;
use crate::console::{Console, Failure};
use change::Timestamp;
use process::channel::{
    Answer, BoundedRequest, ChannelError, OpenTransactionsRequest, Request, StatisticsPart, StatisticsRequest, ask,
};
use process::{Code, GroupKind, GroupName};
use std::time::Duration;

/// How long an answer is waited for. A group answers between two steps, which take a tenth of a second; one that opens its
/// databases takes longer.
const ANSWER_WAIT: Duration = Duration::from_secs(15);

/// What SEND can be followed by, each of which asks for one thing.
const ASKED: &[&str] = &[
    "STATUS",
    "STOP",
    "FORCESTOP",
    "REPORT",
    "ROLLOVER",
    "LOGEND",
    "GETLAG",
    "SHOWTRANS",
    "SKIPTRANS",
    "FORCETRANS",
    "BR",
];

/// What belongs to one of these only.
const BELONGS: &[(&str, &str)] = &[
    ("COUNT", "SHOWTRANS"),
    ("DURATION", "SHOWTRANS"),
    ("THRESHOLD", "SHOWTRANS"),
    ("ALL", "SHOWTRANS"),
    ("TABULAR", "SHOWTRANS"),
    ("DETAIL", "SHOWTRANS"),
    ("FILE", "SHOWTRANS"),
    ("FORCE", "SKIPTRANS"),
    ("BRSTATUS", "BR"),
    ("BRSTATS", "BR"),
    ("BRCHECKPOINT", "BR"),
    ("BRSTART", "BR"),
    ("BRSTOP", "BR"),
    ("BRINTERVAL", "BR"),
];

/// SEND EXTRACT
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    send(console, GroupKind::Extract, command)
}

/// SEND REPLICAT
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    send(console, GroupKind::Replicat, command)
}

/// LAG EXTRACT
pub fn lag_extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    tell(console, GroupKind::Extract, command.argument(), "GETLAG", &Request::Lag)
}

/// LAG REPLICAT
pub fn lag_replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    tell(console, GroupKind::Replicat, command.argument(), "GETLAG", &Request::Lag)
}

/// STATS EXTRACT
pub fn stats_extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    tell(console, GroupKind::Extract, command.argument(), "STATS", &statistics(command)?)
}

/// STATS REPLICAT
pub fn stats_replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    tell(console, GroupKind::Replicat, command.argument(), "STATS", &statistics(command)?)
}

fn statistics(command: &Command) -> Result<Request, Failure> {
    let parts = [
        ("TOTAL", StatisticsPart::Total),
        ("DAILY", StatisticsPart::Daily),
        ("HOURLY", StatisticsPart::Hourly),
        ("LATEST", StatisticsPart::Latest),
    ];
    let parts = parts.into_iter().filter(|(word, _)| command.has(word)).map(|(_, part)| part).collect();
    let (table, total) = (command.option("TABLE"), command.option("TOTALSONLY"));
    if table.is_some() && total.is_some() {
        return Err(Failure::new("TABLE and TOTALSONLY each name the tables, and only one of them can be given"));
    }
    Ok(Request::Statistics(StatisticsRequest {
        parts,
        table: total.or(table).map(str::to_owned),
        totals_only: total.is_some(),
        reset: command.has("RESET"),
    }))
}

fn send(console: &mut Console<'_>, kind: GroupKind, command: &Command) -> Result<(), Failure> {
    let group = command.argument();
    let asked: Vec<&str> = ASKED.iter().copied().filter(|word| command.has(word)).collect();
    let [asked] = asked[..] else {
        let what = match asked[..] {
            [] => format!("SEND {kind} {group} what?"),
            _ => format!("SEND asks for one thing at a time, not for {}", asked.join(" and ")),
        };
        return Err(Failure::new(what).with_next_step(format!("HELP SEND {kind} lists what can be sent")));
    };
    let is_of = |owner: &str| asked == owner || (owner == "SKIPTRANS" && asked == "FORCETRANS");
    if let Some((word, owner)) = BELONGS.iter().find(|(word, owner)| command.has(word) && !is_of(owner)) {
        return Err(Failure::new(format!("{word} belongs to {owner}, and not to {asked}")));
    }
    if let Some(word) = ["COUNT", "DURATION", "THRESHOLD"].iter().find(|word| command.has("ALL") && command.has(word)) {
        return Err(Failure::new(format!("ALL shows every transaction, and {word} does not")));
    }
    let needed = |word: &str| {
        command.option(word).map(str::to_owned).ok_or_else(|| {
            Failure::new(format!("{word} which transaction?"))
                .with_next_step(format!("SEND {kind} {group}, SHOWTRANS lists them"))
        })
    };
    let request = match asked {
        "STATUS" => Request::Status,
        "STOP" | "FORCESTOP" => Request::Stop { at_once: asked == "FORCESTOP" },
        "REPORT" => Request::Report,
        "ROLLOVER" => Request::RollOver,
        "LOGEND" => Request::LogEnd,
        "GETLAG" => Request::Lag,
        "SHOWTRANS" => Request::OpenTransactions(OpenTransactionsRequest {
            transaction: command.option("SHOWTRANS").map(str::to_owned),
            count: number(command, "COUNT")?,
            seconds: command.option("DURATION").map(seconds).transpose()?,
            items: number(command, "THRESHOLD")?,
            tabular: command.has("TABULAR"),
            detail: command.has("DETAIL"),
        }),
        "SKIPTRANS" => {
            let transaction = needed("SKIPTRANS")?;
            let question = format!("Leave transaction {transaction} out when it commits? [y/N] ");
            if !command.force && !command.has("FORCE") && !confirmed(&question)? {
                return Err(Failure::new(format!(
                    "transaction {transaction} is not skipped without being asked twice"
                ))
                .with_next_step(format!("SEND {kind} {group}, SKIPTRANS {transaction} ! skips it without asking")));
            }
            Request::SkipTransaction { transaction }
        }
        "FORCETRANS" => {
            let transaction = needed("FORCETRANS")?;
            let question =
                format!("Write transaction {transaction} before its end, and leave out what it does later? [y/N] ");
            if !command.force && !command.has("FORCE") && !confirmed(&question)? {
                return Err(Failure::new(format!("transaction {transaction} is not forced without being asked twice"))
                    .with_next_step(format!(
                        "SEND {kind} {group}, FORCETRANS {transaction} ! forces it without asking"
                    )));
            }
            Request::ForceTransaction { transaction }
        }
        _ => Request::BoundedRecovery(bounded(command)?),
    };
    if let Some(path) = command.option("FILE") {
        return write_file(console, kind, group, &request, path);
    }
    tell(console, kind, group, asked, &request)
}

/// Asks, and writes the answer into a file.
fn write_file(
    console: &mut Console<'_>,
    kind: GroupKind,
    group: &str,
    request: &Request,
    path: &str,
) -> Result<(), Failure> {
    let group = console.group(group)?;
    let path = console.home.path().join(path);
    let mut text = console.ask(kind, &group, request)?.join("\n");
    text.push('\n');
    std::fs::write(&path, text)
        .map_err(|error| Failure::new(format!("could not write {}: {error}", path.display())))?;
    writeln!(console.output, "Transactions of {kind} {group} written to {}.", path.display())?;
    Ok(())
}

fn bounded(command: &Command) -> Result<BoundedRequest, Failure> {
    let mut asked = Vec::new();
    for (word, request) in [
        ("BRSTATUS", BoundedRequest::Status),
        ("BRSTATS", BoundedRequest::Statistics),
        ("BRSTART", BoundedRequest::Start),
        ("BRSTOP", BoundedRequest::Stop),
    ] {
        if command.has(word) {
            asked.push(request);
        }
    }
    if let Some(text) = command.option("BRCHECKPOINT") {
        asked.push(moment(text)?);
    }
    if let Some(text) = command.option("BRINTERVAL") {
        asked.push(BoundedRequest::Interval { seconds: seconds(text)? });
    }
    match <[BoundedRequest; 1]>::try_from(asked) {
        Ok([request]) => Ok(request),
        Err(_) => Err(Failure::new(
            "BR is followed by one of BRSTATUS, BRSTATS, BRCHECKPOINT {IMMEDIATE | IN n | AT date time}, BRSTART, BRSTOP and \
             BRINTERVAL n",
        )),
    }
}

/// When a BR checkpoint is to be taken: `IMMEDIATE`, `IN 20M` or `AT 2026-12-24 18:30[:15]`, which is UTC as all times here.
fn moment(text: &str) -> Result<BoundedRequest, Failure> {
    match text.split_once(' ') {
        Some(("IN", time)) => Ok(BoundedRequest::CheckpointIn { seconds: seconds(time)? }),
        Some((_, time)) => {
            let wrong =
                || Failure::new(format!("{time} is not a time such as 2026-12-24 18:30 or 2026-12-24 18:30:15"));
            let time = time.replace(['T', 't'], " ");
            let time = if time.matches(':').count() == 1 { format!("{time}:00") } else { time.clone() };
            let at = Timestamp::parse(&time).ok_or_else(wrong)?;
            Ok(BoundedRequest::CheckpointAt { unix_micros: at.unix_micros })
        }
        None => Ok(BoundedRequest::Checkpoint),
    }
}

fn number<T: std::str::FromStr>(command: &Command, word: &str) -> Result<Option<T>, Failure> {
    let parse = |text: &str| text.parse().map_err(|_| Failure::new(format!("{word} {text} is not a whole number")));
    command.option(word).map(parse).transpose()
}

/// A time such as `30`, `90S`, `20M`, `4H` or `2D`; seconds when it has no unit.
fn seconds(text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::new(format!("{text} is not a time such as 90S, 20M, 4H or 2D"));
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.to_ascii_uppercase().as_str() {
        "" | "S" | "SEC" | "SECS" | "SECOND" | "SECONDS" => 1,
        "M" | "MIN" | "MINS" | "MINUTE" | "MINUTES" => 60,
        "H" | "HOUR" | "HOURS" => 3600,
        "D" | "DAY" | "DAYS" => 86_400,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Asks, and shows the answer.
fn tell(console: &mut Console<'_>, kind: GroupKind, group: &str, word: &str, request: &Request) -> Result<(), Failure> {
    let group = console.group(group)?;
    writeln!(console.output, "Sending {word} request to {kind} {group} ...\n")?;
    let lines = console.ask(kind, &group, request)?;
    for line in lines {
        writeln!(console.output, "{line}")?;
    }
    Ok(())
}

impl Console<'_> {
    /// Asks a running group.
    pub(super) fn ask(&self, kind: GroupKind, group: &GroupName, request: &Request) -> Result<Vec<String>, Failure> {
        // That the group exists, and is of this kind.
        self.checkpoint_file(kind, group)?;
        match ask(&self.home, group, request, ANSWER_WAIT) {
            Ok(Answer::Done { lines }) => Ok(lines),
            Ok(Answer::Refused { what, next_step: None }) => Err(Failure::new(what)),
            Ok(Answer::Refused { what, next_step: Some(step) }) => Err(Failure::new(what).with_next_step(step)),
            Err(ChannelError::NotRunning { .. }) => {
                Err(process::Failure::new(Code::GroupNotRunning, format!("{kind} {group} is not running")).into())
            }
            Err(error @ (ChannelError::Silent { .. } | ChannelError::Garbled { .. })) => {
                Err(process::Failure::of(Code::GroupSilent, &error).into())
            }
            Err(ChannelError::Lock(error)) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expected) in [("30", 30), ("90s", 90), ("20M", 1200), ("4h", 14_400), ("2Days", 172_800)] {
            assert_eq!(seconds(text).expect("a time"), expected);
        }
        assert!(seconds("soon").is_err() && seconds("3x").is_err() && seconds("").is_err());
    }
}
