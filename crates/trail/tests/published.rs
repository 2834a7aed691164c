//! Records of other products, as published in articles and documentation: bytes that we did not make.

use change::{Row, Value};
use serde_json::Value as Json;
use trail::format::bytes::{Cursor, Order};
use trail::format::column::{self, Width};
use trail::format::record::{self, Envelope, RecordView, operation};
use trail::format::token;

struct Published {
    name: String,
    order: Order,
    bytes: Vec<u8>,
    /// Column index and raw content, in hexadecimal; `key` and `after` instead of indexes for a key update.
    columns: Vec<(Json, String)>,
    has_columns: bool,
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn published() -> Vec<Published> {
    let all: Vec<Json> = serde_json::from_str(include_str!("fixtures/published_records.json")).expect("is JSON");
    let text = |record: &Json, field: &str| record[field].as_str().expect("a text").to_owned();
    let read = |record: &Json| Published {
        name: text(record, "name"),
        order: if record["order"] == "BE" { Order::Big } else { Order::Little },
        bytes: from_hex(&text(record, "hex")),
        columns: record["columns"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|column| (column[0].clone(), column[1].as_str().expect("hexadecimal").to_owned()))
            .collect(),
        // In some samples the data was not published and is zeros here.
        has_columns: !text(record, "note").contains("not published"),
    };
    let records: Vec<Published> = all.iter().map(read).collect();
    assert_eq!(records.len(), 18);
    records
}

fn find(name: &str) -> Vec<u8> {
    published().into_iter().find(|record| record.name == name).expect("is among them").bytes
}

fn split(list: &[u8], order: Order) -> Vec<(Json, String)> {
    let mut cursor = Cursor::new(list, order);
    let mut columns = Vec::new();
    while let Some(entry) = column::next(&mut cursor, Width::Narrow).expect("is a list") {
        let raw = entry.raw.iter().map(|byte| format!("{byte:02x}")).collect();
        columns.push((Json::from(entry.index), raw));
    }
    columns
}

#[test]
fn frames_and_byte_orders_are_recognised() {
    for published in published() {
        let Published { name, order, bytes, .. } = published;
        assert_eq!(record::detect_order(&bytes), Ok(order), "{name}");
        assert_eq!(record::frame(&bytes, order).map(<[u8]>::len), Ok(bytes.len()), "{name}");
        assert!(record::frame(&bytes[..bytes.len() - 1], order).is_err(), "{name}");
    }
}

#[test]
fn columns_are_split_as_the_samples_say() {
    for published in published().into_iter().filter(|published| published.has_columns) {
        let view = RecordView::read(&published.bytes, published.order).expect("is a record");
        match view.header.operation {
            operation::INSERT | operation::DELETE | operation::UPDATE => {
                assert_eq!(split(view.data, published.order), published.columns, "{}", published.name);
            }
            operation::KEY_UPDATE => {
                let mut cursor = Cursor::new(view.data, published.order);
                let length = cursor.u16("key").expect("has a length");
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                let key = hex(cursor.take(usize::from(length), "key").expect("has a key"));
                let after = hex(cursor.rest());
                assert_eq!(published.columns, [(Json::from("key"), key), (Json::from("after"), after)]);
            }
            _ => assert!(published.columns.is_empty(), "{}", published.name),
        }
    }
}

/// With the trailing checksum left out there is no difference at all, for all 18 samples.
#[test]
fn a_record_written_again_has_the_same_bytes() {
    for Published { name, order, bytes, .. } in published() {
        let view = RecordView::read(&bytes, order).expect("is a record");
        let envelope =
            |has_checksum| Envelope { object: view.object, tokens: view.tokens, user: view.user_tokens, has_checksum };
        let put = |envelope: &Envelope<'_>| {
            let mut again = Vec::new();
            record::put(&mut again, order, &view.header, envelope, |buffer| buffer.extend_from_slice(view.data));
            again
        };
        let mut again = put(&envelope(false));
        if name == "doc_legacy_insert" {
            // The oldest sample is little-endian without saying so.
            assert_eq!((again[1], bytes[1]), (1, 0));
            let trailer = again.len() - 3;
            (again[1], again[trailer]) = (0, 0);
        }
        assert_eq!(again, bytes, "{name}");

        let mut ours = put(&envelope(true));
        record::seal(&mut ours, order, view.header.transaction, 0);
        let view = RecordView::read(record::frame(&ours, order).expect("has a frame"), order).expect("is a record");
        assert_eq!(view.verify(), Ok(()), "{name}");
    }
}

