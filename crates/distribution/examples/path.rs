//! What a path carries over loopback, beside what the same TLS library moves bare, as one line of JSON.
//!
//! `bare_mb_s`: bytes through rustls from one thread to another. `path_mb_s`: bytes of a trail that is there, from disk through
//! sender, TLS and receiver to a synced trail. `far_mb_s`: the same through a proxy that delays each direction by 25 ms.
//! `hop_p50_ms`: from the moment when a transaction is safe in the source trail to the moment when it is safe in the target's.
//!
//! `cargo run --release -p distribution --example path [MEGABYTES [DIRECTORY]]`

use change::{
    Change, Column, Commit, Csn, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp,
    TransactionId, Value,
};
use distribution::{
    CERTIFICATE_DEFAULT, Error, Hello, Identity, Ledger, Peer, Peers, ReceiverSetup, RemoteSender, SILENCE_DEFAULT,
    SenderSetup, Standing, connect, listen,
};
use process::{Failure, clock};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use trail::copy::{CopyEverything, CopyOptions, CopyWriter};
use trail::storage::Directory;
use trail::{Producer, SourceIdentity, TrailName, Writer, WriterOptions};

/// One way of a round trip of 50 ms.
const DELAY: Duration = Duration::from_millis(25);

/// Transactions whose hop is timed.
const TIMED: usize = 300;

const FILE_BYTES_MAX: u64 = 500_000_000;

fn main() {
    let megabytes: u64 = std::env::args().nth(1).map_or(400, |text| text.parse().expect("a number of megabytes"));
    let parent = std::env::args().nth(2).map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(&parent).expect("a directory");
    let homes = ["here", "there"].map(|name| {
        let home = folder.path().join(name);
        std::fs::create_dir(&home).expect("a directory");
        let identity = Identity::of(&home, CERTIFICATE_DEFAULT);
        let fingerprint = identity.create(vec!["localhost".to_owned()]).expect("a certificate");
        (home, identity, fingerprint)
    });
    for (one, other) in [(0, 1), (1, 0)] {
        let peer = Peer { fingerprint: homes[other].2, name: "other".to_owned() };
        Peers::of(&homes[one].0).write(&[peer]).expect("writes");
    }
    let [(_, here, _), (_, there, _)] = homes;
    let bare = bare(&here, &there, megabytes);
    let source = folder.path().join("source");
    std::fs::create_dir(&source).expect("a directory");
    let bytes = write(&source, megabytes);
    let place = Place { folder: folder.path(), source: &source, here: &here, there: &there };
    let path = place.carried(bytes, "near", None);
    let far = place.carried(bytes, "far", Some(DELAY));
    let mut hops = place.hops();
    hops.sort();
    println!(
        "{{\"bytes\":{bytes},\"bare_mb_s\":{bare:.1},\"path_mb_s\":{path:.1},\"far_mb_s\":{far:.1},\"hop_p50_ms\":{:.3},\
         \"hop_p99_ms\":{:.3}}}",
        hops[hops.len() / 2].as_secs_f64() * 1e3,
        hops[hops.len() * 99 / 100].as_secs_f64() * 1e3,
    );
}

/// Megabytes a second through TLS alone.
fn bare(here: &Identity, there: &Identity, megabytes: u64) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("an address");
    let total = megabytes * 1_000_000;
    let session = there.server().expect("a session");
    let reader = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nodelay(true).expect("is set");
        let mut stream = rustls::StreamOwned::new(session, socket);
        let (mut buffer, mut read) = (vec![0; 256 * 1024], 0);
        while read < total {
            read += stream.read(&mut buffer).expect("reads") as u64;
        }
        stream.write_all(&[1]).expect("answers");
        stream.flush().expect("answers");
    });
    let socket = TcpStream::connect(to).expect("connects");
    socket.set_nodelay(true).expect("is set");
    let mut stream = rustls::StreamOwned::new(here.client("localhost").expect("a session"), socket);
    stream.flush().expect("shakes hands");
    let piece = vec![7; 256 * 1024];
    let (start, mut written) = (Instant::now(), 0);
    while written < total {
        let length = piece.len().min((total - written) as usize);
        stream.write_all(&piece[..length]).expect("writes");
        written += length as u64;
    }
    stream.flush().expect("writes");
    stream.read_exact(&mut [0]).expect("an answer");
    reader.join().expect("reads all");
    total as f64 / 1e6 / start.elapsed().as_secs_f64()
}

