//! Distribution paths: Pumps into other homes whose parameter files the console writes.

use super::add::{beginning, create, first_position};
use super::{send, start, stop};
use crate::console::grammar::MEGABYTES_DEFAULT;
use crate::console::parse::Command;
use crate::console::{Console, Failure};
use change::LogPosition;
use parameter::{PumpOutput, PumpParameters};
use process::{
    CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupKind, GroupLock, GroupName, GroupStatus, HomeLock,
    ReadCheckpoint, TrailInput, WriteCheckpoint, clock, status,
};
use std::fs;
use std::path::{Path, PathBuf};
use trail::Position;

/// First line of the parameter file of a path.
const HEADING: &str = "-- A distribution path. ALTER DISTPATH changes these lines, INFO DISTPATH shows what they say.";

/// What ALTER DISTPATH changes.
const CHANGED: [&str; 8] =
    ["TARGET", "SIZEMB", "COMPRESSION", "THRESHOLD", "BANDWIDTH", "CERTIFICATE", "RULE", "BEGIN"];

/// Where a path leads.
struct Target {
    host: String,
    port: u16,
    trail: String,
}

/// ADD DISTPATH
pub fn add(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let source = source_of(command.required("SOURCE"))?;
    let target = target_of(command.required("TARGET"))?;
    let place = console.trail_place(&source)?;
    let megabytes = command.option("SIZEMB").and_then(|text| text.parse().ok()).unwrap_or(MEGABYTES_DEFAULT);
    let lines = [
        HEADING.to_owned(),
        format!("EXTRACT {}", group.to_lower()),
        host_line(&target, command, None)?,
        format!("RMTTRAIL {}", target.trail),
        rules(command)?.unwrap_or_else(|| "PASSTHRU".to_owned()),
    ];
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.begin_adding(GroupKind::Extract, &group)?;
    let path = console.home.parameter_file(&group);
    // One that an interrupted ADD left says nothing of any group.
    if path.exists() && !read(&path)?.starts_with(HEADING) {
        return Err(Failure::new(format!("{} is there already", path.display()))
            .with_next_step("move it away, or choose another name for the path"));
    }
    let begin = begin(command)?;
    let start = begin.map_or_else(|| first_position(&place), Ok)?;
    let text = format!("{}\n", lines.join("\n"));
    check(&text, &path)?;
    write(&path, &text)?;
    let mut body = beginning(LogPosition::new(start.to_string()));
    body.input = Some(Box::new(TrailInput { trail: source.clone(), after: None, is_repositioned: begin.is_some() }));
    body.trails.push(WriteCheckpoint { name: target.trail.clone(), megabytes, position: None, is_remote: true });
    create(console, &group, CheckpointBody::Extract(body))?;
    writeln!(console.output, "DISTPATH {group} added; it begins at {start} of trail {source}.")?;
    Ok(())
}

/// ALTER DISTPATH
pub fn alter(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let (group, mut file) = path(console, command)?;
    if !CHANGED.iter().any(|keyword| command.has(keyword)) {
        return Err(Failure::new("nothing is to be altered").with_next_step("give an option, see HELP ALTER DISTPATH"));
    }
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let mut checkpoint = file.latest().clone();
    let CheckpointBody::Extract(body) = &mut checkpoint.body else { unreachable!("the file is an Extract's") };
    let (at, old) = parameters(console, &group)?;
    let PumpOutput::Remote(host, trail) = &old.output else { return Err(not_a_path(&group)) };
    let target = match command.option("TARGET") {
        Some(uri) => target_of(uri)?,
        None => Target { host: host.host.clone(), port: host.port, trail: trail.clone() },
    };
    let mut lines = Vec::new();
    let rules = rules(command)?;
    for line in read(&at)?.lines() {
        let word = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "RMTHOST" => lines.push(host_line(&target, command, Some(host))?),
            "RMTTRAIL" => lines.push(format!("RMTTRAIL {}", target.trail)),
            "PASSTHRU" | "TABLE" | "TABLEEXCLUDE" if rules.is_some() => {}
            _ => lines.push(line.to_owned()),
        }
    }
    lines.extend(rules);
    let text = format!("{}\n", lines.join("\n"));
    check(&text, &at)?;
    if let Some(trail) = body.trails.first_mut() {
        if trail.name != target.trail || (&target.host, target.port) != (&host.host, host.port) {
            // Another target holds nothing of what the one before holds, and says so when asked.
            (trail.position, body.written) = (None, None);
        }
        trail.name.clone_from(&target.trail);
        trail.megabytes = command.option("SIZEMB").and_then(|text| text.parse().ok()).unwrap_or(trail.megabytes);
    }
    if let Some(position) = begin(command)? {
        let place = ReadCheckpoint { position: LogPosition::new(position.to_string()), time: None };
        (body.startup, body.recovery, body.current) = (place.clone(), place.clone(), place);
        if let Some(input) = &mut body.input {
            (input.after, input.is_repositioned) = (None, true);
        }
    }
    file.save(&checkpoint)?;
    write(&at, &text)?;
    writeln!(console.output, "DISTPATH {group} altered.")?;
    Ok(())
}