/// What the samples hold inside, taken apart and put together again: the tokens of every one, and the columns.
#[test]
fn tokens_and_columns_put_together_again_have_the_same_bytes() {
    let (mut tokens, mut lists) = (0, 0);
    for Published { name, order, bytes, has_columns, .. } in published() {
        let view = RecordView::read(&bytes, order).expect("is a record");
        let mut again = Vec::new();
        let mut cursor = Cursor::new(view.tokens, order);
        while let Some(token) = token::next(&mut cursor).expect("is a token") {
            token::put(&mut again, order, token.id, token.info, |buffer| buffer.extend_from_slice(token.payload));
            tokens += 1;
        }
        assert_eq!(again, view.tokens, "{name}");
        if !has_columns || !matches!(view.header.operation, operation::INSERT | operation::DELETE | operation::UPDATE) {
            continue;
        }
        let mut again = Vec::new();
        let mut cursor = Cursor::new(view.data, order);
        while let Some(entry) = column::next(&mut cursor, Width::Narrow).expect("is a list") {
            again.extend_from_slice(&order.of_u16(entry.index));
            again.extend_from_slice(&order.of_u16(entry.raw.len() as u16));
            again.extend_from_slice(entry.raw);
        }
        assert_eq!(again, view.data, "{name}");
        lists += 1;
    }
    assert_eq!((tokens, lists), (33, 10), "tokens and lists of columns that were published");
}

#[test]
fn header_fields_are_those_that_were_printed() {
    let bytes = find("mysql21_insert");
    let view = RecordView::read(&bytes, Order::Little).expect("is a record");
    let header = view.header;
    assert_eq!((header.audit_position, header.audit_offset, header.transaction, header.format), (7, 12010, 3, b'R'));
    assert_eq!((header.before_after, header.partition, header.origin, header.count), (b'A', 0x0C, 255, 1));
    assert_eq!(view.csn, Some(&b"000000000000000000007:000000000012041"[..]));
    assert_eq!(view.transaction_id, Some(&b"000000000000000000007:000000000011887"[..]));
}

#[test]
fn a_text_column_of_ours_has_the_bytes_of_theirs() {
    let bytes = find("mysql21_insert");
    let view = RecordView::read(&bytes, Order::Little).expect("is a record");
    let mut list = Vec::new();
    column::put_narrow(&mut list, Order::Little, &Row::from_values([Value::Unchanged, Value::Bytes(b"insert")]));
    assert!(view.data.ends_with(&list) && list.len() == 14, "{list:?}");
}

/// Addresses of following records, as Logdump printed them.
#[test]
fn chains_of_records_lead_to_the_printed_addresses() {
    let chains: [(&[&str], &[u64]); 5] = [
        (
            &["mysql21_ddr", "mysql21_tdr", "mysql21_insert", "mysql21_update_fieldcomp", "mysql21_delete"],
            &[6237, 6369, 6571, 6733, 6895, 7043],
        ),
        (&["mysql21_insert3", "mysql21_fieldcomp3", "mysql21_pkupdate115"], &[1924, 2099, 2258, 2418]),
        (&["pg21_tdr"], &[1526, 1840]),
        (&["pg21_ref_tdr"], &[3597, 3655]),
        (&["pg21_update"], &[5408, 5521]),
    ];
    for (names, addresses) in chains {
        let bytes: Vec<u8> = names.iter().flat_map(|name| find(name)).collect();
        let mut at = 0;
        let mut seen = vec![addresses[0]];
        while at < bytes.len() {
            at += record::frame(&bytes[at..], Order::Little).expect("is a record").len();
            seen.push(addresses[0] + at as u64);
        }
        assert_eq!(seen, addresses);
    }
}
