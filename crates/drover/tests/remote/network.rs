//! Bad networks between two homes: a proxy that delays, breaks and falls silent; a partition between network namespaces.

use super::homes::Homes;
use crate::stage::{Running, drover, eventually};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A proxy before the receiver. Connections end after so many bytes, or fall silent, until it has let down `most` of them.
fn proxy(to: u16, seed: u64, most: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let let_down = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&let_down);
    std::thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(seed);
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { continue };
            let is_calm = counter.load(Ordering::Relaxed) >= most;
            let limit = if is_calm { usize::MAX } else { random.usize(..20_000) };
            let (delay, is_silent) = (Duration::from_millis(random.u64(..10)), random.u8(..10) == 0);
            let again = |socket: &TcpStream| socket.try_clone().expect("a handle");
            let (back, forth) = ((again(&server), again(&client)), (client, server));
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || carry(back.0, back.1, delay, usize::MAX, false));
            std::thread::spawn(move || {
                if carry(forth.0, forth.1, delay, limit, is_silent) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (port, let_down)
}

/// Returns whether the limit was reached.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration, limit: usize, is_silent: bool) -> bool {
    let (mut buffer, mut passed) = (vec![0; 16 * 1024], 0);
    let mut is_reached = false;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        std::thread::sleep(delay);
        let allowed = length.min(limit - passed);
        passed += allowed;
        is_reached = allowed < length;
        if to.write_all(&buffer[..allowed]).is_err() || is_reached {
            break;
        }
    }
    if is_reached && is_silent {
        // Both ends stay open, and nothing comes any more.
        while let Ok(1..) = from.read(&mut buffer) {}
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
    is_reached
}

#[test]
fn a_proxy_that_delays_breaks_and_falls_silent_costs_time_and_nothing_else() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let homes = Homes::new("", "PASSTHRU");
    let (port, let_down) = proxy(homes.port, seed, 8);
    homes.pump(port, ", TIMEOUT 3", "PASSTHRU");
    let stage = &homes.stage;
    let running =
        [stage.extract(), homes.receiver_with(&["--silence", "3"]), stage.start("extract", "p1"), homes.replicat()];
    let source = stage.source();
    let mut id = 0;
    // Each connection that is let down carried a few records at most: there must be something to carry for all of them.
    eventually("the network has let down enough connections", || {
        for _ in 0..20 {
            id += 1;
            source.execute("INSERT INTO t VALUES (?1, hex(randomblob(50)), ?1)", [id]).expect("an insert");
        }
        (let_down.load(Ordering::Relaxed) >= 8).then_some(())
    });
    homes.wait_until_equal(&["t"], &running.each_ref());
    assert!(stage.event_log().contains("DRV-00780"), "the failures were told");
    running.into_iter().rev().for_each(|process| drop(process.stop()));
}

/// A network namespace with a cable to it; gone when dropped.
struct Namespace {
    name: String,
    address: String,
}

impl Namespace {
    /// `None` where this machine does not allow it.
    fn new() -> Option<Namespace> {
        let id = std::process::id() % 10_000;
        let (name, net) = (format!("drv{id}"), format!("10.211.{}", id % 250));
        let namespace = Namespace { name: name.clone(), address: format!("{net}.2") };
        let (ours, theirs) = (format!("{name}a"), format!("{name}b"));
        let made = ip(&["netns", "add", &name])
            && ip(&["link", "add", &ours, "type", "veth", "peer", "name", &theirs])
            && ip(&["link", "set", &theirs, "netns", &name])
            && ip(&["addr", "add", &format!("{net}.1/30"), "dev", &ours])
            && ip(&["link", "set", &ours, "up"])
            && ip(&["-n", &name, "addr", "add", &format!("{net}.2/30"), "dev", &theirs])
            && ip(&["-n", &name, "link", "set", &theirs, "up"]);
        made.then_some(namespace)
    }

    /// Pulls the cable out, or puts it in again.
    fn plug(&self, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        assert!(ip(&["-n", &self.name, "link", "set", &format!("{}b", self.name), state]));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> bool {
    Command::new("ip").args(words).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_partition_between_two_hosts_in_which_the_receiver_dies_is_outlived() {
    let Some(namespace) = Namespace::new() else {
        println!("this machine allows no network namespaces; the proxy's tests do the same on one host");
        return;
    };
    let homes = Homes::new("", "PASSTHRU");
    let receiver = || {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.name]).arg(env!("CARGO_BIN_EXE_drover"));
        command.args(["receiver", "--listen", &format!("{}:7820", namespace.address), "--silence", "3", "--home"]);
        command.arg(homes.home_there()).stdin(std::process::Stdio::null());
        Running::start(command)
    };
    let pump =
        format!("EXTRACT p1\nRMTHOST {}, PORT 7820, TIMEOUT 3\nRMTTRAIL ./dirdat/bb\nPASSTHRU\n", namespace.address);
    let stage = &homes.stage;
    stage.parameters("p1", &pump);
    let table = stage.home().join("tcperrs");
    let quick = std::fs::read_to_string(&table).expect("a table");
    std::fs::write(&table, quick + "EHOSTUNREACH RETRY 5 100000\nENETUNREACH RETRY 5 100000\n").expect("a table");
    let insert = |from: u32| {
        for id in from..from + 300 {
            stage.source().execute("INSERT INTO t VALUES (?1, 'x', ?1)", [id]).expect("an insert");
        }
    };
    let running = [stage.extract(), stage.start("extract", "p1"), homes.replicat()];
    let first = receiver();
    insert(0);
    homes.wait_until_equal(&["t"], &running.each_ref());
    namespace.plug(false);
    insert(1000);
    // Nobody tells the Pump that the receiver is dead: it finds out by the silence.
    first.kill();
    eventually("the Pump notices", || stage.event_log().contains("DRV-00780").then_some(()));
    running.iter().for_each(Running::assert_running);
    let second = receiver();
    insert(2000);
    namespace.plug(true);
    homes.wait_until_equal(&["t"], &running.each_ref());
    running.into_iter().for_each(|process| drop(process.stop()));
    drop(second);
    let told = drover().args(["-c", "INFO RMTTRAIL *", "--home"]).arg(stage.home()).output().expect("runs");
    assert!(String::from_utf8_lossy(&told.stdout).contains("Remote Trail: ./dirdat/bb"));
}
