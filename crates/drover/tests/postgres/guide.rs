//! The guide's example, run as it is written.

use super::stage::{Cluster, ClusterOptions};
use std::path::Path;

#[test]
fn the_steps_of_the_guide_work_as_written_on_two_fresh_servers() {
    run("A complete example");
}

#[test]
fn the_guides_statements_are_carried_as_written() {
    run("Statements (DDL)");
}

fn run(part: &str) {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/postgresql.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once(&format!("\n## {part}\n")).expect("the guide has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    // The roles of the guide need their passwords.
    let authentication =
        "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let options = ClusterOptions { authentication: Some(authentication.to_owned()), ..ClusterOptions::default() };
    let (source, target) = (Cluster::start(&options), Cluster::start(&options));
    let mut example = example.to_owned();
    for (name, cluster) in [("db1.example:5432", &source), ("db2.example:5432", &target)] {
        assert!(example.contains(name));
        example = example.replace(name, &format!("127.0.0.1:{}", cluster.port()));
    }
    crate::readme::run(&example);
}

#[test]
fn the_steps_of_the_two_way_guide_work_as_written() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/two-way.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once("\n## A complete example\n").expect("the guide has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    let (east, west) = (Cluster::start(&ClusterOptions::default()), Cluster::start(&ClusterOptions::default()));
    let address = |cluster: &Cluster| format!("127.0.0.1:{}", cluster.port());
    let example = example
        .replace("for server in db1 db2; do", &format!("for server in {} {}; do", address(&east), address(&west)));
    let example = example.replace("$server.example:5432", "$server");
    let example = example.replace("db1.example:5432", &address(&east)).replace("db2.example:5432", &address(&west));
    crate::readme::run(&example);
}
