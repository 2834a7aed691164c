//! Running other programs from the repository root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Success, or the sentence that tells the developer what went wrong.
pub type Outcome = Result<(), String>;

/// The repository root.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().and_then(Path::parent).expect("xtask lives two folders below the root").to_owned()
}

/// Where cargo puts release builds.
pub fn release() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("release")
}

/// A command that runs in the repository root.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A cargo command, by the cargo that called us.
pub fn cargo(words: &[&str]) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(words);
    cargo
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Shows the command, runs it with our own input and output, and returns how it ended.
pub fn status(command: &mut Command) -> Result<ExitStatus, String> {
    println!("\n$ {}", shown(command));
    command.status().map_err(|cause| format!("could not start `{}`: {cause}", shown(command)))
}

/// Shows and runs the command; anything but success is an error.
pub fn run(command: &mut Command) -> Outcome {
    match status(command)? {
        status if status.success() => Ok(()),
        status => Err(format!("`{}` ended with {status}", shown(command))),
    }
}

/// Runs the command and returns what it wrote to its standard output; its errors go to ours.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| format!("could not start `{}`: {cause}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", shown(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` wrote bytes that are not text", shown(command)))
}

/// Whether the cargo subcommand `nextest` is installed.
pub fn has_nextest() -> bool {
    cargo(&["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
