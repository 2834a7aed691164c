//! The tools behind `drover trail`.

use crate::written::{append, commit, delete, insert, row, table, update, writer};
use change::{Change, Operation, TableDefinition};
use inspect::tools::{self, ExportFormat, Look, Selection, SelectionWish, StatWish, TrailFiles, ValueTest, Work};
use inspect::{Error, Given};
use std::sync::Arc;
use trail::storage::{Forgetful, Storage};
use trail::{Cover, Format, UpdateImages};

/// Three transactions: two inserts; an update and a delete; an insert of a long value into another table.
fn transactions() -> Vec<Vec<Change>> {
    let (one, two) = (table("one"), table("two"));
    vec![
        vec![insert(&one, ["i1", "tapple", "-"]), insert(&one, ["i2", "tit's", "bx"])],
        vec![update(&one, ["i1", "tapple", "-"], ["i1", "tpear", "-"]), delete(&one, ["i2", "tit's", "bx"])],
        vec![insert(&two, ["i42", &format!("t{}", "long".repeat(30_000)), "r1.5"])],
    ]
}

fn trail_of(format: Format, cover: Cover) -> Arc<Forgetful> {
    let storage = Arc::new(Forgetful::new(0));
    let mut writer = writer(&storage, 1 << 20, cover, format);
    append(&mut writer, &transactions(), 1);
    writer.close().expect("closes");
    storage
}

fn trail() -> Arc<Forgetful> {
    trail_of(Format::default(), Cover::default())
}

fn run<R>(
    storage: &Arc<Forgetful>,
    name: &str,
    tool: impl FnOnce(&TrailFiles, &mut Work<'_>) -> Result<R, Error>,
) -> (String, Result<R, Error>) {
    let files = TrailFiles::find(storage.clone(), name).expect("is there");
    let mut text = Vec::new();
    let given = Given::default();
    let done = tool(&files, &mut Work { output: &mut text, given: &given, progress: &|_| {} });
    (String::from_utf8(text).expect("is text"), done)
}

fn show(storage: &Arc<Forgetful>, wish: SelectionWish) -> String {
    let mut selection = Selection::new(wish).expect("makes sense");
    let look = Look { is_flat: true, ..Look::default() };
    let (text, done) = run(storage, "aa", |files, work| tools::show(files, &mut selection, look, work));
    let count = done.expect("shows");
    assert_eq!(count, text.lines().count() as u64);
    text
}

#[test]
fn changes_are_shown_under_their_transactions() {
    let mut selection = Selection::new(SelectionWish::default()).expect("makes sense");
    let (text, done) = run(&trail(), "aa", |files, work| tools::show(files, &mut selection, Look::default(), work));
    assert_eq!(done.expect("shows"), 5);
    // Without positions, which depend on the layout of the file.
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split("  ").filter(|part| !part.starts_with("000000000:")).collect::<Vec<_>>().join("  "))
        .collect();
    let expected = [
        "transaction x1, csn 000001, 2023-11-14 22:14:20.000000",
        "  INSERT main.one  id=1, a='apple', b=NULL",
        "  INSERT main.one  id=2, a='it''s', b=x'78'",
        "transaction x2, csn 000002, 2023-11-14 22:15:20.000000",
        "  UPDATE main.one  id=1: a='apple' -> 'pear'",
        "  DELETE main.one  id=2, a='it''s', b=x'78'",
        "transaction x3, csn 000003, 2023-11-14 22:16:20.000000",
    ];
    assert_eq!(lines[..7], expected);
    let long = &lines[7];
    assert!(
        long.starts_with("  INSERT main.two  id=42, a='longlong")
            && long.contains("… and 119940 characters more, b=1.5"),
        "{long}"
    );
}

