//! PARTITION and PARTITIONEXCLUDE: what the trail says of partitions, and what arrives of them.
//!
//! The trail is taken apart here by the published rules alone, with none of the product's own code.

use super::stage::Stage;

const SCHEMA: &str = "
    CREATE TABLE flat (id int PRIMARY KEY, v text);
    CREATE TABLE m (id int, v text, w int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
    CREATE TABLE m_low PARTITION OF m FOR VALUES FROM (0) TO (100);
    CREATE TABLE m_high (w int, gone int, v text, id int NOT NULL);
    ALTER TABLE m_high DROP COLUMN gone;
    ALTER TABLE m ATTACH PARTITION m_high FOR VALUES FROM (100) TO (200);
    CREATE TABLE m_old PARTITION OF m FOR VALUES FROM (200) TO (300);";

const TARGET: &str = "
    CREATE TABLE flat (id int PRIMARY KEY, v text);
    CREATE TABLE m (id int PRIMARY KEY, v text, w int);";

const CHANGES: &str = "
    INSERT INTO flat VALUES (1, 'flat');
    INSERT INTO m VALUES (1, 'low', 10), (101, 'high', 20), (201, 'old', 30), (2, 'low too', NULL);
    UPDATE m SET v = 'LOW' WHERE id = 1;
    UPDATE m SET w = 21 WHERE id = 101;
    UPDATE m SET id = 102 WHERE id = 2;
    UPDATE flat SET v = 'FLAT';
    UPDATE m SET v = 'OLD' WHERE id = 201;
    DELETE FROM m WHERE id = 101;";

/// A stage whose target is flat, with these statements and the groups added.
fn stage(statements: &str) -> Stage<'static> {
    let stage = Stage::bare("");
    stage.source.run(SCHEMA);
    stage.target.run(TARGET);
    stage.extract_parameters(&format!("{statements}\nTABLE public.*;"));
    stage.add_groups();
    stage
}

fn number(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// The payloads of `H` of all data records of a little-endian file.
fn headers(file: &[u8]) -> Vec<&[u8]> {
    let mut headers = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let total = number(&rest[2..]);
        let (record, after) = rest.split_at(total);
        assert_eq!((record[total - 4], number(&record[total - 2..])), (b'Z', total));
        if record[0] == b'G' {
            assert_eq!(record[4], b'H');
            headers.push(&record[8..8 + number(&record[6..])]);
        }
        rest = after;
    }
    headers
}

/// What a file says: names of tables and partitions by their indexes, and each change by number of its operation, table and
/// partition.
struct Told {
    /// Table and name of each partition, in order, with the partition's number in the database and its flags.
    partitions: Vec<(String, String, u64, u32)>,
    changes: Vec<(u8, String, Option<String>)>,
}

fn told(file: &[u8]) -> Told {
    let (mut tables, mut told) = (Vec::new(), Told { partitions: Vec::new(), changes: Vec::new() });
    for header in headers(file) {
        let (flags, operation, kind) = (header[1], header[6], header[7]);
        let object = &header[34..];
        let name = |bytes: &[u8]| String::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap_or(b"").to_vec());
        match (operation, kind) {
            (170, 1) => {}
            (170, 2 | 3) => tables.push(name(object).expect("UTF-8")),
            (170, 4) => {
                // The name, a NUL and twelve bytes; in the place of AuditRBA the indexes of the table and the partition.
                assert_eq!(flags, 0x80);
                let (table, index) = (number(&header[24..]), number(&header[26..]));
                told.partitions.push((
                    tables[table - 1].clone(),
                    name(object).expect("UTF-8"),
                    u64::from_le_bytes(object[object.len() - 12..object.len() - 4].try_into().expect("8 bytes")),
                    u32::from_le_bytes(object[object.len() - 4..].try_into().expect("4 bytes")),
                ));
                assert_eq!(index, told.partitions.len(), "numbered from 1 in order of appearance");
            }
            (150 | 151, _) => {}
            _ => {
                assert_eq!(object.len(), if flags & 0x80 == 0 { 2 } else { 4 });
                let table = tables[number(object) - 1].clone();
                let partition = (flags & 0x80 != 0).then(|| {
                    let (of, name, ..) = &told.partitions[number(&object[2..]) - 1];
                    assert_eq!(*of, table);
                    name.clone()
                });
                assert_eq!(flags, if partition.is_some() { 0x8C } else { 0x0C });
                told.changes.push((operation, table, partition));
            }
        }
    }
    told
}

