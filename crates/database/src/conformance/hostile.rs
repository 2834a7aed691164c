//! Cases: names that meet careless quoting.

use super::expectation::assert_told;
use super::plan::{plan, transact};
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Choice, Stage};
use super::{Kind, Subject};
use change::{Operation, TableName};

/// Names that are legal, all different even where case does not count.
const NAMES: [&str; 14] = [
    "select",
    "Mixed Case",
    "a.b",
    "with\"quote",
    "with'apostrophe",
    "with`grave",
    "[bracket]",
    "x\"; DROP TABLE y; --",
    "x'); DELETE FROM y; --",
    "%s $1 ?1 :name @x {}",
    "漢字",
    "ключ",
    "back\\slash",
    "new\nline",
];

fn through_capture_and_apply(subject: &dyn Subject, names: &[TableName]) {
    let (source, target) = (Stage::new(subject), Stage::new(subject));
    // Each name is a table's, a key column's and a plain column's.
    let columns = |at: usize| {
        [(NAMES[at % NAMES.len()], Kind::Integer), (NAMES[(at + 1) % NAMES.len()], Kind::Text), ("plain", Kind::Text)]
    };
    let create = |stage: &Stage| {
        let create = |(at, name): (usize, &TableName)| {
            let definition = stage.definition(name.clone(), &columns(at), &[columns(at)[0].0]);
            stage.create(definition, &[vec![1]])
        };
        names.iter().enumerate().map(create).collect::<Vec<_>>()
    };
    let tables = create(&source);
    create(&target);
    let choice = Choice { required: names.to_vec(), ..Choice::everything() };
    let start = source.database.register_capture("E1", &choice).expect("registered");
    let row = |id, text| [Integer(id), Text(text), Null];
    let done: Vec<_> = tables
        .iter()
        .map(|table| {
            let operations = [
                source.insert(&row(1, "a")),
                source.insert(&row(2, "b")),
                source.update(&row(1, "a"), &row(1, "c")),
                source.update(&row(2, "b"), &row(3, "b")),
                source.delete(&row(1, "c")),
            ];
            operations.map(|operation| (table.name.clone(), operation)).to_vec()
        })
        .collect();
    done.iter().for_each(|transaction| source.instance.write(transaction));
    let told = source.told(&mut source.open_with("E1", &start, choice));
    assert_told(subject, &told, &done);

    let mut session = target.replicat("R1");
    for change in told.iter().flat_map(|transaction| &transaction.changes) {
        let plan = plan(&mut *session, &change.table);
        transact(&mut *session, &plan, std::slice::from_ref(&change.operation));
    }
    for table in &tables {
        target.assert_rows(table, &[&row(3, "b")]);
        let plan = plan(&mut *session, table);
        transact(&mut *session, &plan, &[Operation::truncate()]);
        target.assert_rows(table, &[]);
        assert_eq!(source.rows(table).len(), 1, "the source is another database");
    }
    source.database.unregister_capture("E1").expect("unregistered");
}

pub(super) fn hostile_table_and_column_names_work(subject: &dyn Subject) {
    let schema = Stage::new(subject).database.default_schema();
    let names: Vec<_> = NAMES.iter().map(|table| TableName::new(&schema, *table)).collect();
    through_capture_and_apply(subject, &names);
}

pub(super) fn hostile_schema_names_work(subject: &dyn Subject) {
    let names: Vec<_> = NAMES.iter().map(|schema| TableName::new(*schema, "item")).collect();
    through_capture_and_apply(subject, &names);
}

pub(super) fn names_that_differ_by_punctuation_are_different_tables(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables =
        ["a_b", "a b", "a.b", "a-b", "aXb", "a%b"].map(|name| stage.table(name, &[("id", Kind::Integer)], &["id"]));
    let choice = Choice::only(&[&tables[0], &tables[2]]);
    let start = stage.database.register_capture("E1", &choice).expect("registered");
    let done: Vec<_> = tables
        .iter()
        .enumerate()
        .map(|(place, table)| vec![(table.name.clone(), stage.insert(&[Integer(place as i64)]))])
        .collect();
    done.iter().for_each(|transaction| stage.instance.write(transaction));
    let told = stage.told(&mut stage.open_with("E1", &start, choice));
    assert_told(subject, &told, &[done[0].clone(), done[2].clone()]);
}
