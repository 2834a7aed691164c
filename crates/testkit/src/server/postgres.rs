//! A PostgreSQL cluster of our own, for tests that need a real server.
//!
//! A guard process holds a pipe to us and removes the cluster when the pipe closes, so nothing is left behind, whether the
//! test ends, panics or is killed.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How a cluster is to be.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Lines for `postgresql.conf`, after ours.
    pub settings: Vec<(String, String)>,
    /// The whole `pg_hba.conf`; everybody is trusted without it.
    pub authentication: Option<String>,
    /// Size of a WAL file in megabytes; 16 without it.
    pub segment_megabytes: Option<u32>,
    /// Files to place in the data directory, readable by the server only.
    pub files: Vec<(String, String)>,
}

/// A running cluster with `wal_level = logical` and fsync on, and a superuser called `postgres`.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    binaries: PathBuf,
    owner: Option<(u32, u32)>,
    port: u16,
    guard: Child,
}

/// Removes the cluster once standard input ends. Arguments: the folder and the folder of the server's programs.
const GUARD: &str = r#"
trap '' INT TERM HUP
read -r line
"$2/pg_ctl" -D "$1/data" -m immediate -w stop >/dev/null 2>&1
rm -rf "$1"
"#;

impl Cluster {
    /// Starts a cluster with `options`.
    ///
    /// # Panics
    /// When no server is installed or it does not start: a test can't go on then.
    pub fn start(options: &ClusterOptions) -> Cluster {
        let binaries = binaries().expect("PostgreSQL is installed");
        let folder = tempfile::Builder::new().prefix("drover-pg-").tempdir().expect("a folder").keep();
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group)).expect("the folder belongs to the server");
        }
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&folder).arg(&binaries).stdin(Stdio::piped()).process_group(0);
        become_owner(&mut guard, owner);
        let guard = guard.spawn().expect("the guard starts");
        let mut cluster = Cluster { folder, binaries, owner, port: 0, guard };
        let segment = format!("--wal-segsize={}", options.segment_megabytes.unwrap_or(16));
        cluster.run(
            "initdb",
            &[
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                &segment,
                "-N",
                "-D",
                &cluster.text("data"),
            ],
        );
        cluster.write_files(options);
        // The port is free now; somebody may take it before the server does.
        for attempt in 1.. {
            cluster.port = free_port();
            cluster.write_settings(options);
            match cluster.launch() {
                Ok(()) => break,
                Err(error) => assert!(attempt < 5, "the server does not start: {error}\n{}", cluster.log()),
            }
        }
        cluster
    }

    /// Starts a standby server of `primary` from a base backup, which follows it by streaming.
    ///
    /// # Panics
    /// When it does not start.
    pub fn standby(primary: &Cluster, options: &ClusterOptions) -> Cluster {
        let binaries = primary.binaries.clone();
        let folder = tempfile::Builder::new().prefix("drover-pg-").tempdir().expect("a folder").keep();
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group)).expect("the folder belongs to the server");
        }
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&folder).arg(&binaries).stdin(Stdio::piped()).process_group(0);
        become_owner(&mut guard, owner);
        let guard = guard.spawn().expect("the guard starts");
        let mut cluster = Cluster { folder, binaries, owner, port: 0, guard };
        let (host, port) = (primary.folder.display().to_string(), primary.port.to_string());
        let from = ["-h", &host, "-p", &port, "-U", "postgres", "-c", "fast", "-X", "stream", "-D"];
        cluster.run("pg_basebackup", &[&from[..], &[&cluster.text("data")]].concat());
        let mut options = options.clone();
        options.settings.push(("primary_conninfo".to_owned(), format!("host={host} port={port} user=postgres")));
        options.files.push(("standby.signal".to_owned(), String::new()));
        cluster.write_files(&options);
        cluster.port = free_port();
        cluster.write_settings(&options);
        cluster.launch().unwrap_or_else(|error| panic!("the standby does not start: {error}\n{}", cluster.log()));
        cluster
    }

    /// Ends the recovery of a standby server, which then is a server of its own on a new timeline.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.text("data"), "-w", "-s", "promote"]);
    }

    /// Copies the files of the server, which must be stopped.
    pub fn back_up(&self) {
        self.copy("data", "backup");
    }

    /// Puts the files back that [`back_up`](Cluster::back_up) copied. The server must be stopped.
    pub fn restore(&self) {
        fs::remove_dir_all(self.folder.join("data")).expect("the server's files can be removed");
        self.copy("backup", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let status = Command::new("cp").arg("-a").arg(self.folder.join(from)).arg(self.folder.join(to)).status();
        assert!(status.expect("cp starts").success(), "cp {from} {to}");
    }

    fn write_files(&self, options: &ClusterOptions) {
        let authentication = options.authentication.as_ref().map(|text| ("pg_hba.conf".to_owned(), text.clone()));
        for (name, text) in options.files.iter().cloned().chain(authentication) {
            let path = self.folder.join("data").join(name);
            fs::write(&path, text).expect("a file in the data directory");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its permissions");
            if let Some((user, group)) = self.owner {
                chown(&path, Some(user), Some(group)).expect("its owner");
            }
        }
    }

    fn write_settings(&self, options: &ClusterOptions) {
        let ours = [
            ("port", self.port.to_string()),
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("unix_socket_directories", self.folder.display().to_string()),
            ("wal_level", "logical".to_owned()),
            ("max_wal_senders", "20".to_owned()),
            ("max_replication_slots", "20".to_owned()),
            ("max_connections", "60".to_owned()),
            ("fsync", "on".to_owned()),
            ("shared_buffers", "64MB".to_owned()),
            ("max_wal_size", "1GB".to_owned()),
        ];
        let theirs = options.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let text: String =
            ours.into_iter().chain(theirs).map(|(name, value)| format!("{name} = '{value}'\n")).collect();
        self.write_files(&ClusterOptions {
            files: vec![("postgresql.auto.conf".to_owned(), text)],
            ..ClusterOptions::default()
        });
    }

    fn launch(&self) -> io::Result<()> {
        self.command("pg_ctl")
            .args(["-D", &self.text("data"), "-l", &self.text("log"), "-w", "-s", "start"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .and_then(|status| if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) })
    }

    /// Starts the server again after [`kill`](Cluster::kill) or [`stop`](Cluster::stop).
    pub fn start_again(&self) {
        // After a kill, the dead server's children may hold its shared memory for a moment.
        for attempt in 1.. {
            match self.launch() {
                Ok(()) => break,
                Err(error) => assert!(attempt < 20, "the server does not start: {error}\n{}", self.log()),
            }
        }
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&self) {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        let process = file.lines().next().expect("the file names the process").to_owned();
        self.run("pg_ctl", &["kill", "KILL", &process]);
    }

    /// Stops the server; `mode` is `smart`, `fast` or `immediate`.
    pub fn stop(&self, mode: &str) {
        self.run("pg_ctl", &["-D", &self.text("data"), "-m", mode, "-w", "-s", "stop"]);
    }

    /// The directory of the Unix socket.
    pub fn directory(&self) -> &Path {
        &self.folder
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of `database` for the superuser over the Unix socket.
    pub fn url(&self, database: &str) -> String {
        self.url_of("postgres", database)
    }

    /// URL of `database` for `user` over the Unix socket.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@:{}/{database}?host={}", self.port, self.folder.display())
    }

    /// Runs SQL in `database` by psql and returns what it prints, unaligned and without headers.
    ///
    /// # Panics
    /// When a statement fails.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        self.try_psql(database, sql).unwrap_or_else(|error| panic!("psql failed: {error}\n{sql}"))
    }

    /// Runs SQL in `database` by psql and returns what it prints.
    ///
    /// # Errors
    /// What psql prints of the statement that fails.
    pub fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = self
            .command("psql")
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
            .output()
            .expect("psql starts");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end().to_owned())
    }

    /// A program of the server's, ready for arguments, as the server's user.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.current_dir("/").env("PGOPTIONS", "").stdin(Stdio::null());
        become_owner(&mut command, self.owner);
        command
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program).args(arguments).output().expect("the program starts");
        assert!(
            output.status.success(),
            "{program} {arguments:?} failed: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
    }

    fn text(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The guard is done when the folder is gone.
        let _ = self.guard.wait();
    }
}

/// Folder of the newest installed server's programs, or the one in `DROVER_POSTGRES_BIN`.
fn binaries() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("DROVER_POSTGRES_BIN") {
        return Some(folder.into());
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        path.join("bin/initdb").exists().then(|| (version, path.join("bin")))
    });
    Some(versions.max()?.1)
}

/// User and group to run servers as: PostgreSQL refuses root.
fn owner() -> Option<(u32, u32)> {
    let root = fs::metadata("/proc/self").map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata)).ok()? == 0;
    if !root {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?.to_owned();
    let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

fn become_owner(command: &mut Command, owner: Option<(u32, u32)>) {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}
