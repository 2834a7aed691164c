//! Two homes that know each other's certificates, and a receiver in the second one.

use crate::stage::{Running, Stage, drover, eventually, rows};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Output;

pub const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE TABLE u (id INTEGER PRIMARY KEY, a)";

/// A home for Extract E1 and Pump P1, and one for the receiver and Replicat R1, in one folder with both databases.
pub struct Homes {
    pub stage: Stage,
    /// Where the receiver listens.
    pub port: u16,
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

impl Homes {
    /// `options` stand behind RMTHOST and its port, `rules` behind RMTTRAIL.
    pub fn new(options: &str, rules: &str) -> Homes {
        let homes = Homes::bare();
        homes.pump(homes.port, options, rules);
        homes.stage.console(
            "DBLOGIN SOURCEDB sqlite:../source.db
             ADD EXTRACT e1, TRANLOG, BEGIN NOW
             ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
             ADD EXTRACT p1, EXTTRAILSOURCE ./dirdat/aa
             ADD RMTTRAIL ./dirdat/bb, EXTRACT p1, MEGABYTES 1",
        );
        homes.there(
            "DBLOGIN SOURCEDB sqlite:../target.db
             ADD CHECKPOINTTABLE main.checkpoints
             ADD REPLICAT r1, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE main.checkpoints",
        );
        homes
    }

    /// Both homes without groups.
    pub fn bare() -> Homes {
        let stage = Stage::bare(TABLES);
        let homes = Homes { stage, port: free_port() };
        let made = drover().arg("init").arg(homes.home_there()).output().expect("the binary runs");
        assert!(made.status.success(), "{made:?}");
        homes.parameters_there("r1", crate::stage::REPLICAT);
        let (here, there) =
            (fingerprint(&homes.stage.console("ADD CERTIFICATE")), fingerprint(&homes.there("ADD CERTIFICATE")));
        homes.stage.console(&format!("ADD PEER target, FINGERPRINT {there}"));
        homes.there(&format!("ADD PEER shop, FINGERPRINT {here}"));
        // A test does not wait for ten seconds.
        let table = "ECONNREFUSED RETRY 5 100000\nECONNRESET RETRY 5 100000\nECONNABORTED RETRY 5 100000\nETIMEDOUT RETRY 5 100000\n\
                     EPIPE RETRY 5 100000\nENOTCONN RETRY 5 100000\n";
        std::fs::write(homes.stage.home().join("tcperrs"), table).expect("a retry table");
        homes
    }

    /// Writes the Pump's parameter file.
    pub fn pump(&self, port: u16, options: &str, rules: &str) {
        let text = format!("EXTRACT p1\nRMTHOST 127.0.0.1:{port}{options}\nRMTTRAIL ./dirdat/bb\n{rules}\n");
        self.stage.parameters("p1", &text);
    }

    pub fn home_there(&self) -> PathBuf {
        self.stage.path().join("there")
    }

    pub fn parameters_there(&self, group: &str, text: &str) {
        std::fs::write(self.home_there().join(format!("dirprm/{group}.prm")), text).expect("a parameter file");
    }

    /// Runs console commands in the second home, which must succeed.
    pub fn there(&self, commands: &str) -> String {
        let output = self.try_there(commands);
        assert!(output.status.success(), "{commands}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub fn try_there(&self, commands: &str) -> Output {
        drover().arg("--home").arg(self.home_there()).args(["-c", commands]).output().expect("the binary runs")
    }

    pub fn receiver(&self) -> Running {
        self.receiver_with(&[])
    }

    pub fn receiver_with(&self, options: &[&str]) -> Running {
        let mut command = drover();
        command
            .arg("receiver")
            .arg("--home")
            .arg(self.home_there())
            .args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        Running::start({
            command.args(options);
            command
        })
    }

    pub fn replicat(&self) -> Running {
        let mut command = drover();
        command.args(["replicat", "r1", "--home"]).arg(self.home_there());
        Running::start(command)
    }

    /// A text file of the second home.
    pub fn text_there(&self, name: &str) -> String {
        std::fs::read_to_string(self.home_there().join(name)).unwrap_or_default()
    }

    /// Files of a trail of the second home.
    pub fn files_there(&self, trail: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home_there().join("dirdat")).expect("dirdat");
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                name.len() == 11 && name.starts_with(trail)
            })
            .collect();
        files.sort();
        files
    }

    pub fn wait_until_equal(&self, tables: &[&str], running: &[&Running]) {
        let (source, target) = (self.stage.source(), self.stage.target());
        eventually("the target holds what the source holds", || {
            running.iter().for_each(|process| process.assert_running());
            tables.iter().all(|table| rows(&source, table) == rows(&target, table)).then_some(())
        });
    }
}

/// The fingerprint in what ADD CERTIFICATE prints.
pub fn fingerprint(text: &str) -> String {
    let is_one = |word: &&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_whitespace().find(is_one).unwrap_or_else(|| panic!("no fingerprint: {text}")).to_owned()
}
