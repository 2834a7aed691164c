//! Roles that may just do what they must, and passwords that nobody sees.

use super::stage::Stage;
use crate::stage::{Running, drover};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes a role in a cluster unless it is there.
fn role(stage: &Stage<'_>, name: &str, attributes: &str) {
    for side in [&stage.source, &stage.target] {
        side.run(&format!(
            "DO $$ BEGIN CREATE ROLE {name} {attributes}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        ));
    }
}

#[test]
fn roles_that_are_not_superusers_replicate_with_the_rights_of_the_guide() {
    let stage = Stage::bare(
        "CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)",
    );
    role(&stage, "owner_of_tables", "NOLOGIN");
    role(&stage, "capturing", "LOGIN REPLICATION");
    role(&stage, "applying", "LOGIN");
    let database = &stage.source.database;
    let tables = ["signal", "parent", "child"].map(|table| format!("public.{table}")).join(", ");
    for table in tables.split(", ") {
        stage.source.run(&format!("ALTER TABLE {table} OWNER TO owner_of_tables"));
    }
    let text = |group: &str, from: String, to: String| {
        stage.parameters(group, &stage.text(&format!("dirprm/{group}.prm")).replace(&from, &to))
    };
    text("e1", stage.source.url(), stage.source.url_of("capturing"));
    text("r1", stage.target.url(), stage.target.url_of("applying"));
    let (source, target) = (stage.source.url_of("capturing"), stage.target.url_of("applying"));
    let set_up = stage.set_up().replace(&stage.source.url(), &source).replace(&stage.target.url(), &target);

    // Each missing right is named, one after the other, and nothing half done is left.
    let message = stage.console_refuses(&set_up);
    assert!(message.contains("permission denied") || message.contains("must be owner"), "{message}");
    stage.source.run(&format!("GRANT CREATE ON DATABASE {database} TO capturing"));
    let message = stage.console_refuses(&set_up);
    assert!(message.contains("owner") && message.contains("next step"), "{message}");
    assert_eq!(stage.source.run("SELECT count(*) FROM pg_publication"), "0");
    stage.source.run("GRANT owner_of_tables TO capturing");
    let message = stage.console_refuses(&set_up);
    assert!(message.contains("ADD CHECKPOINTTABLE") && message.contains("permission denied"), "{message}");
    stage.target.run("CREATE SCHEMA drover AUTHORIZATION applying");
    let rest =
        set_up.lines().skip(3).collect::<Vec<_>>().join("\n").replace("public.checkpoints", "drover.checkpoints");
    stage.console(&rest);

    // Without the right to switch triggers off, a table with a foreign key is refused by name; others go on.
    stage.target.run(&format!("GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON {tables} TO applying"));
    stage.replicate();
    stage.source.run("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(message.contains("GRANT SET ON PARAMETER session_replication_role"), "{message}");
    stage.target.run("GRANT SET ON PARAMETER session_replication_role TO applying");
    let replicat = stage.replicat();
    stage.source.run("UPDATE child SET parent = NULL; TRUNCATE parent, child; INSERT INTO parent VALUES (2)");
    stage.wait_for_signal(&[&extract, &replicat]);
    replicat.stop();
    // With the right to use origins too.
    stage.target.run(
        "GRANT EXECUTE ON FUNCTION pg_replication_origin_create(text), pg_replication_origin_drop(text), \
         pg_replication_origin_session_setup(text) TO applying",
    );
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_eq!(stage.target.run("SELECT count(*) > 0 FROM pg_replication_origin"), "t");
    extract.stop();
    replicat.stop();
    stage.assert_equal();
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{source}'; DELETE EXTRACT e1 !; DBLOGIN SOURCEDB '{target}'; DELETE REPLICAT r1 !; \
         DELETE CHECKPOINTTABLE drover.checkpoints !"
    ));
    assert_eq!(stage.source.run("SELECT count(*) FROM pg_publication"), "0");
}

/// The password that breaks naive quoting, plain and as a URL wants it.
const PASSWORD: &str = "p@s:s/w%o#r?d&\"'\\";
const ENCODED: &str = "p%40s%3As%2Fw%25o%23r%3Fd%26%22%27%5C";

/// Where the password could come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Url,
    Environment,
    File,
}

