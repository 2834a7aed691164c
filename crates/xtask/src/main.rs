//! `cargo x`: everything that a developer or a build machine does with this repository, behind one door.
//!
//! Start reading at [`command::COMMANDS`].

mod bench;
mod bless;
mod command;
mod fuzz;
mod need;
mod program;
mod sabotage;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command::run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("cargo x: {reason}");
            ExitCode::FAILURE
        }
    }
}
