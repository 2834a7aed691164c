//! What an ordinary day is made of.

use super::stage::Stage;

#[test]
fn inserts_updates_and_deletes_arrive() {
    let stage = Stage::new("CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2))");
    stage.source.run("INSERT INTO item SELECT n, 'item ' || n, n FROM generate_series(1, 3000) AS n");
    stage.source.run("UPDATE item SET price = price * 2 WHERE id % 3 = 0; DELETE FROM item WHERE id % 7 = 0");
    stage.source.run("UPDATE item SET id = id + 100000 WHERE id % 5 = 0");
    stage.replicate();
    assert_eq!(stage.assert_equal(), 2573);
    assert_eq!(stage.target.run("SELECT count(*) FROM item WHERE id > 100000"), "515");
    let info = stage.console("INFO ALL");
    assert!(info.contains("STOPPED"), "{info}");
}

#[test]
fn the_trails_header_says_which_database_it_comes_from() {
    let stage = Stage::new("CREATE TABLE item (id int PRIMARY KEY)");
    stage.source.run("INSERT INTO item VALUES (1)");
    stage.replicate();
    let control = "SELECT system_identifier || '/' || oid FROM pg_control_system(), pg_database";
    let identifier = stage.source.run(&format!("{control} WHERE datname = current_database()"));
    let locale = stage.source.run("SELECT datcollate FROM pg_database WHERE datname = current_database()");
    let file = std::fs::read(stage.home().join("dirdat/aa000000000")).expect("a trail file");
    let holds = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
    // UTF-8 is set 0. Names without quotes are stored in lower case (2), case counts in those with quotes (1).
    assert!(holds(&[&[0x33, 0, 4, 0, 0, 0, 0, 0, 0x34, 0][..]].concat()), "the character set");
    assert!(holds(&[&[0x3C, 0, 16, 0][..], &[0x12; 16]].concat()), "the case rules");
    let client = format!("Drover {}", env!("CARGO_PKG_VERSION"));
    let zone = "UTC".to_owned();
    // A text token of group 2: identifier, 0, length of the payload, length of the text, the text.
    for (token, text) in [(0x3E, &identifier), (0x3A, &locale), (0x3D, &zone), (0x38, &client)] {
        let length = u16::try_from(text.len()).expect("a short text");
        let mut bytes = vec![token, 0];
        bytes.extend_from_slice(&(length + 2).to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        assert!(holds(&bytes), "token {token:02x}: {text}");
    }
}