/// DELETE DISTPATH
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let (group, _) = path(console, command)?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let at = console.home.parameter_file(&group);
    let is_ours = read(&at).is_ok_and(|text| text.starts_with(HEADING));
    console.forget(GroupKind::Extract, &group)?;
    if is_ours {
        fs::remove_file(&at).map_err(|error| Failure::new(format!("could not remove {}: {error}", at.display())))?;
    }
    writeln!(console.output, "DISTPATH {group} deleted; the target trail and reports stay.")?;
    Ok(())
}

/// START DISTPATH
pub fn start(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    path(console, command)?;
    start::extract(console, command)
}

/// STOP DISTPATH
pub fn stop(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    path(console, command)?;
    stop::extract(console, command)
}

/// STATS DISTPATH
pub fn stats(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    path(console, command)?;
    send::stats_extract(console, command)
}

/// INFO DISTPATH
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    if command.argument().eq_ignore_ascii_case("ALL") || command.argument() == "*" {
        let mut shown = 0;
        for (_, group) in console.home.groups()?.into_iter().filter(|(kind, _)| *kind == GroupKind::Extract) {
            let read = CheckpointFile::read(&*console.checkpoint_storage(), GroupKind::Extract, &group, 1)?;
            if read.first().and_then(|checkpoint| checkpoint.extract()).is_some_and(is_path) {
                show(console, &group, command.has("DETAIL"))?;
                shown += 1;
            }
        }
        if shown == 0 {
            writeln!(console.output, "No distribution path of this home.")?;
        }
        return Ok(());
    }
    let (group, _) = path(console, command)?;
    show(console, &group, command.has("DETAIL"))
}

fn show(console: &mut Console<'_>, group: &GroupName, is_detailed: bool) -> Result<(), Failure> {
    let file = console.checkpoint_file(GroupKind::Extract, group)?;
    let checkpoint = file.latest().clone();
    let Some(body) = checkpoint.extract() else { return Err(not_a_path(group)) };
    let holder = GroupLock::holder(&console.home, group)?;
    let state = match status(holder.is_some(), &checkpoint) {
        GroupStatus::Running => "running",
        GroupStatus::Stopped if checkpoint.started.is_none() => "uninitialized",
        GroupStatus::Stopped => "stopped",
        GroupStatus::Abended => "killed",
    };
    let source = body.input.as_ref().map(|input| input.trail.clone()).unwrap_or_default();
    let target = parameters(console, group).map(|(_, parameters)| parameters.output);
    let target = match &target {
        Ok(PumpOutput::Remote(host, trail)) => {
            format!(
                "wss://{}:{}/services/v2/targets?trail={}",
                parameter::bracketed(&host.host),
                host.port,
                name_of(trail)
            )
        }
        _ => "unknown: its parameter file can't be read".to_owned(),
    };
    let output = &mut console.output;
    writeln!(output, "Path {group}\n  {:<22} {state}", "Status")?;
    writeln!(output, "  {:<22} trail://localhost/services/v2/sources?trail={}", "Source", name_of(&source))?;
    writeln!(output, "  {:<22} {target}", "Target")?;
    if !is_detailed {
        return Ok(writeln!(output)?);
    }
    let place = |position: Option<Position>| position.map_or("none yet".to_owned(), |at| at.to_string());
    let started = checkpoint.started.map_or_else(|| "Not Available".to_owned(), clock::to_second);
    writeln!(output, "  {:<22} {started}", "Last started")?;
    if let Some(id) = holder.and_then(|holder| holder.process_id) {
        writeln!(output, "  {:<22} {id}", "Process ID")?;
    }
    let lag = body.current.time.map(|time| (checkpoint.updated.micros_since(time) / 1_000_000).max(0));
    writeln!(output, "  {:<22} {}", "Lag", lag.map_or("Unknown".to_owned(), |lag| format!("{lag} seconds")))?;
    writeln!(output, "  {:<22} {}", "Starting input", body.startup.position)?;
    writeln!(output, "  {:<22} {}", "Current input", body.current.position)?;
    writeln!(output, "  {:<22} {}", "Current output", place(body.trails.first().and_then(|trail| trail.position)))?;
    Ok(writeln!(output)?)
}

