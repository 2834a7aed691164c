//! The files of the repository, as the other checks read them.

use std::path::{Path, PathBuf};

/// The repository root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository root exists")
}

/// All files below `folder` (relative to the root), sorted, as paths relative to the root with `/`.
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), &root().join(folder), &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("a folder of the repository can be listed")) {
        let path = entry.path();
        let name = entry.file_name();
        let is_built = folder == root && (name == "target" || name == ".git");
        if path.is_dir() && !is_built {
            collect(root, &path, found);
        } else if path.is_file() {
            let relative = path.strip_prefix(root).expect("the file lies below the root");
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// All Rust files of the workspace's crates.
pub fn rust_files() -> Vec<String> {
    files("crates").into_iter().filter(|path| path.ends_with(".rs")).collect()
}

/// The text of a file; bytes that are not UTF-8 are replaced.
pub fn text(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap_or_else(|cause| panic!("could not read {path}: {cause}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text without the inline unit tests at its end, if there are any.
pub fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code)
}

/// Panics with all `complaints`, one a line.
pub fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
