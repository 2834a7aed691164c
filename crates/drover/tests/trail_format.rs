//! Trails in the formats of older releases: what stands on disk, byte by byte, and that it can be applied.
//!
//! The files are taken apart here by the published rules alone, with none of the product's own code.

use crate::stage::{EXTRACT, REPLICAT, Stage, drover, eventually, number, query, rows};

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b REAL, c BLOB);
    CREATE TABLE \"odd name\" (k TEXT, n INTEGER, \"a column\" NUMERIC(10, 2), PRIMARY KEY (n, k)) WITHOUT ROWID;";

const TABLES: [&str; 2] = ["t", "\"odd name\""];

/// One record of a file, as the published layout has it.
struct Published<'a> {
    /// `F` or `G`.
    kind: u8,
    /// Bit 0: little-endian.
    info: u8,
    /// The tokens between the record's head and its trailer: identifier and payload.
    tokens: Vec<(u8, &'a [u8])>,
}

impl<'a> Published<'a> {
    fn token(&self, id: u8) -> Option<&'a [u8]> {
        self.tokens.iter().find(|(known, _)| *known == id).map(|(_, payload)| *payload)
    }

    fn header(&self) -> &'a [u8] {
        self.token(b'H').expect("a record header")
    }

    fn operation(&self) -> u8 {
        self.header()[6]
    }
}

fn big_endian(bytes: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Tokens that follow each other with nothing between and behind them.
fn tokens(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut tokens = Vec::new();
    while !bytes.is_empty() {
        let length = big_endian(&bytes[2..]);
        tokens.push((bytes[0], &bytes[4..4 + length]));
        bytes = &bytes[4 + length..];
    }
    tokens
}

/// All records of a big-endian file, which must follow each other without a gap.
fn records(file: &[u8]) -> Vec<Published<'_>> {
    let mut records = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let total = big_endian(&rest[2..]);
        let (record, after) = rest.split_at(total);
        let trailer = &record[total - 4..];
        assert_eq!((trailer[0], trailer[1], big_endian(&trailer[2..])), (b'Z', record[1], total));
        records.push(Published { kind: record[0], info: record[1], tokens: tokens(&record[4..total - 4]) });
        rest = after;
    }
    records
}

/// What the first token called `id` of group `group` of the file header holds.
fn of_header<'a>(header: &Published<'a>, group: u8, id: u8) -> &'a [u8] {
    let found = tokens(header.token(group).expect("a group")).into_iter().find(|(known, _)| *known == id);
    found.expect("a token of the file header").1
}

/// Column values of a data area: index, and the bytes or NULL.
fn columns(mut data: &[u8]) -> Vec<(usize, Option<&[u8]>)> {
    let mut columns = Vec::new();
    while !data.is_empty() {
        let (index, length) = (big_endian(data), big_endian(&data[2..]));
        let value = &data[4..4 + length];
        let is_null = value[..2] == [0xFF, 0xFF];
        if !is_null {
            assert_eq!(big_endian(&value[2..]), value.len() - 4, "the length in the value");
        }
        columns.push((index, (!is_null).then(|| &value[4..])));
        data = &data[4 + length..];
    }
    columns
}

/// A stage whose Extract writes with `options` behind the name of the trail, and whose Replicat has a definitions file.
fn stage(options: &str) -> Stage {
    let stage = Stage::new(SCHEMA);
    stage.parameters("e1", &EXTRACT.replace("./dirdat/aa", &format!("./dirdat/aa, {options}")));
    stage
}

fn write_definitions(stage: &Stage) -> String {
    let parameters = "DEFSFILE ./dirdef/source.def, PURGE\nSOURCEDB sqlite:../source.db\nTABLE main.*;\n";
    stage.parameters("defgen", parameters);
    let mut command = drover();
    command.arg("defgen").arg(stage.home().join("dirprm/defgen.prm")).arg("--home").arg(stage.home());
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("definitions of 2 tables"), "{output:?}");
    stage.text("dirdef/source.def")
}

fn change(stage: &Stage) {
    let source = stage.source();
    source
        .execute_batch(
            "
            INSERT INTO t VALUES (7, 'seven', 0.1, x'00ff'), (8, NULL, -0.0, NULL);
            UPDATE t SET a = 'Seven' WHERE id = 7;
            UPDATE t SET id = 9 WHERE id = 8;
            INSERT INTO \"odd name\" VALUES ('k', 1, 12.5), ('l', 2, 'text');
            UPDATE \"odd name\" SET n = 3 WHERE k = 'k';
            DELETE FROM \"odd name\" WHERE k = 'l';
            ",
        )
        .expect("changes");
}

fn everything_arrives(stage: &Stage) {
    let replicat = stage.replicat();
    let (source, target) = (stage.source(), stage.target());
    eventually("the target holds what the source holds", || {
        replicat.assert_running();
        TABLES.iter().all(|table| rows(&source, table) == rows(&target, table)).then_some(())
    });
    replicat.stop();
    assert_eq!(number(&target, "SELECT count(*) FROM t"), 2);
    assert_eq!(query(&target, "SELECT k, n FROM \"odd name\""), [["text \"k\"".to_owned(), "integer 3".to_owned()]]);
}

/// Captures what [`change`] does and returns the bytes of the trail.
fn capture(stage: &Stage) -> Vec<u8> {
    let extract = stage.extract();
    change(stage);
    // The last change, as every layout shows it.
    eventually("all is captured", || {
        extract.assert_running();
        stage.trail_logs(" Delete ").then_some(())
    });
    extract.stop();
    let files = stage.trail_files();
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::read(&files[0]).expect("a trail file")
}