#[test]
fn a_selection_is_the_same_whether_it_looks_at_bytes_or_at_rows() {
    let wish = SelectionWish::default;
    let column = |name: &str, value: &str| vec![ValueTest::Column { name: name.to_owned(), value: value.to_owned() }];
    let anywhere = |text: &str| vec![ValueTest::Anywhere(text.to_owned())];
    let cases: Vec<(SelectionWish, &[&str])> = vec![
        (SelectionWish { values: anywhere("apple"), ..wish() }, &["INSERT", "UPDATE"]),
        (SelectionWish { values: anywhere("longlong"), ..wish() }, &["INSERT"]),
        (SelectionWish { values: anywhere("78"), ..wish() }, &["INSERT", "DELETE"]),
        (SelectionWish { values: column("A", "pear"), ..wish() }, &["UPDATE"]),
        (SelectionWish { values: column("a", "it's"), ..wish() }, &["INSERT", "DELETE"]),
        (SelectionWish { values: column("b", "NULL"), ..wish() }, &["INSERT", "UPDATE"]),
        (SelectionWish { values: column("c", "1"), ..wish() }, &[]),
        (SelectionWish { values: vec![ValueTest::Key(vec!["42".to_owned()])], ..wish() }, &["INSERT"]),
        (SelectionWish { values: vec![ValueTest::Key(vec!["2".to_owned()])], ..wish() }, &["INSERT", "DELETE"]),
        (SelectionWish { transaction: Some("x2".to_owned()), ..wish() }, &["UPDATE", "DELETE"]),
        (SelectionWish { transaction: Some("000003".to_owned()), ..wish() }, &["INSERT"]),
        (SelectionWish { from: Some(commit(2).time), to: Some(commit(2).time), ..wish() }, &["UPDATE", "DELETE"]),
        (SelectionWish { tables: vec!["*.TWO".to_owned()], ..wish() }, &["INSERT"]),
        (SelectionWish { operations: vec!["delete".to_owned()], ..wish() }, &["DELETE"]),
        (
            SelectionWish { environment: vec!["@GETENV (\"GGHEADER\", \"OPTYPE\") = DELETE".to_owned()], ..wish() },
            &["DELETE"],
        ),
        (SelectionWish { environment: vec!["GGS_BEFORE_AFTER_IND = BEFORE".to_owned()], ..wish() }, &["DELETE"]),
        (
            SelectionWish { environment: vec!["GGS_OP_TYPE = INSERT".to_owned()], ..wish() },
            &["INSERT", "INSERT", "INSERT"],
        ),
        (SelectionWish { environment: vec!["@GETENV (\"RECORD\", \"FILERBA\") < 99".to_owned()], ..wish() }, &[]),
        (
            SelectionWish { environment: vec!["@GETENV (\"RECORD\", \"FILERBA\") > 99".to_owned()], ..wish() },
            &["INSERT", "INSERT", "UPDATE", "DELETE", "INSERT"],
        ),
    ];
    let together = Format { updates: Some(UpdateImages::Together), ..Format::default() };
    let separate = Format { updates: Some(UpdateImages::Separate), ..Format::default() };
    let compressed = Cover { is_compressed: true, ..Cover::default() };
    for (format, cover) in [(together, Cover::default()), (separate, Cover::default()), (together, compressed)] {
        let storage = trail_of(format, cover);
        for (wish, expected) in &cases {
            let text = show(&storage, wish.clone());
            let found: Vec<&str> = text
                .lines()
                .map(|line| line.split("  ").nth(4).expect("a change").split(' ').next().expect("a word"))
                .collect();
            assert_eq!(found, *expected, "{wish:?}: {text}");
        }
    }
    let wrong = |wish| Selection::new(wish).err().expect("makes no sense").to_string();
    assert!(wrong(SelectionWish { operations: vec!["insrt".to_owned()], ..wish() }).contains("did you mean insert?"));
    assert!(
        wrong(SelectionWish { environment: vec!["@GETENV (\"GGHEADER\", \"X\") = 1".to_owned()], ..wish() })
            .contains("knows no")
    );
}

#[test]
fn json_holds_every_value() {
    let mut selection = Selection::new(SelectionWish::default()).expect("makes sense");
    let (text, done) =
        run(&trail(), "aa", |files, work| tools::export(files, &mut selection, ExportFormat::JsonLines, work));
    done.expect("exports");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["after"], serde_json::json!({"id": 1, "a": "apple", "b": null}));
    assert_eq!(lines[1]["after"], serde_json::json!({"id": 2, "a": "it's", "b": {"hex": "78"}}));
    assert_eq!(lines[2]["before"]["a"], "apple");
    assert_eq!(
        (&lines[2]["after"]["a"], &lines[2]["operation"], &lines[2]["place"]),
        (&"pear".into(), &"update".into(), &"first".into())
    );
    assert_eq!(
        (&lines[3]["table"], &lines[3]["transaction"], &lines[3]["csn"]),
        (&"main.one".into(), &"x2".into(), &"000002".into())
    );
    assert_eq!(lines[4]["after"]["a"], "long".repeat(30_000));
    assert_eq!(lines[4]["after"]["b"], 1.5);
}

#[test]
fn csv_is_one_table_and_tells_null_from_nothing() {
    let csv = |tables: &[&str]| {
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        let mut selection = Selection::new(SelectionWish { tables, ..SelectionWish::default() }).expect("makes sense");
        run(&trail(), "aa", |files, work| tools::export(files, &mut selection, ExportFormat::Csv, work))
    };
    let (text, done) = csv(&["main.one"]);
    done.expect("exports");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "position,csn,transaction,time,operation,id,a,b");
    let behind = |line: &str| line.splitn(5, ',').last().map(str::to_owned);
    let rows: Vec<_> = lines[1..].iter().map(|line| behind(line).expect("fields")).collect();
    assert_eq!(rows, ["insert,1,apple,", "insert,2,it's,78", "update,1,pear,", "delete,2,it's,78"]);
    let (_, done) = csv(&[]);
    let told = done.expect_err("two tables").to_string();
    assert!(told.contains("main.two comes after main.one") && told.contains("--table"), "{told}");
}