/// The path that the command names.
fn path(console: &Console<'_>, command: &Command) -> Result<(GroupName, CheckpointFile), Failure> {
    let group = console.group(command.argument())?;
    let file = console.checkpoint_file(GroupKind::Extract, &group)?;
    match file.latest().extract().is_some_and(is_path) {
        true => Ok((group, file)),
        false => Err(not_a_path(&group)),
    }
}

fn is_path(body: &ExtractCheckpoint) -> bool {
    body.input.is_some() && body.trails.iter().any(|trail| trail.is_remote)
}

fn not_a_path(group: &GroupName) -> Failure {
    Failure::new(format!("EXTRACT {group} is no path: it writes no trail of another home"))
        .with_next_step("INFO DISTPATH ALL shows paths")
}

fn parameters(console: &Console<'_>, group: &GroupName) -> Result<(PathBuf, PumpParameters), Failure> {
    let at = console.home.parameter_file(group);
    let parameters = check(&read(&at)?, &at)?;
    Ok((at, parameters))
}

fn read(at: &Path) -> Result<String, Failure> {
    fs::read_to_string(at).map_err(|error| Failure::new(format!("could not read {}: {error}", at.display())))
}

fn check(text: &str, at: &Path) -> Result<PumpParameters, Failure> {
    parameter::parse_pump(text, &at.display().to_string()).map_err(|error| Failure::new(error.to_string()))
}

/// The old or the new file is there, whatever happens.
fn write(at: &Path, text: &str) -> Result<(), Failure> {
    let unfinished = at.with_extension("new");
    let put = || {
        fs::write(&unfinished, text)?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, at)
    };
    put().map_err(|error| Failure::new(format!("could not write {}: {error}", at.display())))
}

/// RMTHOST with what the command says, and what it leaves as it was.
fn host_line(target: &Target, command: &Command, old: Option<&parameter::RemoteHost>) -> Result<String, Failure> {
    let mut line = format!("RMTHOST {}, PORT {}", target.host, target.port);
    let certificate = command.option("CERTIFICATE").or(old.and_then(|old| old.certificate.as_deref()));
    if let Some(name) = certificate {
        line += &format!(", CERTIFICATE {name}");
    }
    let threshold = command.option("THRESHOLD");
    let compression = command.option("COMPRESSION").map(str::to_ascii_uppercase);
    match (compression.as_deref(), threshold, old.and_then(|old| old.compress_from)) {
        (Some("OFF"), Some(_), _) => {
            return Err(
                Failure::new("THRESHOLD has no effect with COMPRESSION OFF").with_next_step("leave one of them out")
            );
        }
        (Some("OFF"), None, _) | (None, None, None) => {}
        (_, Some(bytes), _) => line += &format!(", COMPRESS, COMPRESSTHRESHOLD {bytes}"),
        (Some(_), None, None) => line += ", COMPRESS",
        (_, None, Some(bytes)) => line += &format!(", COMPRESS, COMPRESSTHRESHOLD {bytes}"),
    }
    match (command.option("BANDWIDTH"), old.and_then(|old| old.bandwidth)) {
        (Some(size), _) => line += &format!(", BANDWIDTH {size}"),
        (None, Some(bytes)) => line += &format!(", BANDWIDTH {bytes}"),
        (None, None) => {}
    }
    if let Some(seconds) = old.and_then(|old| old.silence) {
        line += &format!(", TIMEOUT {seconds}");
    }
    Ok(line)
}

