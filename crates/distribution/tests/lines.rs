//! Sender and receiver over a line that loses, repeats and ends as it likes, on disks that forget: each transaction arrives
//! once. No socket, no clock, no thread.

mod world;

use bytes::Bytes;
use distribution::{Error, Frame, GroupLedger, Hello, Intake, Line, RemoteSender, SenderSetup, Session, Step};
use fastrand::Rng;
use process::{CheckpointFile, GroupKind};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trail::copy::{CopyEverything, CopyWriter};
use trail::storage::Forgetful;
use world::{Source, copy_options, create_checkpoint, group, history, judge, now, source_name};

/// One direction of a line.
#[derive(Default)]
struct Way {
    frames: VecDeque<Bytes>,
    has_ended: bool,
}

/// One end of a line in memory.
struct Memory {
    out: Arc<Mutex<Way>>,
    back: Arc<Mutex<Way>>,
    random: Mutex<Rng>,
    /// Whether frames come twice now and then.
    repeats: bool,
}

fn line(random: &mut Rng) -> (Memory, Memory) {
    let (one, other): (Arc<Mutex<Way>>, Arc<Mutex<Way>>) = Default::default();
    let mut end = |out: &Arc<Mutex<Way>>, back: &Arc<Mutex<Way>>, repeats| Memory {
        out: Arc::clone(out),
        back: Arc::clone(back),
        random: Mutex::new(random.fork()),
        repeats,
    };
    (end(&one, &other, true), end(&other, &one, true))
}

impl Memory {
    /// Ends the line; of what was under way, a part arrives still.
    fn end(&self, random: &mut Rng) {
        for way in [&self.out, &self.back] {
            let mut way = way.lock().expect("well");
            way.has_ended = true;
            let arrives = random.usize(..=way.frames.len());
            way.frames.truncate(arrives);
        }
    }
}

fn ended() -> Error {
    Error::Network { peer: "the other end".to_owned(), source: io::ErrorKind::ConnectionReset.into() }
}

impl Line for Memory {
    fn peer(&self) -> &str {
        "the other end"
    }

    fn send(&self, frame: Bytes) -> Result<(), Error> {
        let mut way = self.out.lock().expect("well");
        if way.has_ended {
            return Err(ended());
        }
        // Only records and answers come again: what opens a session is said once.
        let is_repeated = self.repeats
            && matches!(Frame::decode(frame.clone()), Ok(Frame::Batch { .. } | Frame::Durable { .. }))
            && self.random.lock().expect("well").u8(..8) == 0;
        if is_repeated {
            way.frames.push_back(frame.clone());
        }
        way.frames.push_back(frame);
        Ok(())
    }

    fn receive(&self, _: Duration) -> Result<Option<Frame>, Error> {
        let mut way = self.back.lock().expect("well");
        match way.frames.pop_front() {
            Some(frame) => Frame::decode(frame).map(Some),
            None if way.has_ended => Err(ended()),
            None => Ok(None),
        }
    }
}

/// Both ends of a connection.
struct Connection {
    sender: Option<RemoteSender>,
    session: Option<Session>,
    cut: Arc<Memory>,
}

fn connect(source: &Source, target: &Forgetful, home: &Forgetful, random: &mut Rng) -> Result<Connection, Error> {
    let (here, there) = line(random);
    let there = Arc::new(there);
    let writer = CopyWriter::open(Arc::new(target.clone()), copy_options(random))
        .map_err(|error| Error::Target(Box::new(error)))?;
    let session = Session::begin(Arc::clone(&there) as Arc<dyn Line>, Intake::new(writer)?)?;
    let checkpoint = CheckpointFile::open(Arc::new(home.clone()), GroupKind::Extract, &group())
        .map_err(|error| Error::Checkpoint(Box::new(error)))?;
    let setup = SenderSetup {
        source: Arc::new(source.disk.another_process()),
        trail: source_name(),
        rules: Box::new(CopyEverything),
        keys: None,
        ledger: Box::new(GroupLedger::new(checkpoint, Box::new(now))),
        compress_from: random.bool().then_some(500),
        bandwidth: None,
        notice: Box::new(|text| panic!("nothing was lost: {text}")),
        since: now(),
    };
    let sender = RemoteSender::open(Box::new(here), Hello::default(), setup)?;
    let hello = there.receive(Duration::ZERO)?;
    assert!(matches!(hello, Some(Frame::Hello(_))), "{hello:?}");
    Ok(Connection { sender: Some(sender), session: Some(session), cut: there })
}

fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let history = history(&mut random, 40);
    let mut source = Source::new(seed);
    let (target, home) = (Forgetful::new(seed + 1), Forgetful::new(seed + 2));
    create_checkpoint(&home);
    let mut connection: Option<Connection> = None;
    let mut faults = 0;
    for _ in 0..100_000 {
        let may_fail = faults < 40;
        if may_fail && random.u16(..60) == 0 {
            faults += 1;
            match random.u8(..5) {
                0 => {
                    source.kill();
                    source.disk.crash();
                    connection = None;
                }
                1 => target.fail_after(random.u64(..20)),
                2 => home.fail_after(random.u64(..20)),
                // The sender notices the end at once, the receiver later, or the other way round.
                3 => {
                    if let Some(connection) = &mut connection {
                        connection.cut.end(&mut random);
                    }
                }
                _ => {
                    // One end dies, and the other hears of it when the line ends.
                    if let Some(connection) = &mut connection {
                        match random.bool() {
                            true => connection.sender = None,
                            false => connection.session = None,
                        }
                        connection.cut.end(&mut random);
                    }
                }
            }
        }
        let is_written = source.step(&history, &mut random).expect("the source's disk is well");
        let result = match &mut connection {
            None => connect(&source, &target, &home, &mut random).map(|made| {
                connection = Some(made);
                (Step::Worked, true)
            }),
            Some(Connection { sender, session, .. }) => (|| {
                let mut done = Step::Idle;
                let mut is_settled = sender.is_some();
                for _ in 0..random.usize(..4) {
                    if let Some(sender) = sender
                        && sender.step(Duration::ZERO)? != Step::Idle
                    {
                        done = Step::Worked;
                    }
                }
                for _ in 0..random.usize(..4) {
                    if let Some(session) = session
                        && session.step(Duration::ZERO)? != Step::Idle
                    {
                        done = Step::Worked;
                    }
                }
                if let Some(sender) = sender {
                    is_settled = sender.is_settled() && sender.is_at_end()?;
                }
                Ok((done, is_settled))
            })(),
        };
        match result {
            Ok((Step::Idle, true)) if is_written && faults >= 40 => {
                [&target, &home].into_iter().for_each(Forgetful::kill);
                judge(&target, &history, &format!("seed {seed}"));
                return;
            }
            Ok(_) => {}
            Err(error) => {
                let of_line = matches!(error, Error::Network { .. });
                assert!(of_line || target.has_failed() || home.has_failed(), "seed {seed}: {error:?}");
                // The trail's lock must be free before it is opened again.
                connection = None;
                if !of_line || random.bool() {
                    match random.bool() {
                        true => [&target, &home].into_iter().for_each(Forgetful::crash),
                        false => [&target, &home].into_iter().for_each(Forgetful::kill),
                    }
                }
            }
        }
    }
    panic!("seed {seed}: it never came to rest");
}

#[test]
fn each_transaction_arrives_once_over_a_line_that_ends_and_repeats_itself() {
    let seeds = std::env::var("DROVER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    (0..seeds).for_each(run);
}
