//! A hop over TLS with a proxy that does what networks do: each transaction arrives once, and strangers stay outside.

mod world;

use distribution::{
    CERTIFICATE_DEFAULT, Error, GroupLedger, Hello, Identity, Peer, Peers, ReceiverSetup, RemoteSender, SenderSetup,
    connect, listen,
};
use fastrand::Rng;
use process::{CheckpointFile, Code, Failure, GroupKind};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trail::copy::{CopyEverything, CopyWriter};
use trail::storage::{Forgetful, Storage};
use world::{Source, Transaction, copy_options, create_checkpoint, group, history, judge, now, source_name};

const SILENCE: Duration = Duration::from_millis(900);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A dircrd whose certificate is for `name`, and that believes `believed`.
fn identity(folder: &Path, by: &Authority, believed: &Authority, name: &str, is_expired: bool) -> Identity {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    if is_expired {
        parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, by).expect("a certificate");
    std::fs::write(folder.join("drover.crt"), certificate.pem()).expect("a file");
    std::fs::write(folder.join("drover.key"), key.serialize_pem()).expect("a file");
    std::fs::set_permissions(folder.join("drover.key"), std::fs::Permissions::from_mode(0o600)).expect("a mode");
    std::fs::write(folder.join("ca.crt"), believed.pem()).expect("a file");
    Identity::of(folder, "drover")
}

/// A receiver in this process, on a disk that forgets.
struct Receiver {
    port: u16,
    stop: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Receiver {
    fn start(identity: Identity, disk: &Forgetful, dirchk: &Forgetful, seed: u64) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let said = Arc::new(Mutex::new(Vec::new()));
        let (disk, stopping, saying) = (disk.clone(), Arc::clone(&stop), Arc::clone(&said));
        let setup = ReceiverSetup {
            identity,
            silence: SILENCE,
            dirchk: Arc::new(dirchk.clone()),
            open: Box::new(move |_, _| {
                let options = copy_options(&mut Rng::with_seed(seed));
                CopyWriter::open(Arc::new(disk.clone()), options).map_err(|error| Box::new(Failure::from(&error)))
            }),
            say: Box::new(move |code, text| saying.lock().expect("well").push(format!("{code} {text}"))),
            is_stopping: Box::new(move || stopping.load(Ordering::Relaxed)),
        };
        let thread = std::thread::spawn(move || listen(&listener, setup).expect("listens"));
        Receiver { port, stop, said, thread: Some(thread) }
    }

    fn said(&self) -> String {
        self.said.lock().expect("well").join("\n")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a network does to one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    /// Each piece takes this long.
    delay: Duration,
    /// After so many bytes it ends; or, when told so, nothing passes any more and nobody is told.
    limit: Option<(usize, bool)>,
}

/// A proxy that gives each connection the next fault, until it is told to be calm.
fn proxy(to: u16, seed: u64) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let is_calm = Arc::new(AtomicBool::new(false));
    let calm = Arc::clone(&is_calm);
    std::thread::spawn(move || {
        let mut random = Rng::with_seed(seed);
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { continue };
            let mut faults = [Fault::default(); 2];
            if !calm.load(Ordering::Relaxed) {
                let delay = Duration::from_millis(random.u64(..5));
                faults = [Fault { delay, limit: None }; 2];
                // What comes back is little, and it breaks as well.
                faults[0].limit = Some((random.usize(..16_000), random.u8(..4) == 0));
                faults[1].limit = (random.u8(..3) == 0).then(|| (random.usize(..4_000), random.u8(..4) == 0));
            }
            let pair = |from: &TcpStream, to: &TcpStream| {
                (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"))
            };
            let ((a, b), (c, d)) = (pair(&client, &server), pair(&server, &client));
            std::thread::spawn(move || carry(a, b, faults[0]));
            std::thread::spawn(move || carry(c, d, faults[1]));
        }
    });
    (port, is_calm)
}