#[test]
fn statistics_count_tables_transactions_and_time() {
    let wish = StatWish { transactions: 2, ..StatWish::default() };
    let (text, done) = run(&trail(), "aa", |files, work| tools::stat(files, &wish, work));
    done.expect("counts");
    let line = |begins: &str| {
        let line = text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("main.one ")[1..5], ["2", "1", "1", "0"]);
    assert!(text.contains(" 3 transactions, "), "{text}");
    // The long value makes the largest transaction.
    let (_, listed) = text.split_once("largest transactions").expect("a list");
    assert!(listed.lines().nth(1).is_some_and(|line| line.starts_with("2023-11-14 22:16:20.000000")), "{text}");
    assert!(text.contains("\nrecords in 5 s each\n2023-11-14 22:14:20 ") && text.contains('█'), "{text}");
}

fn verify(storage: &Arc<Forgetful>) -> (String, u64) {
    let (text, done) = run(storage, "aa", tools::verify);
    (text, done.expect("looks").problems)
}

/// A trail of several files.
fn many_files() -> Arc<Forgetful> {
    let storage = Arc::new(Forgetful::new(0));
    let mut writer = writer(&storage, 4096, Cover::default(), Format::default());
    let table = table("one");
    for number in 1..40 {
        append(&mut writer, &[vec![insert(&table, ["i1", &format!("t{}", "x".repeat(500)), "-"])]], number);
    }
    writer.close().expect("closes");
    storage
}

#[test]
fn a_whole_trail_is_whole_and_missing_files_and_damage_are_told() {
    let storage = many_files();
    let (text, problems) = verify(&storage);
    assert_eq!(problems, 0, "{text}");
    assert!(
        text.lines()
            .last()
            .is_some_and(|last| last.starts_with("whole: ") && last.contains(" 39 transactions, 0 problems")),
        "{text}"
    );

    storage.remove("aa000000001").expect("removes");
    let (text, problems) = verify(&storage);
    assert!(problems == 1 && text.contains("aa000000001 is missing\n") && text.contains("NOT whole"), "{text}");
    storage.remove("aa000000002").expect("removes");
    assert!(verify(&storage).0.contains("aa000000001 and 1 files after it are missing\n"));

    let storage = many_files();
    let length = storage.open("aa000000001").expect("opens").len().expect("has one");
    storage.open("aa000000001").expect("opens").write_at(&[0xFF], length - 100).expect("damages");
    let (text, problems) = verify(&storage);
    assert!(problems == 1 && text.contains("aa000000001: at byte ") && text.contains("checksum"), "{text}");

    let storage = many_files();
    storage.open("aa000000001").expect("opens").set_len(length - 1).expect("cuts");
    assert!(verify(&storage).1 >= 1);
    // A file in the place of another.
    let storage = many_files();
    let other = storage.read_whole("aa000000002").expect("reads");
    storage.replace("aa000000001", &other).expect("replaces");
    let (text, problems) = verify(&storage);
    assert!(problems >= 1 && text.contains("number 2 inside"), "{text}");
}

fn undo(changes: Vec<Change>) -> (String, Result<u64, Error>) {
    let storage = Arc::new(Forgetful::new(0));
    let mut writer = writer(&storage, 1 << 20, Cover::default(), Format::default());
    append(&mut writer, &[vec![insert(&table("other"), ["i1", "-", "-"])], changes], 1);
    writer.close().expect("closes");
    run(&storage, "aa", |files, work| tools::undo(files, "x2", None, work))
}

#[test]
fn what_can_be_reversed_is_and_what_can_not_is_refused_whole() {
    let one = table("one");
    let (text, done) = undo(vec![
        insert(&one, ["i1", "ta", "-"]),
        update(&one, ["i1", "ta", "-"], ["i1", "tit's", "-"]),
        delete(&one, ["i2", "-", "b\u{1}"]),
    ]);
    assert_eq!(done.expect("is reversed"), 3);
    let statements: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
    let expected = [
        "BEGIN;",
        "INSERT INTO \"main\".\"one\" (\"id\", \"a\", \"b\") VALUES (2, NULL, X'01');",
        "UPDATE \"main\".\"one\" SET \"a\" = 'a' WHERE \"id\" IS 1;",
        "DELETE FROM \"main\".\"one\" WHERE \"id\" IS 1;",
        "COMMIT;",
    ];
    assert_eq!(statements, expected);

    let refused = |changes: Vec<Change>| {
        let (text, done) = undo(changes);
        assert_eq!(text, "", "half of it would do harm");
        done.expect_err("can't be reversed").to_string()
    };
    let first = || insert(&one, ["i1", "ta", "-"]);
    let blind = Operation::Update { old: None, new: row(["i1", "tb", "-"]) };
    assert!(refused(vec![first(), change_of(&one, blind)]).contains("without the row before it"));
    assert!(refused(vec![first(), update(&one, ["i1", "?", "?"], ["i1", "tb", "?"])]).contains("column a was before"));
    assert!(refused(vec![first(), delete(&one, ["i2", "?", "?"])]).contains("column a is not in the trail"));
    assert!(refused(vec![first(), change_of(&one, Operation::truncate())]).contains("was truncated"));
    let (_, done) = run(&trail(), "aa", |files, work| tools::undo(files, "x9", None, work));
    assert!(done.expect_err("is not there").to_string().contains("holds no transaction x9"));
}

fn change_of(table: &Arc<TableDefinition>, operation: Operation) -> Change {
    crate::written::change(table, operation)
}
