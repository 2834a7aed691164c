//! `drover receiver`: takes records of senders in other homes.

use crate::run::{host, machine, print};
use clap::Args;
use distribution::{CERTIFICATE_DEFAULT, Hello, Identity, ReceiverSetup};
use process::{CheckpointFile, Code, EventLog, Failure, Home, Message, Shutdown, TrailPlace, clock};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trail::Producer;
use trail::copy::{CopyOptions, CopyWriter};
use trail::storage::Directory;

/// Most megabytes that a sender may ask a file to have, as ADD RMTTRAIL allows.
const MEGABYTES_MAX: u32 = 2000;

/// Options of the receiver.
#[derive(Args, Debug)]
pub struct Receiver {
    /// Where senders connect to
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:7820")]
    pub listen: String,

    /// Name of the certificate in dircrd that is shown to senders
    #[arg(long, value_name = "NAME", default_value = CERTIFICATE_DEFAULT)]
    pub certificate: String,

    /// Seconds of silence after which a sender is taken for dead
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub silence: u64,

    /// Stop when standard input is closed
    #[arg(long, hide = true)]
    pub stop_with_stdin: bool,
}

/// Listens until `shutdown`.
///
/// # Errors
/// When the home or the address can't be used.
pub fn run(options: &Receiver, home: &Path, shutdown: Shutdown) -> Result<(), Box<Failure>> {
    let home = Home::open(home).map_err(|error| Failure::from(&error))?;
    let log = EventLog::open(&home, "Drover Receiver", None)
        .map_err(|error| Failure::new(Code::HomeRefused, "could not open the event log").with_cause(&error))?;
    let log = Arc::new(Mutex::new(log));
    let say = move |code: Code, text: String| {
        // A log that can't be written must not end what works.
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = log.append(&Message { time: clock::now(), code, text });
    };
    let identity = Identity::of(&home.dircrd(), &options.certificate);
    // What is wrong with the files is said now, not at the first connection.
    identity.server().map_err(|error| Failure::from(&error))?;
    let refused = |error: std::io::Error| {
        let what = format!("could not listen on {}", options.listen);
        let failure = Failure::new(Code::HomeRefused, what).with_cause(&error);
        Box::new(failure.with_next_step("give an address of this machine and a port that is free, with --listen"))
    };
    let listener = TcpListener::bind(&options.listen).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say(Code::ReceiverStarted, format!("the receiver listens on {address}"));
    print(&format!("RECEIVER listens on {address}, process id {}", std::process::id()));
    let own = home.clone();
    let setup = ReceiverSetup {
        identity,
        silence: Duration::from_secs(options.silence),
        dirchk: Arc::new(Directory::new(home.dirchk())),
        open: Box::new(move |trail, hello| open(&own, trail, hello)),
        say: Box::new(say.clone()),
        is_stopping: Box::new(move || shutdown.is_requested()),
    };
    distribution::listen(&listener, setup).map_err(refused)?;
    say(Code::ReceiverStopped, "the receiver stopped".to_owned());
    print("RECEIVER stopped");
    Ok(())
}

/// Opens a trail of the home's dirdat for a sender.
fn open(home: &Home, trail: &str, hello: &Hello) -> Result<CopyWriter, Box<Failure>> {
    let name = format!("./dirdat/{trail}");
    let boxed = |error: trail::Error| Box::new(Failure::from(&error));
    let place = TrailPlace::parse(home.path(), &name).map_err(boxed)?;
    refuse_trail_of_a_group(home, &name, &place)?;
    // A single file is as long as it gets.
    let megabytes = if place.name.is_single() { u32::MAX } else { hello.megabytes.clamp(1, MEGABYTES_MAX) };
    let options = CopyOptions {
        trail: place.name,
        display_name: name,
        file_bytes_max: u64::from(megabytes) * 1_000_000,
        producer: Producer {
            group: hello.who.rsplit(' ').next().unwrap_or_default().to_owned(),
            host: host(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine(),
        },
        clock: Arc::new(clock::now),
        expected: None,
    };
    CopyWriter::open(Arc::new(Directory::new(&place.directory)), options).map_err(boxed)
}

/// A trail that a group of the home writes is no sender's.
fn refuse_trail_of_a_group(home: &Home, name: &str, place: &TrailPlace) -> Result<(), Box<Failure>> {
    let disk = Directory::new(home.dirchk());
    for (kind, group) in home.groups().map_err(|error| Failure::from(&error))? {
        let read = CheckpointFile::read(&disk, kind, &group, 1).map_err(|error| Failure::from(&error))?;
        let trails = read.iter().filter_map(|checkpoint| checkpoint.extract()).flat_map(|body| &body.trails);
        for written in trails.filter(|written| !written.is_remote) {
            let own = TrailPlace::parse(home.path(), &written.name).map_err(|error| Failure::from(&error))?;
            if own.is_same(place) {
                let what = format!("trail {name} is written by {kind} {group} of the receiver's home");
                return Err(Failure::new(Code::PathRefused, what).into());
            }
        }
    }
    Ok(())
}
