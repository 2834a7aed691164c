//! The whole comparison over the in-memory engine, against counting by hand.

use change::{Column, LogicalType, Row, TableDefinition, TableName, Value};
use database::memory::{MemoryDatabase, MemoryOptions};
use reconcile::{
    CompareOptions, Comparison, Error, RowVerdict, Selection, SelectionRequest, TableComparison, TableVerdict, compare,
};
use std::collections::BTreeMap;

type Rows = Vec<(u32, u32)>;

fn database(name: &str, tables: &[(&str, bool, Rows)]) -> MemoryDatabase {
    let database = MemoryDatabase::new(MemoryOptions::new(name));
    for (table, keyed, rows) in tables {
        let mut id = Column::new("id", LogicalType::Integer, "integer");
        id.key = keyed.then_some(0);
        let columns = vec![id, Column::new("value", LogicalType::Integer, "integer")];
        let name = TableName::new("main", *table);
        database
            .create_table(TableDefinition { name: name.clone(), columns: columns.into() }, &[])
            .expect("a new table");
        let fill = |transaction: &mut database::memory::MemoryTransaction| {
            rows.iter().try_for_each(|(id, value)| {
                let (id, value) = (id.to_string(), value.to_string());
                let row = Row::from_values([Value::Bytes(id.as_bytes()), Value::Bytes(value.as_bytes())]);
                transaction.insert(&name, row)
            })
        };
        database.write(fill).expect("rows");
    }
    database
}

fn compared(source: &MemoryDatabase, target: &MemoryDatabase, rows_named_max: usize) -> Result<Comparison, Error> {
    let selection = Selection::parse(&SelectionRequest::default()).expect("a selection");
    let mut told = Vec::new();
    let mut source = source.open_comparison().expect("a side");
    let mut target = target.open_comparison().expect("a side");
    let options = CompareOptions { selection, rows_named_max, repair: false };
    let comparison = compare(&mut *source, &mut *target, &options, &mut |table| told.push(table.clone()))?;
    assert_eq!(told, comparison.tables);
    Ok(comparison)
}

fn table(comparison: &Comparison) -> &TableComparison {
    assert_eq!(comparison.tables.len(), 1);
    &comparison.tables[0]
}

#[test]
fn equal_databases_are_equal_and_counted() {
    let rows: Rows = (0..5000).map(|id| (id, id * 7)).collect();
    let tables = [("keyed", true, rows.clone()), ("bag", false, rows), ("empty", true, Vec::new())];
    let comparison = compared(&database("a", &tables), &database("b", &tables), 10).expect("a verdict");
    assert!(comparison.equal);
    let counts: Vec<_> = comparison.tables.iter().map(|table| (table.target.as_str(), table.source_rows)).collect();
    assert_eq!(counts, [("main.bag", Some(5000)), ("main.empty", Some(0)), ("main.keyed", Some(5000))]);
}

#[test]
fn tables_of_one_side_are_differences() {
    let source = database("a", &[("both", true, vec![]), ("gone", true, vec![(1, 1)])]);
    let target = database("b", &[("both", true, vec![]), ("new", true, vec![])]);
    let comparison = compared(&source, &target, 10).expect("a verdict");
    assert!(!comparison.equal);
    let verdicts: Vec<_> = comparison.tables.iter().map(|table| (table.target.as_str(), table.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            ("main.both", TableVerdict::Equal),
            ("main.gone", TableVerdict::MissingAtTarget),
            ("main.new", TableVerdict::ExtraAtTarget)
        ]
    );
}

#[test]
fn a_column_that_one_side_lacks_is_a_difference_and_the_others_are_compared() {
    let source = database("a", &[("t", true, vec![(1, 1), (2, 2)])]);
    let target = database("b", &[("t", true, vec![(1, 1), (2, 3)])]);
    target.add_column(&TableName::new("main", "t"), Column::new("note", LogicalType::Text, "text")).expect("a column");
    let comparison = compared(&source, &target, 10).expect("a verdict");
    let table = table(&comparison);
    assert_eq!((table.columns_extra.as_slice(), table.different), (&["note".to_owned()][..], 1));
    let equal = database("c", &[("t", true, vec![(1, 1), (2, 3)])]);
    let comparison = compared(&equal, &target, 10).expect("a verdict");
    assert!(!comparison.equal);
}

#[test]
fn no_more_rows_are_named_than_asked_for_and_all_are_counted() {
    let rows: Rows = (0..3000).map(|id| (id, 0)).collect();
    let source = database("a", &[("t", true, rows)]);
    let target = database("b", &[("t", true, vec![])]);
    for limit in [0, 7] {
        let comparison = compared(&source, &target, limit).expect("a verdict");
        assert_eq!((table(&comparison).missing, table(&comparison).rows.len()), (3000, limit));
        let comparison = compared(&target, &source, limit).expect("a verdict");
        assert_eq!((table(&comparison).extra, table(&comparison).rows.len()), (3000, limit));
    }
}