fn has_the_published_layout(options: &str, level: u16) {
    let stage = stage(options);
    let file = capture(&stage);
    let all = records(&file);
    let (header, data) = all.split_first().expect("a file header");
    assert_eq!((header.kind, header.info), (b'F', 0), "big-endian");
    assert_eq!(of_header(header, b'0', 0x30), b"GG\r\nTL\n\r", "the signature");
    assert_eq!(of_header(header, b'0', 0x31), level.to_be_bytes(), "the level");
    let name = of_header(header, b'0', 0x36);
    assert_eq!((big_endian(name), &name[2..]), (name.len() - 2, &b"./dirdat/aa000000000"[..]), "the file's name");

    let operations: Vec<u8> = data.iter().map(Published::operation).collect();
    assert!(!operations.contains(&170), "no definitions: {operations:?}");
    // Inserts; an update as image before and after; a key update; and so on. SQLite tells the whole row before.
    let expected: &[u8] = &[5, 5, 15, 15, 15, 115, 5, 5, 15, 115, 3];
    assert_eq!(operations, expected);
    for record in data {
        assert_eq!((record.kind, record.info), (b'G', 0), "big-endian");
        let header = record.header();
        assert_eq!((header[0], header[1]), (b'E', 0x04), "columns, and the table by name");
        assert_eq!(big_endian(&header[4..]), record.token(b'D').map_or(0, <[u8]>::len), "RecLength");
        let name = header[34..].strip_suffix(&[0]).expect("the name ends with NUL");
        assert!([&b"main.t"[..], b"main.odd name"].contains(&name), "{}", String::from_utf8_lossy(name));
        let trail_tokens = tokens(record.token(b'T').expect("tokens"));
        assert!([b'L', b'6'].iter().all(|id| trail_tokens.iter().any(|(known, _)| known == id)), "CSN and transaction");
    }
    let images: Vec<u8> = data.iter().map(|record| record.header()[3]).collect();
    assert_eq!(String::from_utf8_lossy(&images), "AABABAAABAB", "images before and after");
    // SQLite's values say their class in the first byte.
    let first = columns(data[0].token(b'D').expect("columns"));
    assert_eq!(first, [(0, Some(&b"i7"[..])), (1, Some(b"tseven")), (2, Some(b"r0.1")), (3, Some(b"b\x00\xff"))]);
    let second = columns(data[1].token(b'D').expect("columns"));
    assert_eq!(second[1], (1, None));
    // A key update: length of the key before, the key before, the row after.
    let moved = data[5].token(b'D').expect("columns");
    let (before, after) = moved[2..].split_at(big_endian(moved));
    assert_eq!(columns(before), [(0, Some(&b"i8"[..]))]);
    assert_eq!(columns(after)[0], (0, Some(&b"i9"[..])));

    // Without definitions the group says what is missing, and applies all of it when it is given them.
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00323") && message.contains("main.t") && message.contains("SOURCEDEFS"), "{message}");
    let text = write_definitions(&stage);
    assert!(text.starts_with("*+- Defgen version ") && text.contains("\nDefinition for table main.t\n"), "{text}");
    stage.parameters("r1", &REPLICAT.replace("MAP", "SOURCEDEFS ./dirdef/source.def\nMAP"));
    everything_arrives(&stage);
}

#[test]
fn a_trail_of_release_12_1_has_the_published_layout_and_is_applied_with_a_definitions_file() {
    has_the_published_layout("FORMAT RELEASE 12.1", 4);
}

#[test]
fn a_trail_of_release_11_2_has_the_published_layout_and_is_applied_with_a_definitions_file() {
    has_the_published_layout("FORMAT RELEASE 11.2", 3);
}

#[test]
fn a_trail_without_object_definitions_is_applied_with_a_definitions_file() {
    let stage = stage("NO_OBJECTDEFS");
    let file = capture(&stage);
    assert_eq!(file[1], 1, "little-endian, as today's release");
    let printed = crate::stage::logdump(&stage.trail_files()[0]);
    assert!(printed.contains("main.odd name") && !printed.contains("TDR"), "{printed}");
    write_definitions(&stage);
    stage.parameters("r1", &REPLICAT.replace("MAP", "SOURCEDEFS ./dirdef/source.def\nMAP"));
    everything_arrives(&stage);
}

#[test]
fn a_definitions_file_that_is_there_is_replaced_only_when_asked_to() {
    let stage = Stage::bare(SCHEMA);
    write_definitions(&stage);
    write_definitions(&stage);
    let parameters = stage.text("dirprm/defgen.prm").replace(", PURGE", "");
    stage.parameters("defgen", &parameters);
    let mut command = drover();
    command.arg("defgen").arg(stage.home().join("dirprm/defgen.prm")).arg("--home").arg(stage.home());
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("DRV-00325") && message.contains("source.def"), "{message}");
}

#[test]
fn a_damaged_definitions_file_stops_the_replicat_with_its_line() {
    let stage = stage("NO_OBJECTDEFS");
    capture(&stage);
    let text = write_definitions(&stage).replace("Columns: 4", "Columns: 5");
    std::fs::write(stage.home().join("dirdef/source.def"), text).expect("a file");
    stage.parameters("r1", &REPLICAT.replace("MAP", "SOURCEDEFS ./dirdef/source.def\nMAP"));
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00325") && message.contains("line ") && message.contains("main.t"), "{message}");
}
