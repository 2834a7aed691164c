//! What the tests need beyond the Rust toolchain, and how to get it.
//!
//! SQLite is compiled in; only its command-line shell, which the README's steps use, comes from outside. A database server
//! is needed once the crate that speaks to it is in the workspace.

use crate::program::{self, Outcome, command};
use std::path::Path;

/// A program that tests start.
struct Need {
    name: &'static str,
    /// The workspace crate whose tests need it.
    needed_by: &'static str,
    /// The program that shows that it is installed; `*` stands for one folder name.
    program: &'static str,
    /// Debian packages that bring it.
    packages: &'static [&'static str],
}

const NEEDS: &[Need] = &[
    Need { name: "sqlite3", needed_by: "drover", program: "/usr/bin/sqlite3", packages: &["sqlite3"] },
    Need {
        name: "PostgreSQL",
        needed_by: "db-postgres",
        program: "/usr/lib/postgresql/*/bin/initdb",
        packages: &["postgresql", "postgresql-client"],
    },
    Need { name: "MariaDB", needed_by: "db-mysql", program: "/usr/sbin/mariadbd", packages: &["mariadb-server"] },
];

/// Installs what is missing, or says what to install. Touches no network when nothing is missing.
pub fn provide() -> Outcome {
    let missing: Vec<&Need> =
        NEEDS.iter().filter(|need| is_in_workspace(need.needed_by) && !is_installed(need.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|need| need.name).collect::<Vec<_>>().join(" and ");
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    let install = ["apt-get", "install", "-y", "--no-install-recommends"];
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        let line = format!("{} {}", install.join(" "), packages.join(" "));
        return Err(format!("the tests need {names}, which is not installed; as root on Debian: {line}"));
    }
    println!("the tests need {names}");
    program::run(command("apt-get").arg("update").env("DEBIAN_FRONTEND", "noninteractive"))?;
    program::run(command(install[0]).args(&install[1..]).args(packages).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_in_workspace(name: &str) -> bool {
    program::root().join("crates").join(name).join("Cargo.toml").exists()
}

fn is_installed(program: &str) -> bool {
    match program.split_once("/*/") {
        None => Path::new(program).exists(),
        Some((folder, rest)) => std::fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join(rest).exists())),
    }
}

fn is_root() -> bool {
    program::output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