/// The lines that RULE stands for.
fn rules(command: &Command) -> Result<Option<String>, Failure> {
    let names: Option<Vec<&str>> = command.option("OBJECTNAMES").map(|names| names.split_whitespace().collect());
    let lines = |names: Vec<&str>, word: &str| names.iter().map(|name| format!("{word} {name};")).collect::<Vec<_>>();
    match (command.option("RULE").map(str::to_ascii_uppercase).as_deref(), names, command.option("ACTION")) {
        (None, None, None) => Ok(None),
        (Some("PASSTHRU"), None, None) => Ok(Some("PASSTHRU".to_owned())),
        (Some("FILTER"), Some(names), Some(action)) if action.eq_ignore_ascii_case("EXCLUDE") => {
            let mut all = vec!["TABLE *.*;".to_owned()];
            all.extend(lines(names, "TABLEEXCLUDE"));
            Ok(Some(all.join("\n")))
        }
        (Some("FILTER"), Some(names), _) => Ok(Some(lines(names, "TABLE").join("\n"))),
        _ => Err(Failure::new("RULE is PASSTHRU, or FILTER with OBJECTNAMES and maybe an ACTION")
            .with_next_step("write RULE FILTER OBJECTNAMES 'main.item main.price' ACTION INCLUDE")),
    }
}

/// The place that BEGIN SEQNO n RBA n names.
fn begin(command: &Command) -> Result<Option<Position>, Failure> {
    let number = |keyword| command.option(keyword).and_then(|text| text.parse::<u32>().ok());
    match (command.has("BEGIN"), number("SEQNO"), number("RBA")) {
        (false, None, None) => Ok(None),
        (true, Some(sequence), rba) => Ok(Some(Position::new(sequence, rba.unwrap_or(0).into()))),
        _ => {
            Err(Failure::new("BEGIN is followed by SEQNO n, and maybe RBA n")
                .with_next_step("write BEGIN SEQNO 3 RBA 0"))
        }
    }
}

/// The trail in `trail://localhost/services/v2/sources?trail=aa`.
fn source_of(uri: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::new(format!("{uri} is no source of a path")).with_next_step(
            "write trail://localhost/services/v2/sources?trail=aa; the trail lies in dirdat of this home",
        )
    };
    let rest = uri.strip_prefix("trail://").ok_or_else(wrong)?;
    let (host, name) = rest.split_once("/services/v2/sources?trail=").ok_or_else(wrong)?;
    if host != "localhost" && host != crate::run::host() {
        let what =
            format!("a path begins in its own home, and {host} is another host or has a port, which has no effect");
        return Err(Failure::new(what).with_next_step("write trail://localhost/services/v2/sources?trail=aa"));
    }
    trail_of(name).ok_or_else(wrong)
}

/// `wss://host:port/services/v2/targets?trail=bb`.
fn target_of(uri: &str) -> Result<Target, Failure> {
    let wrong = |next_step: &str| Failure::new(format!("{uri} is no target of a path")).with_next_step(next_step);
    const NEXT_STEP: &str = "write wss://host:port/services/v2/targets?trail=bb";
    let Some(rest) = uri.strip_prefix("wss://") else {
        return Err(wrong(
            "write wss://host:port/services/v2/targets?trail=bb: connections are always encrypted WebSockets",
        ));
    };
    let (host, name) = rest.split_once("/services/v2/targets?trail=").ok_or_else(|| wrong(NEXT_STEP))?;
    let (host, port) = parameter::host_and_port(host).ok_or_else(|| wrong(NEXT_STEP))?;
    let trail = trail_of(name).ok_or_else(|| wrong(NEXT_STEP))?;
    Ok(Target { host, port: port.unwrap_or(parameter::PORT_DEFAULT), trail })
}

fn trail_of(name: &str) -> Option<String> {
    trail::TrailName::parse(name).ok().map(|_| format!("./dirdat/{name}"))
}

fn name_of(trail: &str) -> &str {
    trail.rsplit('/').next().unwrap_or_default()
}
