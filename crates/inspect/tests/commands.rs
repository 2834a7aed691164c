//! Commands and what they say.

use crate::stage::{Stage, foreign, foreign_with};
use trail::format::bytes::Order;
use trail::format::record::{Object, RecordHeader, operation, transaction};

const ORDER: Order = Order::Little;
const NAME: Object<'_> = Object::Name(b"test.ogg_test");

fn change(operation: u8, place: u8, data: &[u8]) -> Vec<u8> {
    let header = RecordHeader {
        partition: 4,
        before_after: if operation == operation::DELETE { b'B' } else { b'A' },
        transaction: place,
        ..RecordHeader::new(operation, 255, 210_866_760_000_000_000)
    };
    foreign(ORDER, header, NAME, data)
}

/// 12 records with 1234 bytes of data, as in the published sample of COUNT: four transactions of one table.
fn twelve() -> Vec<u8> {
    let metadata = |kind: u8, data: &[u8]| {
        foreign(ORDER, RecordHeader::new(operation::METADATA, kind, 0), Object::Name(b"test.ogg_test"), data)
    };
    let mut file = [metadata(1, &[0; 81]), metadata(2, &[0; 138])].concat();
    let (first, middle, last, only) = (transaction::FIRST, transaction::MIDDLE, transaction::LAST, transaction::ONLY);
    let plan = [
        (operation::INSERT, first),
        (operation::INSERT, middle),
        (operation::INSERT, last),
        (operation::INSERT, only),
        (operation::INSERT, first),
        (operation::UPDATE, middle),
        (operation::UPDATE, middle),
        (operation::DELETE, last),
        (operation::UPDATE, first),
        (operation::DELETE, last),
    ];
    for (number, (operation, place)) in plan.into_iter().enumerate() {
        // 9 times 100 and once 115 bytes.
        file.extend(change(operation, place, &vec![0; if number == 0 { 115 } else { 100 }]));
    }
    file
}

#[test]
fn count_is_printed_as_documented() {
    let mut stage = Stage::with(&twelve());
    let expected = "\
LogTrail /home/./aa000000000 has 12 records
Total Data Bytes          1234
  Avg Bytes/Record         102
Delete                       2
Insert                       5
FieldComp                    3
Metadata                     2
Before Images                2
After Images                10

Average of 4 Transactions
    Bytes/Trans .....        308
    Records/Trans ...          3
    Files/Trans .....          1
";
    assert_eq!(stage.run("COUNT"), expected);
    let detail = stage.run("COUNT, DETAIL");
    let table = "\ntest.ogg_test                  Partition x00\nTotal Data Bytes          1234\n";
    assert!(detail.contains(table), "{detail}");
    assert_eq!(stage.run("POS"), "Current position set to RBA 0, shown last -\n", "the position stays");
}

#[test]
fn transactions_that_are_large_are_listed() {
    let mut stage = Stage::with(&twelve());
    stage.run("TIMEOFFSET GMT; TRANSHIST 2; TRANSRECLIMIT 3; TRANSBYTELIMIT 100000");
    let text = stage.run("COUNT");
    let (_, listed) = text.split_once("\nTransactions with at least 3 records or 100000 bytes\n").expect("a list");
    // The third transaction has four records of 100 bytes, the first three with 315.
    let starts: Vec<&str> = listed.lines().filter(|line| line.contains(", RBA ")).collect();
    assert_eq!(starts.len(), 2, "{text}");
    assert!(starts[0].starts_with("1970/01/01 00:00:00.000.000  00:00:00.000000, Seq 0, RBA "), "{text}");
    assert!(listed.contains("    Bytes/Trans .....        400\n    Records/Trans ...          4\n"), "{text}");
    assert!(stage.refuses("TRANSHIST 201").contains("at most 200"));
}

/// Four records with transactions, tokens and times of their own.
fn told_apart() -> Vec<u8> {
    let record = |number: u64, operation: u8, table: &'static [u8], value: &[u8]| {
        let csn = format!("{:010}", number * 10);
        let mut tokens = Vec::new();
        for (id, text) in [(b'L', csn.as_str()), (b'6', &format!("1.2.{number}"))] {
            trail::format::token::put(&mut tokens, ORDER, id, 0, |bytes| bytes.extend_from_slice(text.as_bytes()));
        }
        let header = RecordHeader {
            partition: 4,
            audit_offset: 1000 + number as u32,
            undo: u8::from(number == 3),
            // A minute apart, from 2023-11-14 22:13:20 UTC on.
            ..RecordHeader::new(operation, 255, 210_866_760_000_000_000 + 1_700_000_000_000_000 + number * 60_000_000)
        };
        let data = [&[0, 0, 6, 0, 0, 0], value].concat();
        foreign_with(ORDER, header, Object::Name(table), &data, &tokens)
    };
    [
        record(0, operation::INSERT, b"s.one", b"alfa"),
        record(1, operation::UPDATE, b"s.one", b"beta"),
        record(2, operation::DELETE, b"s.two", b"\x00\x00\x00\x2a"),
        record(3, operation::INSERT, b"t.three", b"\xc1\x82\x83\x84"),
    ]
    .concat()
}

