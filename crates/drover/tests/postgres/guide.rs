//! The guide's example, run as it is written.

use super::stage::{Cluster, ClusterOptions};
use std::path::Path;

#[test]
fn the_steps_of_the_guide_work_as_written_on_two_fresh_servers() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/postgresql.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once("\n## A complete example\n").expect("the guide has an example");
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