fn table() -> Arc<TableDefinition> {
    let column = |name: &str| Column::new(name, LogicalType::Text, "TEXT");
    let columns = vec![column("k").with_key(0), column("a"), column("b"), column("c")];
    Arc::new(TableDefinition { name: TableName::new("main", "item"), columns: columns.into() })
}

fn writer(source: &Path) -> Writer {
    let options = WriterOptions {
        producer: Producer { group: "E1".to_owned(), host: "here".to_owned(), ..Producer::default() },
        source: SourceIdentity { product: "Model".to_owned(), ..SourceIdentity::default() },
        ..WriterOptions::new(TrailName::parse("aa").expect("a name"), FILE_BYTES_MAX, Arc::new(clock::now))
    };
    Writer::open(Arc::new(Directory::new(source)), options).expect("a trail")
}

/// Appends a transaction of ten rows of about 250 bytes.
fn append(writer: &mut Writer, table: &Arc<TableDefinition>, number: u64) {
    let commit = Commit {
        csn: Csn::new(format!("{number:020}")),
        transaction: TransactionId::new(format!("{number}.1")),
        time: Timestamp::from_unix_micros(1_600_000_000_000_000 + number as i64),
    };
    writer.begin(&commit).expect("begins");
    let value = [b'x'; 60];
    for index in 0..10 {
        let key = format!("{number}/{index}");
        let values = [Value::Bytes(key.as_bytes()), Value::Bytes(&value), Value::Bytes(&value), Value::Bytes(&value)];
        let operation = Operation::Insert { new: Row::from_values(values) };
        let address = RecordAddress { position: number, offset: index };
        writer.append(&Change { table: Arc::clone(table), operation, address }).expect("appends");
    }
    writer.commit().expect("commits");
}

fn write(source: &Path, megabytes: u64) -> u64 {
    let (mut writer, table) = (writer(source), table());
    let mut number = 0;
    while u64::from(writer.position().sequence) * FILE_BYTES_MAX + writer.position().rba < megabytes * 1_000_000 {
        number += 1;
        append(&mut writer, &table, number);
    }
    writer.close().expect("closes");
    let files = std::fs::read_dir(source).expect("a directory").map(|entry| entry.expect("an entry"));
    files.map(|file| file.metadata().expect("its size").len()).sum()
}

/// A standing in memory.
#[derive(Default)]
struct Memory(Standing);

impl Ledger for Memory {
    fn standing(&self) -> Standing {
        self.0.clone()
    }

    fn save(&mut self, standing: &Standing) -> Result<(), Error> {
        self.0 = standing.clone();
        Ok(())
    }
}

struct Place<'a> {
    folder: &'a Path,
    source: &'a Path,
    here: &'a Identity,
    there: &'a Identity,
}