/// Asserts that no file below `folder`, but for those that the operator wrote it into, holds the password in any form.
fn assert_unseen(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            assert_unseen(&path);
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "prm" || extension == "pgpass") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        for secret in [PASSWORD, ENCODED, "s/w%o", "s%2Fw%25o"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds the password", path.display());
        }
    }
}

#[test]
fn a_password_of_odd_characters_works_from_every_place_and_is_seen_nowhere() {
    for from in [From::Url, From::Environment, From::File] {
        let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY)");
        role(&stage, "secretive", "SUPERUSER LOGIN");
        for side in [&stage.source, &stage.target] {
            side.run(&format!("ALTER ROLE secretive PASSWORD '{}'", PASSWORD.replace('\'', "''")));
        }
        // Over TCP, as it would be.
        let url = |port: u16, login: &str| format!("postgres://{login}@127.0.0.1:{port}/{}", stage.source.database);
        let login = if from == From::Url { format!("secretive:{ENCODED}") } else { "secretive".to_owned() };
        let (source, target) = (url(stage.source.cluster.port(), &login), url(stage.target.cluster.port(), &login));
        let file = stage.path().join("secret.pgpass");
        std::fs::write(
            &file,
            format!("127.0.0.1:*:*:secretive:{}\n", PASSWORD.replace('\\', "\\\\").replace(':', "\\:")),
        )
        .expect("a file");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
        let with = |password: &str| {
            let mut command = drover();
            command.env_remove("PGPASSWORD").env_remove("PGPASSFILE").env("HOME", stage.path());
            match from {
                From::Url => {}
                From::Environment => drop(command.env("PGPASSWORD", password)),
                From::File => drop(command.env("PGPASSFILE", &file)),
            }
            command.arg("--home").arg(stage.home());
            command
        };
        let parameters = |group: &str, before: &str, after: &str| {
            let text = stage.text(&format!("dirprm/{group}.prm"));
            stage.parameters(group, &text.replace(before, after));
        };
        parameters("e1", &stage.source.url(), &source);
        parameters("r1", &stage.target.url(), &target);

        // Commands by standard input: what stands on a command line, everybody can read.
        let commands = stage.set_up().replace(&stage.source.url(), &source).replace(&stage.target.url(), &target);
        let mut console =
            with(PASSWORD).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("drover");
        console.stdin.take().expect("a pipe").write_all(commands.as_bytes()).expect("it reads");
        let output = console.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{from:?}: {output:?}");

        let start = |part: &str, group: &str| {
            let mut command = with(PASSWORD);
            command.args([part, group]);
            Running::start(command)
        };
        let (extract, replicat) = (start("extract", "e1"), start("replicat", "r1"));
        stage.source.run("INSERT INTO t VALUES (1), (2)");
        stage.wait_for_signal(&[&extract, &replicat]);
        for group in [&extract, &replicat] {
            let line = std::fs::read(format!("/proc/{}/cmdline", group.id())).expect("its command line");
            assert!(!String::from_utf8_lossy(&line).contains("s/w"), "{from:?}");
        }
        stage.assert_equal();

        // A password that is wrong meanwhile: the refusal shows neither.
        for side in [&stage.source, &stage.target] {
            side.run("ALTER ROLE secretive PASSWORD 'changed'");
        }
        extract.stop();
        replicat.stop();
        for (part, group) in [("extract", "e1"), ("replicat", "r1")] {
            let message = start(part, group).fails();
            assert!(message.contains("secretive") && message.contains("next step"), "{message}");
            assert!(
                !message.contains("s/w") && !message.contains("s%2Fw") && !message.contains("changed"),
                "{message}"
            );
        }
        let console = with(PASSWORD).args(["-c", "INFO ALL; INFO EXTRACT e1"]).output().expect("drover");
        assert!(console.status.success() && !String::from_utf8_lossy(&console.stdout).contains("s%2Fw"));
        assert_unseen(&stage.path());
    }
}

#[test]
fn a_crash_leaves_no_memory_behind_that_holds_a_password() {
    let stage = Stage::new("");
    // As an operator would start it who wants core files.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -c unlimited; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_drover"),
        "extract",
        "e1",
        "--home",
    ]);
    command.arg(stage.home()).current_dir(stage.path()).stdin(Stdio::null());
    let extract = Running::start(command);
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.signal(rustix::process::Signal::ABORT);
    let ended = extract.wait();
    assert_eq!(ended.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{ended:?}");
    assert!(!ended.status.core_dumped());
    replicat.stop();
}
