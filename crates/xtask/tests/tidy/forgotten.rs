//! Files that nothing reads: modules that no parent declares, scripts that no test runs, scripts without their twin.

use crate::tree;

#[test]
fn every_rust_file_belongs_to_a_target() {
    let files = tree::rust_files();
    let mut complaints = Vec::new();
    for path in &files {
        let parts: Vec<&str> = path.split('/').collect();
        let [_, _, room, inside @ ..] = parts.as_slice() else { continue };
        let file = *inside.last().unwrap_or(room);
        let is_root = match *room {
            "build.rs" => true,
            "src" => inside == ["lib.rs"] || inside == ["main.rs"] || inside.first() == Some(&"bin"),
            // A test binary, an example or a benchmark: a folder with a main.rs, or a file of its own where cargo looks
            // for such files by itself.
            _ => file == "main.rs" || (inside.len() == 1 && !(*room == "tests" && names_its_tests(parts[1]))),
        };
        if !is_root && !is_declared(path, &files) {
            complaints.push(format!("{path}: no parent declares this module"));
        }
    }
    tree::expect_none(complaints);
}

/// Whether the crate's manifest lists its test binaries, so that other files beside them are modules.
fn names_its_tests(folder: &str) -> bool {
    tree::text(&format!("crates/{folder}/Cargo.toml")).contains("autotests = false")
}

/// Whether a parent file says `mod NAME;`, or any file includes this one by its path.
fn is_declared(path: &str, files: &[String]) -> bool {
    let stem = path.strip_suffix(".rs").expect("a Rust file");
    let module = stem.strip_suffix("/mod").unwrap_or(stem);
    let (folder, name) = module.rsplit_once('/').expect("a module lies in a folder");
    let is_beside_binaries = folder.ends_with("/tests") || folder.ends_with("/examples");
    let is_parent = |file: &&String| {
        let beside = file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        let is_door = |file: &str| ["mod.rs", "lib.rs", "main.rs"].contains(&file);
        // Any test binary or example may declare a module that lies beside it.
        beside.is_some_and(|file| is_door(file) || (is_beside_binaries && !file.contains('/')))
            || file.strip_suffix(".rs") == Some(folder)
    };
    let declaration = format!("mod {name};");
    let is_named = files.iter().filter(is_parent).any(|parent| {
        let text = tree::text(parent);
        text.lines().any(|line| {
            let before = line.trim_start().strip_suffix(&declaration);
            before.is_some_and(|before| before.is_empty() || before.ends_with(' '))
        })
    });
    let by_path = format!("{}\"]", path.strip_prefix("crates/").expect("a file of a crate"));
    is_named
        || files
            .iter()
            .any(|file| tree::text(file).lines().any(|line| line.starts_with("#[path") && line.ends_with(&by_path)))
}

#[test]
fn every_folder_of_test_scripts_and_fixtures_is_read_by_a_test() {
    let sources: Vec<(String, String)> =
        tree::rust_files().into_iter().map(|path| (tree::text(&path), path)).map(|(text, path)| (path, text)).collect();
    let mut complaints = Vec::new();
    for path in tree::files("crates") {
        let parts: Vec<&str> = path.split('/').collect();
        let Some(place) = parts.iter().position(|part| *part == "testscripts" || *part == "fixtures") else { continue };
        let own_crate = format!("{}/{}/", parts[0], parts[1]);
        // Runners walk the whole folder, so it is enough that one of the crate's sources names it.
        let is_read =
            sources.iter().any(|(source, text)| source.starts_with(&own_crate) && text.contains(parts[place]));
        if !is_read {
            complaints.push(format!("{path}: no test of its crate reads this folder"));
        }
    }
    tree::expect_none(complaints);
}
