//! The allowed arrows between crates, over `cargo metadata`.

use crate::tree;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// A crate, and the crates of the workspace that it may depend on.
///
/// A new row or a new name in a row is a decision: it comes with a page in docs/decisions.
const ALLOWED: &[(&str, &[&str])] = &[
    ("change", &[]),
    ("trail", &["change"]),
    ("parameter", &["change"]),
    ("database", &["change"]),
    ("db-sqlite", &["change", "database"]),
    ("db-postgres", &["change", "database"]),
    ("process", &["change", "trail"]),
    ("capture", &["change", "trail", "parameter", "database", "process"]),
    ("apply", &["change", "trail", "parameter", "database", "process"]),
    ("reconcile", &["change", "parameter", "database", "process"]),
    ("distribution", &["change", "trail", "parameter", "process"]),
    ("inspect", &["change", "trail", "parameter"]),
    (
        "drover",
        &[
            "change",
            "trail",
            "parameter",
            "database",
            "db-sqlite",
            "db-postgres",
            "process",
            "capture",
            "apply",
            "distribution",
            "inspect",
            "reconcile",
        ],
    ),
    ("testkit", &["change", "trail", "parameter", "database", "process", "inspect", "capture", "apply"]),
    ("xtask", &[]),
];

/// Crates that speak to a database product; only `db-*` may depend on them.
const DRIVERS: &[&str] = &[
    "rusqlite",
    "libsqlite3-sys",
    "postgres",
    "postgres-protocol",
    "postgres-types",
    "tokio-postgres",
    "mysql",
    "mysql_async",
    "mysql_common",
];

/// The demo plays the application: its workload and its comparison must be plain SQL that passes none of our own code.
const PLAYS_THE_APPLICATION: (&str, &str) = ("drover", "crates/drover/src/demo/");

/// Crates without a socket, where an async runtime has no business.
const BLOCKING: &[&str] =
    &["change", "trail", "parameter", "database", "db-sqlite", "process", "capture", "apply", "inspect"];

struct Package {
    dependencies: Vec<(String, bool)>,
}

/// The workspace's crates with their direct dependencies; the flag marks those of tests and examples only.
fn packages() -> BTreeMap<String, Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(tree::root())
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let name = |value: &Value| value["name"].as_str().expect("it has a name").to_owned();
    let dependencies = |package: &Value| {
        let list = package["dependencies"].as_array().expect("a package lists its dependencies");
        list.iter().map(|dependency| (name(dependency), dependency["kind"] == "dev")).collect()
    };
    let list = metadata["packages"].as_array().expect("the metadata lists packages");
    list.iter().map(|package| (name(package), Package { dependencies: dependencies(package) })).collect()
}

#[test]
fn crates_depend_only_along_the_allowed_arrows() {
    let packages = packages();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut complaints = Vec::new();
    for (name, package) in &packages {
        let Some(allowed) = allowed.get(name.as_str()) else {
            complaints.push(format!("{name}: a crate without a row in the table of arrows"));
            continue;
        };
        for (dependency, for_tests) in &package.dependencies {
            // Any crate's tests may use the simulated world.
            let is_allowed = allowed.contains(&dependency.as_str()) || (*for_tests && dependency == "testkit");
            if packages.contains_key(dependency) && !is_allowed {
                complaints.push(format!("{name} -> {dependency} is not an allowed arrow"));
            }
        }
    }
    complaints.extend(
        allowed
            .keys()
            .filter(|name| !packages.contains_key(**name))
            .map(|name| format!("{name}: a row without its crate")),
    );
    tree::expect_none(complaints);
}

#[test]
fn only_database_plugs_depend_on_drivers() {
    let mut complaints = Vec::new();
    for (name, package) in packages().iter().filter(|(name, _)| !name.starts_with("db-")) {
        for (dependency, for_tests) in &package.dependencies {
            // Tests may look into a database by plain SQL: an oracle must not go through our own code.
            if DRIVERS.contains(&dependency.as_str()) && !for_tests && name != PLAYS_THE_APPLICATION.0 {
                complaints.push(format!("{name} depends on the driver {dependency}"));
            }
        }
    }
    tree::expect_none(complaints);
}

#[test]
fn only_database_plugs_name_drivers_in_their_code() {
    let mut complaints = Vec::new();
    for path in tree::rust_files() {
        let is_code = path.split('/').nth(2) == Some("src");
        if !is_code || path.starts_with("crates/db-") || path.starts_with(PLAYS_THE_APPLICATION.1) {
            continue;
        }
        let text = tree::text(&path);
        let code = tree::without_tests(&text);
        for driver in DRIVERS.iter().map(|driver| format!("{}::", driver.replace('-', "_"))) {
            // A whole word: `db_mysql::` is a plug, `mysql::` the driver.
            let is_named = code.match_indices(&driver).any(|(place, _)| {
                !code[..place].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':')
            });
            if is_named {
                complaints.push(format!("{path} names {driver}"));
            }
        }
    }
    tree::expect_none(complaints);
}

#[test]
fn crates_without_sockets_have_no_async_runtime() {
    let packages = packages();
    let complaints = BLOCKING
        .iter()
        .filter_map(|name| Some((name, packages.get(*name)?)))
        .filter(|(_, package)| package.dependencies.iter().any(|(dependency, _)| dependency.starts_with("tokio")))
        .map(|(name, _)| format!("{name} depends on tokio"))
        .collect();
    tree::expect_none(complaints);
}

#[test]
fn every_dependency_is_used() {
    let mut complaints = Vec::new();
    let mut declared_somewhere = String::new();
    for (name, package) in packages() {
        let files = tree::files(&format!("crates/{name}"));
        let code = |folders: &[&str]| -> String {
            let is_code =
                |path: &&String| path.ends_with(".rs") && folders.contains(&path.split('/').nth(2).unwrap_or_default());
            files.iter().filter(is_code).map(|path| tree::text(path)).collect()
        };
        let (own, all) = (code(&["src"]), code(&["src", "tests", "examples"]));
        for (dependency, for_tests) in package.dependencies {
            let word = dependency.replace('-', "_");
            let text = if for_tests { &all } else { &own };
            if !text.split(|character: char| !character.is_alphanumeric() && character != '_').any(|each| each == word)
            {
                complaints.push(format!("{name} does not use its dependency {dependency}"));
            }
            declared_somewhere += &format!(" {dependency} ");
        }
    }
    let workspace = tree::text("Cargo.toml");
    let (_, dependencies) =
        workspace.split_once("[workspace.dependencies]\n").expect("the workspace lists dependencies");
    let (dependencies, _) = dependencies.split_once("\n[").expect("another part follows");
    for dependency in dependencies.lines().filter_map(|line| Some(line.split_once(" = ")?.0)) {
        if !declared_somewhere.contains(&format!(" {dependency} ")) {
            complaints.push(format!("no crate depends on {dependency}, which the workspace lists"));
        }
    }
    tree::expect_none(complaints);
}