/// The numbers of the records that pass a filter.
fn passing(filter: &str) -> Vec<usize> {
    let mut stage = Stage::with(&told_apart());
    stage.run("TIMEOFFSET GMT");
    stage.run(filter);
    let lengths: Vec<u64> = {
        let mut all = Stage::with(&told_apart());
        let text = all.run("N 10");
        text.lines().filter_map(|line| line.split_once(" RBA ")?.1.parse().ok()).collect()
    };
    let text = stage.run("N 10");
    let found = text.lines().filter_map(|line| line.split_once(" RBA ")?.1.parse::<u64>().ok());
    found.map(|rba| lengths.iter().position(|known| *known == rba).expect("one of the four")).collect()
}

#[test]
fn every_option_of_filter_selects() {
    let cases: &[(&str, &[usize])] = &[
        ("FILTER INCLUDE RECTYPE insert", &[0, 3]),
        ("FILTER INC IOTYPE Delete, 15", &[1, 2]),
        ("FILTER EXCLUDE RECTYPE 5", &[1, 2]),
        ("FILTER RECTYPE <> Insert", &[1, 2]),
        ("FILTER INCLUDE STRING /alfa/", &[0]),
        ("FILTER INCLUDE STRING \"beta\" 6:9", &[1]),
        ("FILTER INCLUDE STRING /beta/ 0:8", &[]),
        ("FILTER INCLUDE STRING BOTH /Abcd/", &[3]),
        ("FILTER INCLUDE STRING /Abcd/", &[]),
        ("FILTER INCLUDE HEX \"616c\"", &[0]),
        ("FILTER INCLUDE HEX \"616c\" 0:3", &[]),
        ("FILTER INCLUDE INT32 42", &[2]),
        ("FILTER INCLUDE INT16 42", &[2]),
        ("FILTER INCLUDE INT64 42", &[]),
        ("FILTER INCLUDE FILENAME s.one, T.THREE", &[0, 1, 3]),
        ("FILTER INCLUDE FILENAME s.*", &[0, 1, 2]),
        ("FILTER INCLUDE ANSINAME ?.t*", &[2, 3]),
        ("FILTER INCLUDE TRANSID 1.2.2", &[2]),
        ("FILTER INCLUDE CSN 10", &[1]),
        ("FILTER INCLUDE CSN >= 0000000020", &[2, 3]),
        ("FILTER INCLUDE LOGCSN LT 20", &[0, 1]),
        ("FILTER INCLUDE STARTTIME 2023-11-14 22:14:20", &[1, 2, 3]),
        ("FILTER INCLUDE ENDTIME 2023-11-14 22:14:20", &[0, 1]),
        ("FILTER INCLUDE STARTTIME > 2023-11-14 22:14:20", &[2, 3]),
        ("FILTER INCLUDE SYSKEYLEN 0", &[0, 1, 2, 3]),
        ("FILTER INCLUDE SYSKEY 1", &[]),
        ("FILTER INCLUDE TRANSIND ONLY", &[0, 1, 2, 3]),
        ("FILTER INCLUDE TRANSIND < 3", &[]),
        ("FILTER INCLUDE UNDOFLAG 1", &[3]),
        ("FILTER INCLUDE RECLEN = 10", &[0, 1, 2, 3]),
        ("FILTER INCLUDE RECLEN NE 10", &[]),
        ("FILTER INCLUDE RBA 0", &[0]),
        ("FILTER INCLUDE RBA > 0", &[1, 2, 3]),
        ("FILTER INCLUDE AUDITRBA == 1002", &[2]),
        ("FILTER INCLUDE AUDITRBA <= 1001", &[0, 1]),
        ("FILTER INCLUDE AUDITRBA GE 1002", &[2, 3]),
        ("FILTER INCLUDE AUDITRBA EQ 1002", &[2]),
        ("FILTER INCLUDE AUDITRBA != 1002", &[0, 1, 3]),
        ("FILTER INCLUDE AUDITRBA GT 1002", &[3]),
        ("FILTER INCLUDE AUDITRBA LE 1000", &[0]),
        ("FILTER INCLUDE GGSTOKEN TRANID 1.2.3", &[3]),
        ("FILTER INCLUDE GGSTOKEN TRANID", &[0, 1, 2, 3]),
        ("FILTER INCLUDE GGSTOKEN ORATAG", &[]),
        ("FILTER INCLUDE USERTOKEN TKN-HOST", &[]),
        ("FILTER INCLUDE PROCESS E1", &[]),
        ("FILTER INCLUDE @GETENV (\"GGHEADER\", \"OPTYPE\") = DELETE", &[2]),
        ("FILTER EXCLUDE GGS_OP_TYPE = INSERT", &[1, 2]),
        ("FILTER INCLUDE GGS_TRANS_RBA = 1003", &[3]),
        // Several.
        ("FILTER INC RECTYPE insert; FILTER INC FILENAME s.*", &[0]),
        ("FILTER INC RECTYPE insert; FILTER INC FILENAME s.*; FILTER MATCH ANY", &[0, 1, 2, 3]),
        ("FILTER EXC RECTYPE insert; FILTER EXC FILENAME s.one", &[2]),
        ("FILTER EXC RECTYPE insert; FILTER EXC FILENAME s.one; FILTER EXCLUDE MATCH ALL", &[1, 2, 3]),
        ("FILTER INC RECTYPE insert; FILTER OFF", &[0, 1, 2, 3]),
        ("FILTER INC RECTYPE insert; FILTER DISABLE; FILTER ENABLE", &[0, 3]),
        ("FILTER INC RECTYPE insert; FILTER INC FILENAME s.*; FILTER CLEAR 0", &[0, 1, 2]),
        ("FILTER INC RECTYPE insert; FILTER CLEAR ALL", &[0, 1, 2, 3]),
    ];
    for (filter, expected) in cases {
        assert_eq!(passing(filter), *expected, "{filter}");
    }
}

