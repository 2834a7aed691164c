//! REGISTER EXTRACT and UNREGISTER EXTRACT: what they do to the server.

use super::stage::Stage;

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a text)";

impl Stage<'_> {
    fn login(&self) -> String {
        format!("DBLOGIN SOURCEDB '{}'", self.source.url())
    }

    /// Slots and publications of the source's database.
    fn installed(&self) -> String {
        self.source.run(
            "SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND plugin = 'pgoutput') \
             || ' ' || (SELECT count(*) FROM pg_publication)",
        )
    }
}

#[test]
fn a_registered_group_begins_with_its_addition_and_transactions_that_are_open_then_are_whole() {
    let stage = Stage::bare(TABLE);
    let said = stage.console(&format!("{}; REGISTER EXTRACT e1", stage.login()));
    assert!(said.contains("EXTRACT E1 registered.") && said.contains("drover_e1_"), "{said}");
    assert_eq!(stage.installed(), "1 1");
    let slot = stage.source.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()");
    // Between the two commands: not captured, by what BEGIN NOW says.
    stage.source.run("INSERT INTO t VALUES (1, 'before')");
    stage.target.run("INSERT INTO t VALUES (1, 'before')");
    stage.add_groups();
    assert_eq!(stage.installed(), "1 1");
    assert_eq!(
        stage.source.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"),
        slot,
        "the registration itself goes on"
    );
    stage.source.run("INSERT INTO t VALUES (2, 'after')");
    stage.replicate();
    stage.assert_equal();
    // The group has the registration now.
    let refused = stage.console_refuses(&format!("{}; REGISTER EXTRACT e1", stage.login()));
    assert!(refused.contains("E1 exists"), "{refused}");
    let refused = stage.console_refuses(&format!("{}; UNREGISTER EXTRACT e1", stage.login()));
    assert!(refused.contains("E1 exists") && refused.contains("DELETE EXTRACT E1"), "{refused}");
    stage.console(&format!("{}; DELETE EXTRACT e1", stage.login()));
    assert_eq!(stage.installed(), "0 0");
    let said = stage.console(&format!("{}; UNREGISTER EXTRACT e1", stage.login()));
    assert!(said.contains("is not registered"), "{said}");
}

#[test]
fn what_was_registered_is_taken_back_and_the_server_keeps_no_log() {
    let stage = Stage::bare(TABLE);
    stage.console(&format!("{}; REGISTER EXTRACT e1", stage.login()));
    let refused = stage.console_refuses(&format!("{}; REGISTER EXTRACT e1", stage.login()));
    assert!(refused.contains("registered already") && refused.contains("UNREGISTER EXTRACT E1"), "{refused}");
    let said = stage.console(&format!("{}; UNREGISTER EXTRACT e1", stage.login()));
    assert!(said.contains("EXTRACT E1 unregistered."), "{said}");
    assert_eq!(stage.installed(), "0 0");
    // And again from the beginning.
    stage.console(&format!("{}; REGISTER EXTRACT e1; UNREGISTER EXTRACT e1", stage.login()));
    assert_eq!(stage.installed(), "0 0");
}

#[test]
fn a_registration_of_another_home_is_not_taken() {
    let other = Stage::bare(TABLE);
    other.console(&format!("{}; REGISTER EXTRACT e1", other.login()));
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    let run = |arguments: &[&str]| {
        let output = crate::stage::drover().args(arguments).output().expect("the binary runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let path = home.display().to_string();
    assert!(run(&["init", &path]).0);
    for (command, words) in [
        ("REGISTER EXTRACT e1", "this home did not register it"),
        ("UNREGISTER EXTRACT e1", "this home did not register it"),
        ("ADD EXTRACT e1, TRANLOG, BEGIN NOW", "captures for EXTRACT E1 already"),
    ] {
        let (done, message) = run(&["--home", &path, "-c", &format!("{}; {command}", other.login())]);
        assert!(!done && message.contains(words), "{command}: {message}");
    }
    assert_eq!(other.installed(), "1 1");
    assert!(run(&["--home", &path, "-c", &format!("{}; UNREGISTER EXTRACT e1 !", other.login())]).0);
    assert_eq!(other.installed(), "0 0");
}
