//! What Logdump printed of real trails, as published, from the bytes that were published with it.

use crate::stage::{Stage, filler, foreign};
use serde_json::Value as Json;
use trail::PartitionName;
use trail::format::bytes::Order;
use trail::format::record::{Object, RecordHeader, metadata_kind, operation, partition, transaction};

fn find(name: &str) -> Vec<u8> {
    let all: Vec<Json> =
        serde_json::from_str(include_str!("../../trail/tests/fixtures/published_records.json")).expect("is JSON");
    let found = all.iter().find(|record| record["name"] == name).expect("is among them");
    from_hex(found["hex"].as_str().expect("a text"))
}

fn names() -> Vec<String> {
    let all: Vec<Json> =
        serde_json::from_str(include_str!("../../trail/tests/fixtures/published_records.json")).expect("is JSON");
    all.iter().map(|record| record["name"].as_str().expect("a text").to_owned()).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// A file with the records from this address on.
fn file_at(rba: usize, names: &[&str]) -> Vec<u8> {
    let records: Vec<u8> = names.iter().flat_map(|name| find(name)).collect();
    [filler(Order::Little, rba), records].concat()
}

/// The published session was at +09:00.
fn stage_at(rba: usize, names: &[&str]) -> Stage {
    let mut stage = Stage::with(&file_at(rba, names));
    stage.run("TIMEOFFSET GMT +9");
    stage
}

#[test]
fn a_record_is_printed_as_published() {
    let mut stage = stage_at(6237, &["mysql21_ddr", "mysql21_tdr", "mysql21_insert"]);
    stage.run("GHDR ON; DETAIL DATA");
    assert_eq!(stage.run("POS 6571"), "Reading forward from RBA 6571\n");
    let expected = "\
___________________________________________________________________
Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)
UndoFlag   :     .  (x00)     BeforeAfter:     A  (x41)
RecLength  :    24  (x0018)   IO Time    : 2022/12/26 15:03:44.000.000
IOType     :     5  (x05)     OrigNode   :   255  (xff)
TransInd   :     .  (x03)     FormatType :     R  (x52)
SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)
AuditRBA   :      12010       AuditPos   : 7
Continued  :     N  (x00)     RecCount   :     1  (x01)

2022/12/26 15:03:44.000.000 Insert               Len    24 RBA 6571
Name: test.ogg_test  (TDR Index: 1)
After  Image:                                             Partition x0c   G  s
 0000 0600 0000 0000 0001 0100 0a00 0000 0600 696e | ..................in
 7365 7274                                         | sert
Column 0 (0x0000), Length 6 (0x0006).
 0000 0000 0001                                    | ......
Column 1 (0x0001), Length 10 (0x000a).
 0000 0600 696e 7365 7274                          | ....insert

";
    assert_eq!(stage.run("N"), expected);
    assert_eq!(stage.run("N"), "", "nothing is shown at the end");
}

#[test]
fn tokens_of_a_record_are_printed_as_published() {
    let mut stage = stage_at(6237, &["mysql21_ddr", "mysql21_tdr", "mysql21_insert"]);
    stage.run("GHDR ON; HEADERTOKEN DETAIL; POS 6571");
    let text = stage.run("N");
    let expected = "\
TokenID x47 'G' Record Header    Info x01  Length  162
TokenID x48 'H' GHDR             Info x00  Length   36
 450c 0041 1800 05ff 00a0 8d5a e816 f302 0700 0000 | E..A.......Z........
 0000 0000 ea2e 0000 0352 0000 0001 0000           | .........R......
TokenID x44 'D' Data             Info x00  Length   24
TokenID x54 'T' GGS Tokens       Info x00  Length   82
TokenID x5a 'Z' Record Trailer   Info x01  Length  162
___________________________________________________________________
";
    assert!(text.starts_with(expected), "{text}");

    let mut stage = stage_at(1840, &["pg21_insert_begin"]);
    stage.run("GGSTOKEN DETAIL; POS 1840");
    let text = stage.run("N");
    let expected = "
GGS tokens:
TokenID x74 't' ORATAG           Info x01  Length    0
TokenID x4c 'L' LOGCSN           Info x00  Length   17
 3030 3030 3030 3030 2f30 3530 3032 3831 38        | 00000000/05002818
TokenID x36 '6' TRANID           Info x00  Length    3
 3731 37                                           | 717

";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_key_update_is_printed_as_published() {
    let mut stage = stage_at(1924, &["mysql21_insert3", "mysql21_fieldcomp3", "mysql21_pkupdate115"]);
    stage.run("DETAIL DATA; POS 2258");
    let text = stage.run("N");
    let expected = "\
Before Image          Len    12 (x0000000c)
KeyLen    10 (x0000000a)
KeyCol     0 (x0000), Len     6 (x0006)
 0000 0000 000a                                    | ......

After Image           Len    10 (x0000000a)
Column     0 (x0000), Len     6 (x0006)
 0000 0000 0009                                    | ......

";
    assert!(text.ends_with(expected), "{text}");
    assert!(text.contains(" GGSPKUpdate          Len    22 RBA 2258\n"), "{text}");
}