#[test]
fn filters_are_shown_as_documented_and_wrong_ones_are_refused() {
    let mut stage = Stage::new();
    stage.run("FILTER INC FILENAME x; FILTER INC RECTYPE Delete; FILTER INC HEX \"0a0b0c0d\" 0:3");
    let collapsed: Vec<String> =
        stage.run("SHOW FILTER").lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "Data filters are ENABLED",
        "Include Match ALL",
        "Filename-0 : x",
        "Rectypes : Delete",
        "HEX-2 : ( 4), Col 0:3",
        "0a0b 0c0d | ....",
        "Exclude Match ANY",
    ];
    assert_eq!(collapsed, expected);
    assert_eq!(stage.run("FILTER"), stage.run("FILTER SHOW"));
    for (wrong, why) in [
        ("FILTER INC RECTYP insert", "did you mean RECTYPE?"),
        ("FILTER INC RECTYPE insrt", "did you mean Insert?"),
        ("FILTER INC FILENAME a RBA 5", "one word too many"),
        ("FILTER INC RBA x", "needs a number"),
        ("FILTER INC HEX 123", "hexadecimal"),
        ("FILTER INC STARTTIME noon", "needs a time"),
        ("FILTER INC @GETENV (\"GGHEADER\", \"OPTYP\") = X", "did you mean OPTYPE?"),
        ("FILTER CLEAR 9", "no filter 9"),
        ("FILTER MATCH SOME", "ANY or ALL"),
        ("FILTER INC", "need an option"),
    ] {
        let told = stage.refuses(wrong);
        assert!(told.contains(why), "{wrong}: {told}");
    }
}