#[test]
fn random_damage_is_found_row_by_row() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let keyed = random.bool();
        let size = [3, 300, 2500][random.usize(0..3)];
        let rows: Rows =
            (0..size).map(|id| (if keyed { id } else { random.u32(0..size / 2 + 1) }, random.u32(0..3))).collect();
        let mut damaged = rows.clone();
        for _ in 0..random.usize(0..20) {
            match random.u32(0..3) {
                0 => _ = damaged.pop(),
                1 => damaged.push((size + random.u32(0..1000) * u32::from(keyed), 1)),
                _ => {
                    let count = damaged.len();
                    if let Some(row) = damaged.get_mut(random.usize(0..count.max(1))) {
                        row.1 = 9;
                    }
                }
            }
        }
        if keyed {
            damaged = damaged.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        }
        let comparison = compared(
            &database("a", &[("t", keyed, rows.clone())]),
            &database("b", &[("t", keyed, damaged.clone())]),
            usize::MAX,
        )
        .expect("a verdict");
        let mut expected = expected(keyed, &rows, &damaged);
        let mut found: Vec<(RowVerdict, u32)> = table(&comparison)
            .rows
            .iter()
            .map(|row| (row.verdict, row.key[0].value.as_ref().expect("a value").parse().expect("a number")))
            .collect();
        let order = |row: &(RowVerdict, u32)| (row.1, format!("{:?}", row.0));
        expected.sort_by_key(order);
        found.sort_by_key(order);
        assert_eq!(found, expected, "seed {seed}");
        assert_eq!(comparison.equal, expected.is_empty(), "seed {seed}");
    }
}

/// What a comparison by hand says: per key, or per whole row where there is no key.
fn expected(keyed: bool, source: &Rows, target: &Rows) -> Vec<(RowVerdict, u32)> {
    let mut counts: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    source.iter().for_each(|row| *counts.entry(*row).or_default() += 1);
    target.iter().for_each(|row| *counts.entry(*row).or_default() -= 1);
    let mut list = Vec::new();
    for ((id, value), count) in &counts {
        let other =
            counts.iter().any(|((other, other_value), count)| other == id && other_value != value && *count < 0);
        let source_has =
            counts.iter().any(|((other, other_value), count)| other == id && other_value != value && *count > 0);
        let verdict = match (keyed, *count > 0) {
            (true, true) if other => RowVerdict::Different,
            (true, false) if source_has => continue,
            (_, true) => RowVerdict::MissingAtTarget,
            (_, false) => RowVerdict::ExtraAtTarget,
        };
        (0..count.abs()).for_each(|_| list.push((verdict, *id)));
    }
    list
}

#[test]
fn databases_that_hash_differently_are_not_compared() {
    struct Other(Box<dyn database::compare::ComparisonSide>);
    // Only the notation differs; everything else must not be asked.
    impl database::compare::ComparisonSide for Other {
        fn name(&self) -> String {
            self.0.name()
        }
        fn notation(&self) -> &str {
            "other"
        }
        fn case_rule(&self) -> change::CaseRule {
            self.0.case_rule()
        }
        fn default_schema(&self) -> String {
            self.0.default_schema()
        }
        fn tables(&mut self) -> Result<Vec<TableDefinition>, database::Error> {
            unreachable!("the notation differs")
        }
        fn left_out(&mut self) -> Result<Vec<database::compare::LeftOut>, database::Error> {
            unreachable!("the notation differs")
        }
        fn estimate_rows(&mut self, _: &TableName) -> Result<u64, database::Error> {
            unreachable!("the notation differs")
        }
        fn summarize(
            &mut self,
            _: &database::compare::ComparedTable,
            _: u32,
        ) -> Result<Vec<database::compare::BucketSummary>, database::Error> {
            unreachable!("the notation differs")
        }
        fn rows(
            &mut self,
            _: &database::compare::ComparedTable,
            _: u32,
            _: &[u32],
            _: Option<u64>,
            _: &mut database::compare::TakeMark<'_>,
        ) -> Result<(), database::Error> {
            unreachable!("the notation differs")
        }
        fn identity_values(&self, _: &database::compare::ComparedTable, _: &[u8]) -> Vec<Option<String>> {
            unreachable!("the notation differs")
        }
    }
    let database = database("a", &[("t", true, vec![])]);
    let mut source = database.open_comparison().expect("a side");
    let mut target = Other(database.open_comparison().expect("a side"));
    let selection = Selection::parse(&SelectionRequest::default()).expect("a selection");
    let options = CompareOptions { selection, rows_named_max: 1, repair: false };
    let error = compare(&mut *source, &mut target, &options, &mut |_| {}).expect_err("a refusal");
    assert!(error.to_string().contains("do not hash rows alike"), "{error}");
}
