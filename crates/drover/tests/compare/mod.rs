//! `drover compare` is the oracle of other tests, so it is held against plain SQL here.

mod command;
mod postgres;
mod products;
mod repair;
mod sqlite;

use database::compare::{ComparedTable, ComparisonSide};
use serde_json::Value;
use std::process::{Command, Output};

/// Runs `drover compare` with `arguments`.
fn drover_compare(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover")).arg("compare").args(arguments).output().expect("drover starts")
}

/// What `drover compare --json` says, with the exit status.
fn comparison(arguments: &[&str]) -> (Value, i32) {
    let output = drover_compare(&[arguments, &["--json"]].concat());
    let status = output.status.code().expect("an exit status");
    assert!(status < 2, "no verdict: {}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).expect("one JSON object"), status)
}

/// How many rows a side sees in each of its tables.
fn rows_seen(side: &mut dyn ComparisonSide) -> Vec<u64> {
    let tables = side.tables().expect("tables");
    let rows = |definition: &change::TableDefinition| {
        let columns = definition.columns.iter().map(|column| column.name.clone()).collect();
        let table = ComparedTable { name: definition.name.clone(), columns, key: None, forms: Vec::new() };
        side.summarize(&table, 4).expect("a summary").iter().map(|bucket| bucket.rows).sum()
    };
    tables.iter().map(rows).collect()
}
