//! Processes that the demo starts, kills and starts again.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

/// A process of the same binary that can be killed and started again.
///
/// It reads our end of a pipe as standard input and stops when that closes, so that it ends with the demo however the
/// demo ends. It leads a process group of its own: a Ctrl-C goes to the demo, which then stops its children in order.
pub struct Restartable {
    arguments: Vec<String>,
    output: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
    /// Times it was killed and started again.
    pub restarts: u32,
}

impl Restartable {
    /// Starts this program with `arguments`; what it prints is appended to the file `output`.
    pub fn start(arguments: Vec<String>, output: &Path) -> io::Result<Restartable> {
        let (child, stdin) = spawn(&arguments, output)?;
        Ok(Restartable { arguments, output: output.to_owned(), child, stdin, restarts: 0 })
    }

    /// Kills it with SIGKILL and starts it again.
    pub fn kill_and_restart(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        (self.child, self.stdin) = spawn(&self.arguments, &self.output)?;
        self.restarts += 1;
        Ok(())
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to stop by closing its standard input, and waits for that.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.child.wait()
    }

    /// What it printed.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        // Either call fails only when the process has ended, and then there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(arguments: &[String], output: &Path) -> io::Result<(Child, Option<ChildStdin>)> {
    let printed = File::options().create(true).append(true).open(output)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(printed.try_clone()?)
        .stderr(printed)
        .process_group(0)
        .spawn()?;
    let stdin = child.stdin.take();
    Ok((child, stdin))
}
