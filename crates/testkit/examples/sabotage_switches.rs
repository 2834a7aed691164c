//! Prints the switches of [`testkit::sabotage`] as JSON, for `cargo x sabotage`.

fn main() {
    let entries = testkit::sabotage::SWITCHES
        .iter()
        .map(|switch| serde_json::json!({ "name": switch.name, "promise": switch.promise, "tests": switch.tests }));
    println!("{}", serde_json::Value::Array(entries.collect()));
}
