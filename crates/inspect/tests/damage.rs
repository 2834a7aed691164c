//! Damaged and foreign files, in all byte orders.

use crate::stage::{Stage, foreign};
use trail::format::bytes::Order;
use trail::format::record::{Object, RecordHeader, operation};

fn record(order: Order, number: u8) -> Vec<u8> {
    let header = RecordHeader { partition: 4, ..RecordHeader::new(operation::INSERT, 255, 0) };
    let text = format!("s.t{number}");
    foreign(order, header, Object::Name(text.as_bytes()), &[number; 40])
}

fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("Name: s.")).collect()
}

/// The three regimes: little-endian with its flag, big-endian, and little-endian without a flag.
fn regimes() -> [(&'static str, Order, bool); 3] {
    [("flagged", Order::Little, true), ("big", Order::Big, true), ("native", Order::Little, false)]
}

fn file(order: Order, is_flagged: bool) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = (1..=5).map(|number| record(order, number)).collect();
    if !is_flagged {
        for record in &mut records {
            let trailer = record.len() - 3;
            (record[1], record[trailer]) = (0, 0);
        }
    }
    records
}

#[test]
fn all_byte_orders_are_walked_in_both_directions() {
    for (regime, order, is_flagged) in regimes() {
        let mut stage = Stage::with(&file(order, is_flagged).concat());
        assert_eq!(names(&stage.run("N 9")), ["t1", "t2", "t3", "t4", "t5"], "{regime}");
        assert_eq!(names(&stage.run("POS REVERSE; N 9")), ["t5", "t4", "t3", "t2", "t1"], "{regime}");
        assert!(
            stage.run("COUNT").contains("Counting from RBA 0") || stage.run("POS 0; COUNT").contains("has 5 records")
        );
    }
}

#[test]
fn damage_is_walked_over_in_both_directions_and_told() {
    for (regime, order, is_flagged) in regimes() {
        for damaged in 0..5 {
            let mut records = file(order, is_flagged);
            let length = records[damaged].len();
            // Without its beginning and its end it is no record, whatever stands in between.
            records[damaged][0] = b'?';
            records[damaged][length - 4] = b'?';
            let mut stage = Stage::with(&records.concat());
            let expected: Vec<String> =
                (0..5).filter(|number| *number != damaged).map(|number| format!("t{}", number + 1)).collect();
            let text = stage.run("N 9");
            assert_eq!(names(&text), expected, "{regime} {damaged}: {text}");
            assert!(text.contains(&format!("Scanned over {length} bytes at RBA ")), "{text}");
            let text = stage.run("POS EOF; POS REVERSE; N 9");
            let backwards: Vec<&String> = expected.iter().rev().collect();
            assert_eq!(names(&text), backwards, "{regime} {damaged}: {text}");
            let count = stage.run("POS 0; COUNT");
            assert!(count.contains("has 4 records") && count.contains("\nDamaged 1, first at RBA "), "{count}");
        }
    }
}

#[test]
fn a_position_inside_a_record_leads_to_its_neighbours() {
    let records = file(Order::Big, true);
    let second = records[0].len();
    let mut stage = Stage::with(&records.concat());
    stage.run(&format!("POS {}", second + 7));
    assert_eq!(names(&stage.run("SFH")), ["t3"]);
    stage.run(&format!("POS {}", second + 7));
    assert_eq!(names(&stage.run("SFH PREV")), ["t2"]);
    assert_eq!(names(&stage.run("SFH PREV")), ["t1"]);
    assert!(stage.refuses("SFH PREV").contains("no record starts before"));
    stage.run(&format!("POS {}; POS REVERSE", second + 7));
    assert_eq!(names(&stage.run("N 9")), ["t1"]);
}

#[test]
fn a_torn_tail_is_told_and_what_looks_like_a_record_is_none() {
    let records = file(Order::Little, true);
    let mut bytes = records.concat();
    bytes.truncate(bytes.len() - 5);
    let mut stage = Stage::with(&bytes);
    let text = stage.run("N 9");
    assert_eq!(names(&text), ["t1", "t2", "t3", "t4"]);
    assert!(text.contains("the record ends early"), "{text}");
    assert_eq!(names(&stage.run("POS LAST; N")), ["t4"]);
    // Bytes that have the frame of a record and nothing that a record has in it.
    let fake = [b"G\x01\x0c\x00abcdZ\x01\x0c\x00".as_slice(), &[0; 30]].concat();
    let mut stage = Stage::with(&[records[0].clone(), fake.clone(), records[1].clone()].concat());
    let text = stage.run("N 9");
    assert_eq!(names(&text), ["t1", "t2"], "{text}");
    assert!(text.contains("Record of 12 bytes at RBA") && text.contains("Scanned over 30 bytes"), "{text}");
    stage.run(&format!("POS {}", records[0].len()));
    stage.run("DUMP 12");
    assert!(stage.run("SFH").contains("Name: s.t2"));
}

#[test]
fn unknown_types_and_tokens_are_shown() {
    let mut tokens = Vec::new();
    trail::format::token::put(&mut tokens, Order::Big, b'?', 7, |bytes| bytes.extend_from_slice(b"what"));
    let header = RecordHeader { partition: 4, ..RecordHeader::new(222, 255, 0) };
    let bytes = crate::stage::foreign_with(Order::Big, header, Object::Name(b"s.t"), b"some data", &tokens);
    let mut stage = Stage::with(&bytes);
    stage.run("DETAIL DATA; GGSTOKEN DETAIL");
    let text = stage.run("N");
    assert!(text.contains(" Unknown              Len     9 RBA 0\n") && text.contains("some data"), "{text}");
    assert!(text.contains("TokenID x3f '?' Unknown          Info x07  Length    4\n 7768 6174"), "{text}");
    assert!(stage.run("POS 0; COUNT").contains("Unknown-222                  1\n"));
}

#[test]
fn long_searches_show_how_far_they_are_and_stop_when_asked_to() {
    let bytes: Vec<u8> = (0..30_000).flat_map(|number| record(Order::Little, (number % 200) as u8)).collect();
    let mut stage = Stage::with(&bytes);
    stage.run("COUNT");
    let progress = stage.world.progress.borrow().clone();
    assert!(progress.iter().any(|progress| !progress.is_over) && progress.last().is_some_and(|last| last.is_over));
    stage.run("SCANSCROLLING OFF; COUNT");
    assert_eq!(stage.world.progress.borrow().len(), progress.len(), "nothing is shown any more");
    stage.world.interrupt_after.set(Some(0));
    let (_, done) = stage.execute("N 3");
    assert!(matches!(done, Err(inspect::Error::Interrupted)), "{done:?}");
}
