//! `drover`: one binary for every part.
//!
//! Nothing is decided here. [`command_line`] says what was asked for; [`wire`] knows which database products there are;
//! [`run`] puts the parts of a group together; [`console`] does what commands say; [`demo`] shows it all.

mod command_line;
mod compare;
mod console;
mod copy;
mod defgen;
mod demo;
mod failure;
mod logdump;
mod place;
mod receiver;
mod rectify;
mod run;
mod trail_tools;
mod wire;

use clap::{CommandFactory, Parser};
use command_line::{CommandLine, Demo, Group, Part};
use process::{Failure, GroupKind, Home, Shutdown};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status of wrong usage.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    if let Err(error) = keep_memory_private() {
        return refused("could not keep this process's memory out of core files", &error);
    }
    let line = CommandLine::parse();
    match line.part {
        Some(Part::Init { home }) => init(&home),
        Some(Part::Extract(group)) => run_group(GroupKind::Extract, &group.group, &group.options, line.home),
        Some(Part::Replicat(replicat)) => run_group(GroupKind::Replicat, &replicat.group, &replicat.options, line.home),
        Some(Part::Receiver(options)) => run_receiver(&options, line.home),
        Some(Part::Logdump) => logdump::run(line.home),
        Some(Part::Trail(tool)) => trail_tools::run(&tool, line.home.as_deref()),
        Some(Part::Defgen { parameters }) => define(&parameters, line.home),
        Some(Part::Compare(options)) => compare::run(&options),
        Some(Part::Differences(options)) => rectify::run_differences(&options),
        Some(Part::Rectify(options)) => rectify::run_rectify(&options),
        Some(Part::Copy(options)) => run_copy(&options, line.home),
        Some(Part::Demo(options)) => show(&options),
        Some(Part::DemoWriter(options)) => {
            demo::end_with_stdin();
            ended(demo::write(&options))
        }
        None => run_console(line.home, line.commands.as_deref()),
    }
}

/// Keeps passwords in memory out of core files, and from other processes of the same user.
fn keep_memory_private() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not hold for a core that is piped to a program.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn init(home: &Path) -> ExitCode {
    let scripts = [
        ("chkpt_postgres_create.sql", db_postgres::checkpoint_script()),
        ("chkpt_sqlite_create.sql", db_sqlite::checkpoint_script()),
    ];
    let created = Home::create(home).and_then(|home| home.put_scripts(&scripts).map(|()| home));
    match created {
        Ok(home) => {
            let path = home.path().display();
            print(&format!("{path} is a home; for the commands that add groups: drover --home {path} -c HELP"))
        }
        Err(error) => told(&Failure::from(&error)),
    }
}

fn run_group(kind: GroupKind, group: &Group, options: &[String], home: Option<PathBuf>) -> ExitCode {
    let Some(home) = home else { return no_home() };
    let start = match run::start_options(kind, options) {
        Ok(start) => start,
        Err(wrong) => return misused(clap::error::ErrorKind::InvalidValue, &wrong),
    };
    if group.detached
        && let Err(error) = rustix::process::setsid()
        && error != rustix::io::Errno::PERM
    {
        return refused("could not leave the terminal", &error);
    }
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return refused("could not listen to signals", &error),
    };
    if group.stop_with_stdin {
        run::stop_with_stdin(&shutdown);
    }
    match run::run(kind, &group.group, &home, start, shutdown) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => told(&failure),
    }
}

fn run_receiver(options: &receiver::Receiver, home: Option<PathBuf>) -> ExitCode {
    let Some(home) = home else { return no_home() };
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return refused("could not listen to signals", &error),
    };
    if options.stop_with_stdin {
        run::stop_with_stdin(&shutdown);
    }
    match receiver::run(options, &home, shutdown) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => told(&failure),
    }
}

fn run_copy(options: &copy::Copy, home: Option<PathBuf>) -> ExitCode {
    let Some(home) = home else { return no_home() };
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return refused("could not listen to signals", &error),
    };
    match copy::run(options, &home, &shutdown) {
        Ok(copy::Ending::Complete) => ExitCode::SUCCESS,
        Ok(copy::Ending::Stopped) => ExitCode::FAILURE,
        Err(failure) => told(&failure),
    }
}

fn run_console(home: Option<PathBuf>, commands: Option<&str>) -> ExitCode {
    let Some(home) = home else { return no_home() };
    let mut output = io::stdout().lock();
    let result = match commands {
        Some(commands) => console::run(&home, commands, &mut output),
        None => console::converse(&home, &mut output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if matches!(error, console::Error::Syntax(_)) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

fn define(parameters: &Path, home: Option<PathBuf>) -> ExitCode {
    let Some(home) = home else { return no_home() };
    match defgen::run(parameters, &home) {
        Ok(written) => print(&format!("{}: definitions of {} tables", written.path.display(), written.tables)),
        Err(failure) => told(&failure),
    }
}

fn show(options: &Demo) -> ExitCode {
    let shutdown = match Shutdown::install() {
        Ok(shutdown) => shutdown,
        Err(error) => return refused("could not listen to signals", &error),
    };
    let summary = match demo::run(options, &shutdown) {
        Ok(summary) => summary,
        Err(error) => return ended(Err(error)),
    };
    let text = if options.json { summary.json() } else { summary.text() };
    let printed = print(&text);
    if summary.is_equal() { printed } else { ExitCode::FAILURE }
}

/// Prints an error with its causes, if there is one.
fn ended<E: std::error::Error + 'static>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refused("could not print", &error),
    }
}

fn told(failure: &Failure) -> ExitCode {
    eprintln!("{}", failure.render());
    ExitCode::FAILURE
}

fn refused(what: &str, cause: &dyn std::error::Error) -> ExitCode {
    eprintln!("{what}: {cause}");
    ExitCode::FAILURE
}

fn no_home() -> ExitCode {
    let message = "no home is given: use --home HOME or the environment variable DROVER_HOME";
    misused(clap::error::ErrorKind::MissingRequiredArgument, message)
}

fn misused(kind: clap::error::ErrorKind, message: &str) -> ExitCode {
    let error = CommandLine::command().error(kind, message);
    // Standard error may be closed; the exit status says the same.
    let _ = error.print();
    ExitCode::from(USAGE)
}
