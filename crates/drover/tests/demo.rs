//! `drover demo`.

use crate::stage::drover;

#[test]
fn the_demo_ends_equal_and_its_json_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = drover()
        .args(["demo", "--rows", "20000", "--json"])
        .env("TMPDIR", folder.path())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(summary["equal"], true, "{summary}");
    assert!(summary["changes"].as_u64() >= Some(20_000), "{summary}");
    for process in ["extract", "replicat", "writers"] {
        assert!(summary["restarts"][process].as_u64() >= Some(2), "{summary}");
    }
    for table in summary["tables"].as_array().expect("tables") {
        assert!(table["source_rows"].as_u64() > Some(0) && table["only_in_target"] == 0, "{summary}");
    }
    assert!(summary["lag"]["p99_ms"].as_f64() >= summary["lag"]["p50_ms"].as_f64(), "{summary}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left behind");
}

#[test]
fn the_demo_keeps_its_files_when_asked_and_what_it_suggests_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = drover()
        .args(["demo", "--rows", "5000", "--keep"])
        .env("TMPDIR", folder.path())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("EQUAL"), "{text}");
    let suggestions: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("drover ")).collect();
    assert!(suggestions.len() >= 2, "{text}");
    for suggestion in suggestions.iter().take(2) {
        let command = suggestion.replacen("drover", env!("CARGO_BIN_EXE_drover"), 1);
        let output = std::process::Command::new("sh").args(["-c", &command]).output().expect("a shell");
        assert!(output.status.success() && !output.stdout.is_empty(), "{suggestion}: {output:?}");
    }
}

#[test]
fn the_demo_stops_on_a_signal_and_takes_its_children_and_its_folder_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = drover();
    command.args(["demo", "--rows", "100000000", "--json"]).env("TMPDIR", folder.path());
    let demo = crate::stage::Running::start(command);
    crate::stage::eventually("the demo has started its groups", || {
        demo.assert_running();
        (!children(demo.id()).is_empty() && writing(folder.path())).then_some(())
    });
    let processes = children(demo.id());
    demo.signal(rustix::process::Signal::INT);
    let ended = demo.wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for process in processes {
        crate::stage::eventually("the children have ended", || (!is_alive(process)).then_some(()));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left behind");
}

#[test]
fn the_demos_children_end_when_the_demo_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = drover();
    command.args(["demo", "--rows", "100000000", "--json"]).env("TMPDIR", folder.path());
    let demo = crate::stage::Running::start(command);
    crate::stage::eventually("the demo has started its groups", || {
        demo.assert_running();
        (children(demo.id()).len() >= 5 && writing(folder.path())).then_some(())
    });
    let processes = children(demo.id());
    demo.kill();
    for process in processes {
        crate::stage::eventually("the children have ended", || (!is_alive(process)).then_some(()));
    }
}

/// Whether a trail has been begun below `folder`.
fn writing(folder: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.path().join("home/dirdat/aa000000000").exists())
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn is_alive(process: u32) -> bool {
    // A zombie that nobody waits for is as dead as one that is gone.
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
