//! Rows that are longer than a trail takes.

mod world;

use change::{Operation, Row, Value};
use std::sync::Arc;
use trail::storage::Directory;
use trail::{Error, Writer};
use world::{change, commit, options, table};

const LARGEST: usize = 400 * 1024 * 1024;

#[test]
fn more_than_400_megabytes_are_refused_by_table_and_key_columns_without_values() {
    let folder = tempfile::tempdir().expect("a directory");
    let storage = Directory::new(folder.path());
    let mut big = (*table("big", 3)).clone();
    let columns = Arc::make_mut(&mut big.columns);
    columns[2] = columns[2].clone().with_key(1);
    columns[0].name = "number".to_owned();
    columns[2].name = "line".to_owned();
    let big = Arc::new(big);
    let value = vec![0; LARGEST];
    let new = Row::from_values([Value::Bytes(b"secret"), Value::Bytes(&value), Value::Bytes(b"secret")]);
    let mut writer = Writer::open(Arc::new(storage), options(1 << 20)).expect("opens");
    writer.begin(&commit(1)).expect("begins");
    let error = writer.append(&change(&big, 1, Operation::Insert { new })).expect_err("is too long");
    let text = error.to_string();
    assert!(matches!(error, Error::Refused { .. }), "{text}");
    for told in ["main.big", "key number, line", "419430412 bytes", "419430400 of them in c1", "at most 419430400"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}
