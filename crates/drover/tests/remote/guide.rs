//! The guide to distribution, run as it is written.

use super::homes::free_port;

#[test]
fn the_steps_of_the_guide_to_distribution_work_as_written() {
    let guide = include_str!("../../../../docs/guides/distribution.md");
    let (_, example) = guide.split_once("\n## A complete example\n").expect("it has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    // The port alone may be taken on the machine that runs this.
    crate::readme::run(&example.replace("7820", &free_port().to_string()));
}

#[test]
fn the_retry_table_that_the_guide_shows_is_the_one_that_holds() {
    let guide = include_str!("../../../../docs/guides/distribution.md");
    assert!(guide.contains(distribution::TABLE_DEFAULT));
}