#[test]
fn searches_find_and_stand_behind_what_they_found() {
    let mut stage = Stage::with(&twelve());
    assert!(stage.run("SFT Delete").contains(" Delete "), "by name");
    let behind = stage.run("POS");
    assert!(stage.run("RECORD").contains(" Delete ") && stage.run("POS") == behind, "RECORD moves nothing");
    assert!(stage.run("POS 0; SFT 15, test.*").contains(" FieldComp "));
    assert!(stage.refuses("SFT 15, other.*").contains("not come any more"));
    assert!(stage.run("POS 0; SFET").contains("End of Transaction found at RBA "));
    assert!(stage.run("NEXT").contains("G  s"), "the transaction of one record comes next");
    assert!(stage.run("POS 0; SFNT").contains("G  b"));
    assert!(stage.run("POS 0; SFMD TDR").contains("Table Name: test.ogg_test"));
    assert!(stage.run("SFMD DDR 0").contains("DDR body not understood, 81 bytes"));
    assert!(stage.refuses("SFMD TDR 7").contains("such a definition"));
    let mut stage = Stage::with(&told_apart());
    stage.run("TIMEOFFSET GMT");
    assert!(stage.run("SFR 1002").contains("Name: s.two"));
    assert!(stage.run("POS 0; SFTS 2023-11-14 22:15").contains("Name: s.two"));
    assert!(stage.run("BEGIN 2023-11-14 22:16").starts_with("Reading forward from RBA "));
    assert!(stage.run("NEXT").contains("Name: t.three"));
    assert!(stage.run("SFH PREV").contains("Name: s.two") && stage.run("SFH PREV").contains("Name: s.one"));
    assert!(stage.run("POS 0; SKIP 2; NEXT").contains("Name: s.two"));
    assert!(stage.run("POS LAST; NEXT").contains("Name: t.three"));
    assert!(stage.run("POS EOF; NEXT").ends_with(&format!("from RBA {}\n", told_apart().len())));
    assert!(stage.run("POS REVERSE; NEXT").contains("Name: t.three") && stage.run("N").contains("Name: s.two"));
    assert_eq!(stage.run("POS FIRST; N 3").matches(" RBA ").count(), 4);
}

#[test]
fn a_part_is_saved_with_remarks_and_can_be_read() {
    let mut stage = Stage::with(&twelve());
    stage.run("POS 0; SKIP 5");
    let told = stage.run("SAVE part 3 RECORDS");
    assert!(told.starts_with("Saved 3 records, "), "{told}");
    stage.run("OPEN part; DETAIL ON");
    let text = stage.run("N 100");
    let kinds: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" Len ") && line.contains(" RBA "))
        .map(|line| line.split_whitespace().nth(2).expect("a kind"))
        .collect();
    // The definitions come along.
    assert_eq!(kinds, ["Metadata", "Metadata", "GGSComment", "Insert", "Insert", "FieldComp", "GGSComment"]);
    assert!(stage.refuses("OPEN aa000000000; SAVE part 1 RECORDS").contains("exists"));
    stage.run("OPEN aa000000000; SAVE part ! 250 BYTES NOCOMMENT TRANSIND ONLY");
    assert!(!stage.run("OPEN part; N 100").contains("GGSComment"));
    assert!(
        stage.refuses("SAVE x").contains("how much") && stage.refuses("SAVE x 5 RECORDS OLDFORMAT").contains("6.0")
    );
}

#[test]
fn the_log_takes_what_is_shown() {
    let mut stage = Stage::with(&twelve());
    let shown = [stage.run("LOG out.txt"), stage.run("COUNT")].concat();
    stage.run("WRITELOG a remark; with a semicolon");
    stage.run("LOG STOP");
    stage.run("COUNT");
    let log = String::from_utf8(stage.content("out.txt")).expect("text");
    assert_eq!(log, format!("{shown}a remark; with a semicolon\n"));
    assert!(stage.refuses("LOG STOP").contains("no log"));
    // Whatever reads only must not write into what it reads.
    let before = stage.run("COUNT");
    assert!(stage.refuses("LOG aa000000000").contains("file of a trail"));
    assert!(stage.refuses("SAVE aa000000000 ! 5 RECORDS").contains("into itself"));
    assert_eq!(stage.run("OPEN aa000000000; COUNT").lines().last(), before.lines().last());
}

#[test]
fn commands_of_a_file_and_of_the_history_are_run() {
    let mut stage = Stage::with(&twelve());
    stage.put("setup.oby", b"-- a remark\nGHDR ON\nRECLEN 20; DETAIL ON\n");
    stage.put("loop.oby", b"OBEY loop.oby\n");
    stage.run("OBEY setup.oby");
    let environment = stage.run("ENV");
    for line in ["Show Ghdr               : On", "Display RecLen          : 20", "Detail                  : On"] {
        assert!(environment.contains(line), "{environment}");
    }
    assert!(stage.refuses("OBEY loop.oby").contains("leads to itself"));
    assert!(stage.refuses("TIME; FC").contains("leads to itself"));
    assert_eq!(stage.run("TIMEOFFSET GMT +5:30"), stage.run("FC time").replace("> TIMEOFFSET GMT +5:30\n", ""));
    assert!(stage.run("HISTORY 2").contains("TIMEOFFSET GMT +5:30"));
    assert!(stage.refuses("FC nothing like it").contains("no such command"));
    stage.run("X ls -l; date");
    assert_eq!(*stage.world.programs.borrow(), ["ls -l; date"]);
}