/// A receiver in a thread, which ends with the value.
struct Receiving {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Place<'_> {
    fn receiving(&self, name: &str) -> Receiving {
        let target = self.folder.join(name);
        std::fs::create_dir(&target).expect("a directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let dirchk = Arc::new(Directory::new(&target));
        let setup = ReceiverSetup {
            identity: self.there.clone(),
            silence: SILENCE_DEFAULT,
            dirchk,
            open: Box::new(move |_, _| {
                let options = CopyOptions {
                    trail: TrailName::parse("bb").expect("a name"),
                    display_name: "./dirdat/bb".to_owned(),
                    file_bytes_max: FILE_BYTES_MAX,
                    producer: Producer { group: "P1".to_owned(), host: "there".to_owned(), ..Producer::default() },
                    clock: Arc::new(clock::now),
                    expected: None,
                };
                CopyWriter::open(Arc::new(Directory::new(&target)), options)
                    .map_err(|error| Box::new(Failure::from(&error)))
            }),
            say: Box::new(|_, _| {}),
            is_stopping: Box::new(move || stopping.load(Ordering::Relaxed)),
        };
        let thread = std::thread::spawn(move || listen(&listener, setup).expect("listens"));
        Receiving { port, stop, thread: Some(thread) }
    }

    fn sender(&self, port: u16, standing: Standing) -> RemoteSender {
        let wire = connect(self.here, "localhost", port, "/services/v2/targets?trail=bb", SILENCE_DEFAULT);
        let setup = SenderSetup {
            source: Arc::new(Directory::new(self.source)),
            trail: TrailName::parse("aa").expect("a name"),
            rules: Box::new(CopyEverything),
            keys: None,
            ledger: Box::new(Memory(standing)),
            compress_from: None,
            bandwidth: None,
            notice: Box::new(|_| {}),
            since: clock::now(),
        };
        let hello = Hello {
            who: "here:P1".to_owned(),
            source: "./dirdat/aa".to_owned(),
            target: "./dirdat/bb".to_owned(),
            megabytes: 500,
            ..Hello::default()
        };
        RemoteSender::open(Box::new(wire.expect("connects")), hello, setup).expect("is let in")
    }

    /// Megabytes of the source trail a second, from the first record to the last answer.
    fn carried(&self, bytes: u64, name: &str, delay: Option<Duration>) -> f64 {
        let receiving = self.receiving(name);
        let port = delay.map_or(receiving.port, |delay| far(receiving.port, delay));
        let mut sender = self.sender(port, Standing::default());
        let start = Instant::now();
        while !(sender.is_at_end().expect("reads") && sender.is_settled()) {
            sender.step(Duration::from_millis(1)).expect("sends");
        }
        bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
    }

    /// How long single transactions take from a synced source trail to a synced target trail.
    fn hops(&self) -> Vec<Duration> {
        let receiving = self.receiving("hop");
        let (mut writer, table) = (writer(self.source), table());
        let (position, after) = (writer.position(), writer.last_commit().cloned());
        let mut sender = self.sender(receiving.port, Standing { position, after, ..Standing::default() });
        let (done, turn) = (Arc::new(AtomicBool::new(false)), Arc::new((Mutex::new(0_usize), Condvar::new())));
        let (ending, written) = (Arc::clone(&done), Arc::clone(&turn));
        // Another thread writes, as an Extract is another process; it waits for the answer before the next one.
        let appending = std::thread::spawn(move || {
            let mut starts = Vec::new();
            for index in 0..TIMED {
                append(&mut writer, &table, 1_000_000_000 + index as u64);
                writer.sync().expect("syncs");
                starts.push(Instant::now());
                let (count, changed) = &*written;
                let mut count = count.lock().expect("well");
                while *count <= index {
                    count = changed.wait(count).expect("well");
                }
                drop(count);
                std::thread::sleep(Duration::from_millis(2));
            }
            ending.store(true, Ordering::Relaxed);
            starts
        });
        let (mut ends, mut last) = (Vec::new(), sender.position());
        while !done.load(Ordering::Relaxed) {
            let step = sender.step(Duration::from_millis(100)).expect("sends");
            // The header of a file is answered for by itself.
            if step == distribution::Step::Answered && sender.is_settled() && sender.position() > last {
                ends.push(Instant::now());
                last = sender.position();
                let (count, changed) = &*turn;
                *count.lock().expect("well") += 1;
                changed.notify_all();
            }
        }
        let starts = appending.join().expect("writes");
        starts.iter().zip(ends).map(|(start, end)| end.saturating_duration_since(*start)).collect()
    }
}

/// A proxy that keeps everything for a while, in both directions, and holds nothing back.
fn far(to: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("a connection");
        let server = TcpStream::connect(("127.0.0.1", to)).expect("connects");
        for socket in [&client, &server] {
            socket.set_nodelay(true).expect("is set");
        }
        let again = |socket: &TcpStream| socket.try_clone().expect("a handle");
        later(again(&client), again(&server), delay);
        later(server, client, delay);
    });
    port
}

type Kept = (Mutex<VecDeque<(Instant, Vec<u8>)>>, Condvar);

fn later(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let kept: Arc<Kept> = Arc::default();
    let filling = Arc::clone(&kept);
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; 64 * 1024];
            let length = from.read(&mut piece).unwrap_or(0);
            piece.truncate(length);
            filling.0.lock().expect("well").push_back((Instant::now() + delay, piece));
            filling.1.notify_all();
            if length == 0 {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let mut queue = kept.0.lock().expect("well");
            let (due, piece) = loop {
                match queue.pop_front() {
                    Some(front) => break front,
                    None => queue = kept.1.wait(queue).expect("well"),
                }
            };
            drop(queue);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if piece.is_empty() || to.write_all(&piece).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}