fn carry(mut from: TcpStream, mut to: TcpStream, fault: Fault) {
    let mut buffer = vec![0; 16 * 1024];
    let mut passed = 0;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        std::thread::sleep(fault.delay);
        let (limit, is_silent) = fault.limit.unwrap_or((usize::MAX, false));
        let allowed = length.min(limit.saturating_sub(passed));
        if to.write_all(&buffer[..allowed]).is_err() {
            break;
        }
        passed += length;
        if allowed < length {
            if is_silent {
                // Both ends stay open, and nothing comes any more.
                while let Ok(1..) = from.read(&mut buffer) {}
            }
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

struct Sending<'a> {
    identity: &'a Identity,
    source: &'a Source,
    home: &'a Forgetful,
    who: &'a str,
    compress: bool,
}

impl Sending<'_> {
    fn open(&self, host: &str, port: u16) -> Result<RemoteSender, Error> {
        self.open_into(host, port, "./dirdat/bb")
    }

    fn open_into(&self, host: &str, port: u16, target: &str) -> Result<RemoteSender, Error> {
        let wire = connect(self.identity, host, port, "/services/v2/targets?trail=bb", SILENCE)?;
        let checkpoint =
            CheckpointFile::open(Arc::new(self.home.clone()), GroupKind::Extract, &group()).expect("opens");
        let setup = SenderSetup {
            source: Arc::new(self.source.disk.another_process()),
            trail: source_name(),
            rules: Box::new(CopyEverything),
            keys: None,
            ledger: Box::new(GroupLedger::new(checkpoint, Box::new(now))),
            compress_from: self.compress.then_some(0),
            bandwidth: None,
            notice: Box::new(|text| panic!("nothing was lost: {text}")),
            since: now(),
        };
        let hello = Hello {
            who: self.who.to_owned(),
            source: "./dirdat/aa".to_owned(),
            target: target.to_owned(),
            megabytes: 1,
            ..Hello::default()
        };
        RemoteSender::open(Box::new(wire), hello, setup)
    }
}

/// A sender and a receiver that believe one authority, and the folder that holds their certificates.
fn friends() -> (Identity, Identity, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let ca = authority();
    let ours = identity(&folder.path().join("a"), &ca, &ca, "sender", false);
    let theirs = identity(&folder.path().join("b"), &ca, &ca, "localhost", false);
    (ours, theirs, folder)
}

fn written(seed: u64) -> (Source, Forgetful, Vec<Transaction>) {
    let mut random = Rng::with_seed(seed);
    let history = history(&mut random, 150);
    let mut source = Source::new(seed);
    let home = Forgetful::new(seed + 2);
    create_checkpoint(&home);
    while !source.step(&history, &mut random).expect("writes") {}
    (source, home, history)
}