/// Lines without regard to case and to how many blanks stand between words: the published example has gone through both.
fn normalised(text: &str) -> Vec<String> {
    let line = |line: &str| line.to_uppercase().split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_partition_example_of_the_documentation_is_reproduced() {
    const EXPECTED: &str = "\
HDR-IND : E (X45) PARTITION : . (XFF80)
UNDOFLAG : . (X00) BEFOREAFTER: A (X41)
RECLENGTH : 0 (X0000) IO TIME : 2019/01/17 16:48:01.129.045
IOTYPE : 170 (XAA) ORIGNODE : 4 (X04)
TRANSIND : . (X03) FORMATTYPE : R (X52)
SYSKEYLEN : 0 (X00) INCOMPLETE : . (X00)
TDR/PNR IDX: (001, 002) AUDITPOS : 13287580
CONTINUED : N (X00) RECCOUNT : 1 (X01)
2019/01/17 16:48:01.129.045 METADATA LEN 0 RBA 3425
PARTITION NAME: P1 PARTITION ID: 75,234 FLAGS: X00000001
___________________________________________________________________
HDR-IND : E (X45) PARTITION : . (XFF8C)
UNDOFLAG : . (X00) BEFOREAFTER: A (X41)
RECLENGTH : 18 (X0012) IO TIME : 2019/01/17 16:47:58.000.000
IOTYPE : 5 (X05) ORIGNODE : 255 (XFF)
TRANSIND : . (X00) FORMATTYPE : R (X52)
SYSKEYLEN : 0 (X00) INCOMPLETE : . (X00)
AUDITRBA : 15 AUDITPOS : 13287580
CONTINUED : N (X00) RECCOUNT : 1 (X01)
2019/01/17 16:47:58.000.000 INSERT LEN 18 RBA 3486
NAME: TKGGU1.T1 (PARTITION: P1, TDR/PNR INDEX: 1/2)
AFTER IMAGE: PARTITION X8C G B
0000 0500 0000 0100 3101 0005 0000 0001 0031 | ........1........1
COLUMN 0 (X0000), LEN 5 (X0005)
0000 0100 31 | ....1
COLUMN 1 (X0001), LEN 5 (X0005)
0000 0100 31 | ....1
";
    let order = Order::Little;
    // 2019-01-17 16:48:01.129045 and 16:47:58 UTC.
    let julian = |unix_micros: u64| 210_866_760_000_000_000 + unix_micros;
    let (written, committed) = (julian(1_547_743_681_129_045), julian(1_547_743_678_000_000));
    let of = |operation, origin, time| RecordHeader::new(operation, origin, time);
    let metadata = |kind, first, second| {
        let header = RecordHeader { audit_position: 13_287_580, ..of(operation::METADATA, kind, written) };
        header.with_indexes(order, first, second)
    };
    let table = foreign(order, metadata(metadata_kind::TABLE, 1, 1), Object::Name(b"TKGGU1.T1"), &[0; 134]);
    let partition_of = |name: &str, number: u16| {
        let mut object = Vec::new();
        PartitionName { name: name.to_owned(), id: 75_234, flags: 1 }.put(&mut object, order);
        let header =
            RecordHeader { partition: partition::PARTITION_INDEXED, ..metadata(metadata_kind::PARTITION, 1, number) };
        foreign(order, header, Object::Partition(&object), &[])
    };
    let insert = RecordHeader {
        partition: 0x8C,
        audit_position: 13_287_580,
        audit_offset: 15,
        transaction: transaction::FIRST,
        ..of(operation::INSERT, 255, committed)
    };
    let data = from_hex("000005000000010031010005000000010031");
    let insert = foreign(order, insert, Object::Index { definition: 1, partition: Some(2) }, &data);
    // A file of the release before the one whose columns look otherwise.
    let header = from_hex(&file_header_of_level_7());
    let before = [header.as_slice(), &table, &partition_of("P0", 1)].concat();
    let file = [before.clone(), filler(order, 3425 - before.len()), partition_of("P1", 2), insert].concat();

    let mut stage = Stage::with(&file);
    stage.run("ghdr on; detail data; timeoffset gmt");
    let text = stage.run("n 200");
    let text = text.split_once("RBA 3425").map(|(before, after)| {
        let start = before.rfind("Hdr-Ind").expect("a header");
        format!("{}RBA 3425{after}", &before[start..])
    });
    assert_eq!(normalised(&text.expect("is shown")), normalised(EXPECTED));
}

/// A file header with nothing but the signature and the level.
fn file_header_of_level_7() -> String {
    let group = "30000008 47470d0a544c0a0d 31000002 0700"
        .replace(' ', "")
        .replace("30000008", "30000800")
        .replace("31000002", "31000200");
    let length = group.len() / 2;
    let total = 4 + 4 + length + 4;
    format!("4601{:02x}00 3000{:02x}00 {group} 5a01{:02x}00", total, length, total).replace(' ', "")
}

#[test]
fn file_headers_are_printed_with_the_published_names_and_lengths() {
    // The published beginning of a header of level 3, up to the file's name.
    let tokens = "3000000847470d0a544c0a0d 310000020003 3200000420000000 3300000802f257bddd5ec9b0 \
                  3400001e001c7572693a682d3762366734677178 3a3a646174613a6f6767746573740000";
    let tokens = tokens.split_whitespace().collect::<String>();
    let tokens = from_hex(&tokens[..tokens.len() - 4]);
    let group = [&[0x30, 0, 0, u8::try_from(tokens.len()).expect("short")], tokens.as_slice()].concat();
    let total = u16::try_from(group.len() + 8).expect("short").to_be_bytes();
    let file = [&[b'F', 0, total[0], total[1]], group.as_slice(), &[b'Z', 0, total[0], total[1]]].concat();
    let mut stage = Stage::with(&file);
    stage.run("TIMEOFFSET GMT; FILEHEADER DETAIL");
    let text = stage.run("POS 0; NEXT");
    let line =
        format!("2014/01/23 {} FileHeader           Len {:>5} RBA 0\nName: *FileHeader*\n", "07:59:00", group.len());
    let (_, name) = line.split_once(" FileHeader").expect("a line");
    assert!(text.contains(&format!(" FileHeader{name}")), "{text}");
    for expected in [
        "TokenID x30 '0' Signature        Info x00  Length    8\n 4747 0d0a 544c 0a0d                               | GG..TL..\n",
        "TokenID x31 '1' Compatibility    Info x00  Length    2\n 0003                                              | ..\n",
        "TokenID x32 '2' Charset          Info x00  Length    4\n",
        "TokenID x33 '3' CreationTime     Info x00  Length    8\n 02f2 57bd dd5e c9b0",
        "TokenID x34 '4' URI              Info x00  Length   30\n 001c 7572 693a 682d 3762 3667 3467 7178 3a3a 6461 | ..uri:h-7b6g4gqx::da\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let group = format!("GroupID x30 '0' TrailInfo        Info x00  Length {:>4}\n", tokens.len());
    assert!(text.contains(&group), "{text}");
    assert!(!stage.run("FILEHEADER OFF; POS 0; NEXT").contains("TokenID"));
}

#[test]
fn every_published_record_can_be_printed_in_every_way() {
    for name in names() {
        let mut stage = Stage::with(&find(&name));
        stage.run("GHDR ON; DETAIL DATA; GGSTOKEN DETAIL; USERTOKEN DETAIL; HEADERTOKEN DETAIL");
        let text = stage.run("NEXT");
        assert!(text.contains("RBA 0"), "{name}: {text}");
        // Of the oldest sample only lengths are known: its data is no list of columns.
        assert_eq!(text.contains("not understood, 60 bytes"), name == "doc_legacy_insert", "{text}");
        if name.ends_with("_ddr") || name.ends_with("_tdr") && !name.contains("ref") {
            assert!(text.contains("another product's"), "{text}");
        }
        stage.run("GGSTOKEN ON; USERTOKEN ON; HEADERTOKEN ON; POS REVERSE");
        assert_eq!(stage.run("NEXT").matches("RBA 0").count(), 1, "{name}");
    }
}

#[test]
fn metadata_records_are_printed_as_published() {
    let mut stage = stage_at(1423, &["mysql21_ddr", "mysql21_tdr"]);
    stage.run("GHDR ON; POS 1423");
    let text = stage.run("N");
    assert!(text.contains("DDR/TDR index:   (001, 000)     AuditPos   : 7\n"), "{text}");
    assert!(text.contains(" Metadata             Len 81 RBA 1423\n"), "{text}");
    let mut stage = stage_at(3597, &["pg21_ref_tdr"]);
    let text = stage.run("POS 3597; N");
    assert!(text.contains("Table Name: test.test_d (Ref TDR Index: 1)\n"), "{text}");
}