fn files(stage: &Stage<'_>) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(stage.home().join("dirdat"))
        .expect("dirdat")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 11))
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

#[test]
fn changes_tell_their_partition_and_arrive_in_the_table() {
    let stage = stage("PARTITION m.m_*\nPARTITIONEXCLUDE public.m.m_old");
    stage.source.run(CHANGES);
    stage.replicate();
    let kept = "SELECT * FROM m WHERE id < 200 ORDER BY id";
    assert_eq!(stage.source.run(kept), "1|LOW|10\n102|low too|");
    assert_eq!(stage.target.run("SELECT * FROM m ORDER BY id"), stage.source.run(kept), "what is excluded stays away");
    assert_eq!(stage.target.run("SELECT * FROM flat"), "1|FLAT");

    let [file] = &files(&stage)[..] else { panic!("one file") };
    let told = told(file);
    let number =
        |table: &str| stage.source.run(&format!("SELECT '{table}'::regclass::oid")).parse::<u64>().expect("a number");
    let partition = |name: &str| ("public.m".to_owned(), name.to_owned(), number(name), 1);
    assert_eq!(told.partitions, [partition("m_low"), partition("m_high")]);
    let change = |operation, table: &str, partition: Option<&str>| {
        (operation, format!("public.{table}"), partition.map(str::to_owned))
    };
    let (low, high) = (Some("m_low"), Some("m_high"));
    let expected = [
        change(5, "flat", None),
        change(5, "m", low),
        change(5, "m", high),
        change(5, "m", low),
        change(15, "m", low),
        change(15, "m", high),
        // The row that moves.
        change(3, "m", low),
        change(5, "m", high),
        change(15, "flat", None),
        change(3, "m", high),
    ];
    let changes: Vec<_> = told.changes.into_iter().filter(|(_, table, _)| table != "public.signal").collect();
    assert_eq!(changes, expected);

    let path = stage.home().join("dirdat/aa000000000");
    let shown = crate::stage::logdump(&path);
    let names = format!("Partition Name: m_low Partition ID: {}", grouped(number("m_low")));
    assert!(shown.contains(&names), "{names}: {shown}");
    assert!(shown.contains("(PARTITION: m_high, TDR/PNR INDEX: "), "{shown}");
    let report = stage.text("dirrpt/E1.rpt");
    assert!(report.contains("excluded"), "{report}");
}

/// A number with commas, as the published dumps show it.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let pieces: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|piece| std::str::from_utf8(piece).expect("digits")).collect();
    pieces.join(",")
}

#[test]
fn every_file_names_the_partitions_it_holds_changes_of_and_restarts_change_nothing() {
    let stage = stage("PARTITION m.*");
    for round in 0..3 {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.source.run(&format!("INSERT INTO m VALUES ({round}, 'low', 1), (1{round}0, 'high', 2)"));
        stage.wait_for_signal(&[&extract, &replicat]);
        if round == 1 {
            extract.kill();
        } else {
            extract.stop();
        }
        replicat.stop();
    }
    stage.replicate();
    stage.assert_equal();
    let files = files(&stage);
    assert!(files.len() >= 3);
    for file in files {
        let told = told(&file);
        let used = told.changes.iter().any(|(_, _, partition)| partition.is_some());
        assert_eq!(told.partitions.is_empty(), !used);
        let of_table = told.changes.iter().filter(|(_, table, _)| table == "public.m");
        of_table.for_each(|(_, _, partition)| assert!(partition.is_some()));
    }
}