#[test]
fn the_environment_is_shown_as_documented() {
    let mut stage = Stage::new();
    let text = stage.run("ENV");
    for line in [
        "Current Volume          : /home/.",
        "Display RecLen          : 140",
        "Logtrail Filter         : On",
        "Show Ghdr               : Off",
        "Trans History           : 0 Transactions, Records 100, Bytes 100000",
        "Logtrail Headers        : ASCII",
        "Timeoffset              : LOCAL",
        "Scan Notify Interval    : 10000 records, Scrolling On",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    stage.put("be", &foreign(Order::Big, RecordHeader::new(5, 255, 0), NAME, b""));
    let text = stage.run("OPEN be; SHOW ENV");
    assert!(text.contains("Logtrail Data           : Big Endian/ASCII\n"), "{text}");
    let types = stage.run("SHOW RECTYPE");
    assert!(types.starts_with("1 - Abort\n2 - Commit\n3 - Delete\n4 - EndRollBack\n"), "{types}");
}

#[test]
fn numbers_are_explained() {
    let mut stage = Stage::new();
    stage.run("TIMEOFFSET GMT");
    // Published: x02F216D3295357E1 is 2014-01-23 09:17:07.072993 UTC.
    assert_eq!(stage.run("INTERPRETTIMESTAMP x02F216D3295357E1"), "2014/01/23 09:17:07.072.993\n");
    assert_eq!(
        stage.run("COMPUTETIMESTAMP 2014/01/23 09:17:07.072.993"),
        format!("{} (x02F216D3295357E1)\n", 0x02F2_16D3_2953_57E1_u64)
    );
    assert_eq!(stage.run("CTIME 1700000000"), "2023/11/14 22:13:20.000.000\n");
    assert_eq!(stage.run("INTERPRETINTERVAL 90000001"), "00:01:30.000001\n");
    assert_eq!(stage.run("FLOAT 400921FB54442D18"), "3.141592653589793\n");
    assert_eq!(stage.run("FLOAT 2.5 FORMAT %8.2f"), "    2.50\n");
    assert_eq!(stage.run("FLOAT 3.14159265358979"), "3.14159265358979\n");
    assert!(stage.refuses("FLOAT 2.5 FORMAT %\u{e9}").contains("no format"));
    assert_eq!(stage.run("SHOW TIME"), "Current Time is 2023/11/14 22:13:20.000.000\n");
}

#[test]
fn wrong_commands_are_refused_with_a_suggestion() {
    let mut stage = Stage::new();
    for (wrong, why) in [
        ("NEXX", "did you mean NEXT?"),
        ("FROBNICATE", "HELP lists all"),
        ("NEXT x", "needs a number"),
        ("NEXT", "no file is open"),
        ("GHDR MAYBE", "GHDR ON | OFF"),
        ("DETAIL DTA", "did you mean DATA?"),
        ("ENCRYPT x", "ENCRYPTTRAIL"),
        ("TMFBEFOREIMAGE ON", "NonStop"),
        ("TIMEOFFSET CET", "no time zone"),
        ("METADATA XML", "DEFGENFORMAT"),
        ("COUNT, INTERVAL 0", "number of minutes"),
        ("COUNT, DETIAL", "did you mean DETAIL?"),
        ("HELP FLITER", "did you mean FILTER?"),
        ("DECRYPT ON", "no wallet"),
    ] {
        let told = stage.refuses(wrong);
        assert!(told.contains(why), "{wrong}: {told}");
    }
    assert!(stage.refuses("OPEN nothing").contains("could not open /home/./nothing"));
}

#[test]
fn help_and_completion_come_from_the_table() {
    let mut stage = Stage::new();
    let all = stage.run("HELP");
    for form in inspect::grammar::COMMANDS {
        assert!(all.contains(form.name), "{}", form.name);
        assert!(stage.run(&format!("HELP {}", form.name)).contains(form.summary), "{}", form.name);
        for alias in form.aliases {
            assert_eq!(inspect::grammar::find(alias).map(|found| found.name), Some(form.name), "{alias}");
        }
    }
    assert_eq!(inspect::grammar::complete("FILTER inc"), (7, vec!["INCLUDE"]));
    assert_eq!(inspect::grammar::complete("scanfort"), (0, vec!["SCANFORTYPE", "SCANFORTIME"]));
    assert_eq!(inspect::grammar::complete("n; show e"), (8, vec!["ENV"]));
    assert_eq!(inspect::grammar::find("sfet").map(|form| form.name), Some("SCANFORENDTRANS"));
    assert_eq!(inspect::grammar::find("comp").map(|form| form.name), Some("COMPUTETIMESTAMP"));
    assert!(inspect::grammar::find("scanfor").is_none(), "several begin with it");
}
