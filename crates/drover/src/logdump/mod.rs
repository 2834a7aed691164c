//! `drover logdump`: a session of `inspect` with a terminal, or a script, around it.

mod hands;
mod terminal;

pub use hands::{show_progress, wallet_keys};

use hands::RealHands;
use inspect::{Error, Flow, Session};
use std::error::Error as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs commands from a terminal, or else from standard input up to its end. The exit status of a script is not 0 when one of its
/// commands failed; those behind it were done all the same.
pub fn run(home: Option<PathBuf>) -> ExitCode {
    let interrupt = Arc::new(AtomicBool::new(false));
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if is_terminal && let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupt))
    {
        return crate::refused("could not listen to signals", &error);
    }
    let hands = RealHands::new(home, Arc::clone(&interrupt), io::stderr().is_terminal());
    let session = Session::new(Box::new(hands), PathBuf::from("."));
    if is_terminal { converse(session, &interrupt) } else { follow_script(session) }
}

fn converse(mut session: Session, interrupt: &AtomicBool) -> ExitCode {
    let mut editor = match terminal::Editor::open() {
        Ok(editor) => editor,
        Err(error) => return crate::refused("could not use the terminal", &error),
    };
    session.remember(editor.lines());
    println!("\nDrover Log File Dump Utility\nVersion {}\n", env!("CARGO_PKG_VERSION"));
    loop {
        let line = match editor.read(&session.prompt()) {
            Ok(Some(line)) => line,
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => return crate::refused("could not read a command", &error),
        };
        interrupt.store(false, Ordering::Relaxed);
        match session.execute(&line, &mut io::stdout().lock()) {
            Ok(Flow::Exit) => return ExitCode::SUCCESS,
            Ok(Flow::Go) => {}
            Err(Error::Print(error)) => return unheard(&error),
            Err(error) => tell(&error),
        }
    }
}

fn follow_script(mut session: Session) -> ExitCode {
    let mut has_failed = false;
    for line in io::stdin().lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) => return crate::refused("could not read a command", &error),
        };
        match session.execute(&line, &mut io::stdout().lock()) {
            Ok(Flow::Exit) => break,
            Ok(Flow::Go) => {}
            Err(Error::Print(error)) => return unheard(&error),
            Err(error) => {
                tell(&error);
                has_failed = true;
            }
        }
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Nobody listens any more: that is how a person ends a pager.
fn unheard(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe { ExitCode::SUCCESS } else { crate::refused("could not print", error) }
}

/// Prints an error with its causes, and what can be done about it where that is known.
fn tell(error: &Error) {
    let mut text = error.to_string();
    let mut cause = match error {
        // Its text is that of the trail's own error.
        Error::Trail(error) => error.source(),
        error => error.source(),
    };
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    if let Error::Trail(error) = error {
        text += &format!("\n  next step: {}", error.next_step());
    }
    // Standard error may be closed; the exit status says the same.
    _ = writeln!(io::stderr(), "{text}");
}
