//! Two PostgreSQL clusters of the benchmark's own, durable as in production.

use crate::program::{self, Outcome};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Settings that are not the server's own choice: both sides of every comparison run under them. fsync, full page writes
/// and synchronous commit stay on, as they are by default.
const SETTINGS: &str = "\
wal_level = logical
max_wal_senders = 20
max_replication_slots = 80
max_connections = 60
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 60min
autovacuum = off
jit = off
# A subscription that was enabled starts at once, not up to five seconds later.
wal_retrieve_retry_interval = 100ms
max_worker_processes = 20
";

/// Removes the folder and stops its servers once standard input ends, whatever became of us.
const GUARD: &str = r#"
trap '' INT TERM HUP
read -r line
for data in "$1"/*/PG_VERSION; do "$2/pg_ctl" -D "$(dirname "$data")" -m immediate -w stop >/dev/null 2>&1; done
rm -rf "$1" 2>/dev/null
"#;

/// The folder of everything, which goes away with it.
pub struct Folder {
    path: PathBuf,
    binaries: PathBuf,
    owner: Option<(u32, u32)>,
    guard: Child,
    /// Whether servers load pglogical.
    has_pglogical: bool,
}

impl Folder {
    /// Makes an empty folder that the servers' user owns, on the disk of the system's folder for temporary files or of `TMPDIR`.
    pub fn create() -> Result<Folder, String> {
        let binaries = binaries().ok_or("PostgreSQL is not installed: on Debian, apt-get install postgresql")?;
        Folder::create_for(binaries, false)
    }

    /// The same for servers that load pglogical; `None` where it is not installed: Debian's package postgresql-15-pglogical, for
    /// version 15.
    pub fn create_with_pglogical() -> Result<Option<Folder>, String> {
        let Some(binaries) = binaries() else { return Ok(None) };
        let library = binaries.parent().map(|version| version.join("lib/pglogical.so"));
        let is_there = library.is_some_and(|library| library.exists());
        is_there.then(|| Folder::create_for(binaries, true)).transpose()
    }

    fn create_for(binaries: PathBuf, has_pglogical: bool) -> Result<Folder, String> {
        let owner = owner();
        let kind = if has_pglogical { "-pglogical" } else { "" };
        let path = std::env::temp_dir().join(format!("drover-bench-{}{kind}", std::process::id()));
        let refuse = |cause| format!("could not make {}: {cause}", path.display());
        fs::create_dir(&path).map_err(refuse)?;
        give(&path, owner)?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&path).arg(&binaries).stdin(Stdio::piped()).process_group(0);
        become_owner(&mut guard, owner);
        let guard = guard.spawn().map_err(|cause| format!("could not start sh: {cause}"))?;
        Ok(Folder { path, binaries, owner, guard, has_pglogical })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command.current_dir(&self.path).env("PGOPTIONS", "").stdin(Stdio::null());
        become_owner(&mut command, self.owner);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        // What other users than the servers' own put there.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A running server.
pub struct Cluster<'f> {
    folder: &'f Folder,
    port: u16,
    postmaster: u32,
}

impl<'f> Cluster<'f> {
    /// Initializes and starts a server called `name`.
    pub fn start(folder: &'f Folder, name: &str) -> Result<Cluster<'f>, String> {
        let data = folder.path.join(name);
        let initdb = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"];
        program::output(folder.command("initdb").args(initdb).arg(&data))?;
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = port.map_err(|cause| format!("there is no free port: {cause}"))?.port();
        let place =
            format!("port = {port}\nlisten_addresses = ''\nunix_socket_directories = '{}'\n", folder.path.display());
        let configuration = data.join("postgresql.auto.conf");
        let load = if folder.has_pglogical { "shared_preload_libraries = 'pglogical'\n" } else { "" };
        fs::write(&configuration, SETTINGS.to_owned() + load + &place)
            .map_err(|cause| format!("could not write {}: {cause}", configuration.display()))?;
        let log = folder.path.join(format!("{name}.log"));
        let mut start = folder.command("pg_ctl");
        // Its standard output would stay open as long as the server runs.
        start.arg("-D").arg(&data).arg("-l").arg(log).args(["-w", "-s", "start"]).stdout(Stdio::null());
        let status = start.status().map_err(|cause| format!("could not start pg_ctl: {cause}"))?;
        if !status.success() {
            return Err(format!("server {name} does not start"));
        }
        let file = data.join("postmaster.pid");
        let text = fs::read_to_string(&file).map_err(|cause| format!("could not read {}: {cause}", file.display()))?;
        let postmaster = text.lines().next().and_then(|line| line.trim().parse().ok());
        Ok(Cluster { folder, port, postmaster: postmaster.ok_or("postmaster.pid names no process")? })
    }

    /// Drops a database, whoever is connected.
    pub fn drop_database(&self, database: &str) -> Outcome {
        if !self.has_pglogical() {
            return self.run("postgres", &format!("DROP DATABASE {database} WITH (FORCE)")).map(drop);
        }
        // Dropping waits for every process to look up, which the supervisor of pglogical 2.4 never does under version 15. So the
        // database goes away with the server.
        let sql = format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}';
             SELECT 'ALTER DATABASE {database} RENAME TO gone_' || oid FROM pg_database \
             WHERE datname = '{database}' \\gexec"
        );
        let mut psql = self.client("psql", "postgres");
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = psql.spawn().map_err(|cause| format!("could not start psql: {cause}"))?;
        let mut input = child.stdin.take().ok_or("psql has no input")?;
        input.write_all(sql.as_bytes()).map_err(|cause| format!("psql does not listen: {cause}"))?;
        drop(input);
        match child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("could not put database {database} away")),
        }
    }

    /// Whether pglogical is there to be compared with.
    pub fn has_pglogical(&self) -> bool {
        self.folder.has_pglogical
    }

    /// A client program, ready for further arguments.
    pub fn client(&self, program: &str, database: &str) -> Command {
        let mut command = self.folder.command(program);
        command.arg("-h").arg(&self.folder.path).args(["-p", &self.port.to_string(), "-U", "postgres"]);
        command.env("PGDATABASE", database);
        command
    }

    /// A psql that runs `sql`.
    pub fn psql(&self, database: &str, sql: &str) -> Command {
        let mut psql = self.client("psql", database);
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        psql
    }

    /// Runs SQL and returns what it prints.
    pub fn run(&self, database: &str, sql: &str) -> Result<String, String> {
        Ok(program::output(&mut self.psql(database, sql))?.trim_end().to_owned())
    }

    /// Runs statements one by one, each in a transaction of its own.
    pub fn run_each(&self, database: &str, statements: &[&str]) -> Outcome {
        statements.iter().try_for_each(|statement| self.run(database, statement).map(drop))
    }

    /// Where a subscription finds this server.
    pub fn connection(&self, database: &str) -> String {
        format!("host={} port={} user=postgres dbname={database}", self.folder.path.display(), self.port)
    }

    /// Where Drover finds this server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@:{}/{database}?host={}", self.port, self.folder.path.display())
    }

    /// The server's processes with their titles.
    pub fn processes(&self) -> HashMap<u32, String> {
        let path = format!("/proc/{0}/task/{0}/children", self.postmaster);
        let children = fs::read_to_string(path).unwrap_or_default();
        let title = |process: u32| {
            let title = fs::read(format!("/proc/{process}/cmdline")).ok()?;
            Some((process, String::from_utf8_lossy(&title).replace('\0', " ")))
        };
        children.split_whitespace().filter_map(|process| title(process.parse().ok()?)).collect()
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
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?.to_owned();
    let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

fn give(path: &Path, owner: Option<(u32, u32)>) -> Outcome {
    match owner {
        None => Ok(()),
        Some((user, group)) => chown(path, Some(user), Some(group))
            .map_err(|cause| format!("could not give {} to the servers' user: {cause}", path.display())),
    }
}

fn become_owner(command: &mut Command, owner: Option<(u32, u32)>) {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
}