/// Sends until all is durable at the target, connecting anew as often as needed; returns how often the network failed.
fn send_all(sending: &Sending<'_>, port: u16, mut calm_after: impl FnMut(usize)) -> usize {
    let start = Instant::now();
    let mut failures = 0;
    while start.elapsed() < Duration::from_secs(120) {
        calm_after(failures);
        let mut sender = match sending.open("localhost", port) {
            Ok(sender) => sender,
            Err(Error::Network { .. }) => {
                failures += 1;
                continue;
            }
            Err(Error::Refused { refused, .. }) if refused.is_passing => {
                failures += 1;
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        loop {
            match sender.step(Duration::from_millis(5)) {
                Ok(distribution::Step::Idle) if sender.is_settled() => {
                    sender.stop().expect("stops");
                    return failures;
                }
                Ok(_) => {}
                Err(Error::Network { .. }) => {
                    failures += 1;
                    break;
                }
                Err(Error::Refused { refused, .. }) if refused.is_passing => {
                    failures += 1;
                    break;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    panic!("it never came to an end, after {failures} failures")
}

#[test]
fn a_hop_over_a_bad_network_carries_each_transaction_once() {
    let (ours, theirs, _folder) = friends();
    for seed in 0..3 {
        let (source, home, history) = written(seed);
        let (disk, dirchk) = (Forgetful::new(seed + 5), Forgetful::new(seed + 6));
        let receiver = Receiver::start(theirs.clone(), &disk, &dirchk, seed);
        let (port, is_calm) = proxy(receiver.port, seed);
        let sending = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: seed == 1 };
        let failures = send_all(&sending, port, |failures| is_calm.store(failures >= 12, Ordering::Relaxed));
        assert!(failures > 3, "seed {seed}: the network was bad {failures} times");
        drop(receiver);
        judge(&disk, &history, &format!("seed {seed}"));
    }
}

#[test]
fn a_full_disk_at_the_target_costs_time_and_nothing_else() {
    let (ours, theirs, _folder) = friends();
    let (source, home, history) = written(11);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    disk.full_after(Some(9_000));
    let receiver = Receiver::start(theirs, &disk, &dirchk, 3);
    let sending = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: false };
    let failures = send_all(&sending, receiver.port, |failures| {
        if failures == 3 {
            disk.full_after(None);
        }
    });
    assert!(failures >= 3, "the disk was full {failures} times");
    drop(receiver);
    judge(&disk, &history, "after the disk had room again");
}

#[test]
fn strangers_are_refused_and_the_reason_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, foreign) = (authority(), authority());
    let at = |name: &str| folder.path().join(name);
    let ours = identity(&at("ours"), &ca, &ca, "sender", false);
    let theirs = identity(&at("theirs"), &ca, &ca, "localhost", false);
    let (source, home, _) = written(5);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    let receiver = Receiver::start(theirs.clone(), &disk, &dirchk, 3);
    let (source, home) = (&source, &home);
    let refused = |identity: &Identity, host: &str, port: u16| {
        let start = Instant::now();
        loop {
            match (Sending { identity, source, home, who: "here:P1", compress: false }).open(host, port) {
                Ok(_) => panic!("was let in"),
                // With TLS 1.3 a client may be told of the refusal after its own part is done, or just see the end.
                Err(Error::Network { .. }) if start.elapsed() < Duration::from_secs(1) => {}
                Err(error) => return error,
            }
        }
    };
    // A sender that believes another authority, and one whose host has another name than the certificate.
    let doubtful = identity(&at("doubtful"), &ca, &foreign, "sender", false);
    let wrong = refused(&doubtful, "localhost", receiver.port);
    assert_eq!(Failure::from(&wrong).code(), Code::PathCertificate, "{wrong:?}");
    let wrong = refused(&ours, "127.0.0.1", receiver.port);
    assert_eq!(Failure::from(&wrong).code(), Code::PathCertificate, "{wrong:?}");
    // An expired certificate of the receiver.
    let old = identity(&at("old"), &ca, &ca, "localhost", true);
    let expired = Receiver::start(old.clone(), &Forgetful::new(8), &Forgetful::new(9), 3);
    let wrong = refused(&ours, "localhost", expired.port);
    assert_eq!(Failure::from(&wrong).code(), Code::PathCertificate, "{wrong:?}");
    // Senders that the receiver must refuse: of another authority, expired, without any certificate.
    let alien = identity(&at("alien"), &foreign, &ca, "sender", false);
    for stranger in [&alien, &old] {
        let wrong = refused(stranger, "localhost", receiver.port);
        assert!(matches!(wrong, Error::Certificate { .. } | Error::Network { .. }), "{wrong:?}");
    }
    let mut plain = TcpStream::connect(("127.0.0.1", receiver.port)).expect("connects");
    plain.write_all(b"GET /services/v2/targets?trail=bb HTTP/1.1\r\n\r\n").expect("writes");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "nothing is spoken in the clear");
    let start = Instant::now();
    while receiver.said().matches("DRV-00788").count() < 5 && start.elapsed() < Duration::from_secs(30) {
        std::thread::yield_now();
    }
    assert!(receiver.said().contains("no trust"), "{}", receiver.said());
    assert!(!receiver.said().contains("DRV-00787"), "nobody was let in: {}", receiver.said());
    // A key that others can read is not used, and what it says is told nowhere.
    std::fs::set_permissions(at("ours").join("drover.key"), std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let wrong = Sending { identity: &ours, source, home, who: "here:P1", compress: false };
    let wrong = wrong.open("localhost", receiver.port).err().expect("is refused");
    let text = format!("{wrong:?} {}", Failure::from(&wrong).render());
    assert!(text.contains("can be read by others") && !text.contains("PRIVATE KEY"), "{text}");
}

#[test]
fn a_trail_has_one_sender_who_may_come_again() {
    let (ours, theirs, _folder) = friends();
    let (source, home, history) = written(5);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    let receiver = Receiver::start(theirs, &disk, &dirchk, 3);
    let first = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: false };
    let half_open = first.open("localhost", receiver.port).expect("is let in");
    let other = Sending { who: "there:P9", ..first };
    let error = other.open("localhost", receiver.port).err().expect("is refused");
    let failure = Failure::from(&error);
    assert_eq!(failure.code(), Code::TargetTrailTaken, "{error:?}");
    assert!(failure.what().contains("here:P1"), "{}", failure.what());
    // The first one comes again while his earlier connection is still there.
    let first = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: false };
    send_all(&first, receiver.port, |_| {});
    drop(half_open);
    drop(receiver);
    judge(&disk, &history, "after the second connection");
}