#[test]
fn partitions_that_no_statement_matches_and_those_that_come_later_arrive() {
    let stage = stage("PARTITION m.m_low");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO m VALUES (1, 'low', 1), (150, 'high', 2)");
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.source.run("CREATE TABLE m_new PARTITION OF m FOR VALUES FROM (300) TO (400)");
    extract.stop();
    replicat.stop();
    stage.replicate();
    stage.source.run("INSERT INTO m VALUES (301, 'new', 3)");
    stage.replicate();
    stage.assert_equal();
    let all: Vec<_> = files(&stage).iter().flat_map(|file| told(file).changes).collect();
    let partitions: Vec<_> =
        all.into_iter().filter(|(_, table, _)| table == "public.m").map(|change| change.2).collect();
    assert_eq!(partitions, [Some("m_low".to_owned()), None, None]);
}

#[test]
fn a_truncation_of_all_partitions_arrives_and_one_of_some_stops_the_extract() {
    let stage = stage("PARTITION m.m_low\nPARTITIONEXCLUDE m.m_old");
    stage
        .source
        .run("INSERT INTO m VALUES (1, 'low', 1), (150, 'high', 2), (201, 'old', 3); INSERT INTO flat VALUES (1, 'x')");
    stage.replicate();
    stage.source.run("TRUNCATE m, flat");
    stage.source.run("INSERT INTO m VALUES (2, 'low', 1); INSERT INTO flat VALUES (2, 'y')");
    stage.replicate();
    stage.assert_equal();
    // All that is captured of the table.
    stage.source.run("INSERT INTO m VALUES (205, 'old', 3); TRUNCATE m_low, m_high");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT count(*) FROM m"), "0");
    // What is not captured is nobody's business.
    stage.source.run("INSERT INTO m VALUES (3, 'low', 1); TRUNCATE m_old");
    stage.replicate();
    stage.assert_equal();
    stage.source.run("TRUNCATE m_low");
    let message = stage.extract().fails();
    for words in ["DRV-00331", "public.m_low", "public.m_high", "DELETE"] {
        assert!(message.contains(words), "{words} is not in\n{message}");
    }
}

#[test]
fn a_large_transaction_that_is_streamed_tells_its_partitions_too() {
    let stage = stage("PARTITION m.*");
    // So that the server sends it before it commits.
    stage.source.run(&format!("ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'", stage.source.database));
    stage.source.run(
        "BEGIN; INSERT INTO m SELECT n % 200, repeat('x', 100), n FROM generate_series(0, 199) n;
         INSERT INTO flat SELECT n, repeat('y', 1000) FROM generate_series(1, 3000) n; UPDATE m SET w = w + 1; COMMIT",
    );
    stage.replicate();
    assert_eq!(stage.assert_equal(), 3201);
    let changes: Vec<_> = files(&stage).iter().flat_map(|file| told(file).changes).collect();
    let of_table = changes.iter().filter(|(_, table, _)| table == "public.m");
    assert_eq!(of_table.clone().count(), 400);
    of_table.for_each(|(_, _, partition)| assert!(partition.is_some()));
}

#[test]
fn statements_without_effect_or_too_late_are_refused_by_name() {
    let stage = Stage::bare("");
    stage.source.run(SCHEMA);
    stage.target.run(TARGET);
    stage.extract_parameters("PARTITION flat.x\nTABLE public.*;");
    let message = stage.console_refuses(&stage.set_up());
    assert!(message.contains("flat.x") && message.contains("has partitions"), "{message}");
    // Added without them, and so published by the root.
    stage.extract_parameters("TABLE public.*;");
    stage.add_groups();
    stage.extract_parameters("PARTITION m.*\nTABLE public.*;");
    let message = stage.extract().fails();
    assert!(message.contains("public.m") && message.contains("published"), "{message}");
    stage.extract_parameters("TABLE public.*;");
    stage.source.run("INSERT INTO m VALUES (1, 'low', 1)");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn a_partition_that_leaves_its_table_stops_the_extract() {
    let stage = stage("PARTITION m.*");
    stage.source.run("INSERT INTO m VALUES (1, 'low', 1)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    replicat.stop();
    stage.source.run("ALTER TABLE m DETACH PARTITION m_high");
    // It looks from time to time.
    let message = extract.fails();
    assert!(message.contains("public.m_high") && message.contains("no partition of public.m any more"), "{message}");
}