#[test]
fn a_target_trail_that_is_gone_when_the_sender_comes_again_is_not_started_anew() {
    let (ours, theirs, _folder) = friends();
    let (source, home, _) = written(5);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    let receiver = Receiver::start(theirs, &disk, &dirchk, 3);
    let sending = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: false };
    send_all(&sending, receiver.port, |_| {});
    for name in disk.list().expect("lists") {
        disk.remove(&name).expect("removes");
    }
    let error = sending.open("localhost", receiver.port).err().expect("is refused");
    assert!(matches!(error, Error::TargetLost { .. }), "{error:?}");
}

#[test]
fn peers_believe_each_other_by_fingerprint_and_a_trail_is_a_peers_whatever_he_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let homes: Vec<_> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
    let own = homes.iter().map(|home| {
        std::fs::create_dir_all(home).expect("a folder");
        let identity = Identity::of(home, CERTIFICATE_DEFAULT);
        // The name is nobody's: a peer is believed for his certificate alone.
        let fingerprint = identity.create(vec!["somewhere.example".to_owned()]).expect("is made");
        assert_eq!(identity.fingerprint().expect("is there"), fingerprint);
        assert!(identity.create(Vec::new()).is_err(), "a certificate that is there stays");
        (identity, fingerprint)
    });
    let own: Vec<_> = own.collect();
    let believe = |home: usize, peers: &[(usize, &str)]| {
        let peers: Vec<_> =
            peers.iter().map(|(index, name)| Peer { fingerprint: own[*index].1, name: (*name).to_owned() }).collect();
        Peers::of(&homes[home]).write(&peers).expect("writes");
    };
    believe(0, &[(1, "target")]);
    believe(1, &[(0, "shop")]);
    believe(2, &[(1, "target")]);
    let (source, home, history) = written(5);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    let receiver = Receiver::start(own[1].0.clone(), &disk, &dirchk, 3);
    let sending = |index: usize| Sending {
        identity: &own[index].0,
        source: &source,
        home: &home,
        who: "here:P1",
        compress: false,
    };
    send_all(&sending(0), receiver.port, |_| {});
    // One who is not believed, and whose fingerprint the receiver's operator is told.
    let error = sending(2).open("127.0.0.1", receiver.port).err().expect("is refused");
    assert!(matches!(error, Error::Certificate { .. } | Error::Network { .. }), "{error:?}");
    let start = Instant::now();
    while !receiver.said().contains(&own[2].1.to_string()) {
        assert!(start.elapsed() < Duration::from_secs(30), "{}", receiver.said());
        std::thread::yield_now();
    }
    // Believed, but not the one whose trail it is.
    believe(1, &[(0, "shop"), (2, "other")]);
    let error = sending(2).open("127.0.0.1", receiver.port).err().expect("is refused");
    assert_eq!(Failure::from(&error).code(), Code::TargetTrailTaken, "{error:?}");
    drop(receiver);
    judge(&disk, &history, "what the one sent whose trail it is");
}

#[test]
fn a_sender_names_trails_of_dirdat_and_nothing_else() {
    let (ours, theirs, _folder) = friends();
    let (source, home, _) = written(5);
    let (disk, dirchk) = (Forgetful::new(1), Forgetful::new(2));
    let receiver = Receiver::start(theirs, &disk, &dirchk, 3);
    let sending = Sending { identity: &ours, source: &source, home: &home, who: "here:P1", compress: false };
    for target in
        ["../dirdat/bb", "/etc/bb", "./dirchk/bb", "./dirdat/", "./dirdat/bb000000000", "./dirdat/bb.safe", ""]
    {
        let error = sending.open_into("localhost", receiver.port, target).err().expect("is refused");
        assert_eq!(Failure::from(&error).code(), Code::PathRefused, "{target}: {error:?}");
    }
    assert!(disk.list().expect("lists").is_empty() && dirchk.list().expect("lists").is_empty());
}
