//! Open transactions of a PostgreSQL source: SHOWTRANS against the server's own views, SKIPTRANS through kills.

use super::stage::{Side, Stage};
use super::streaming::{assert_streamed, connect, fill, streaming};
use crate::showch::value;
use crate::stage::{Running, eventually};
use db_postgres::wire::Connection;

/// The blocks of SHOWTRANS, one for each transaction.
fn blocks(answer: &str) -> Vec<String> {
    let blocks = answer.split("------------------------------------------------------------");
    blocks.filter(|block| block.contains("XID:")).map(str::to_owned).collect()
}

#[track_caller]
fn field(block: &str, label: &str) -> String {
    let line = block.lines().find_map(|line| line.strip_prefix(&format!("{label}:")));
    line.unwrap_or_else(|| panic!("{label} is not in {block}")).trim().to_owned()
}

fn one(connection: &mut Connection, sql: &str) -> String {
    let row = connection.query_one(sql, &[]).expect("a query").expect("a row");
    row.text(0).unwrap_or_default().to_owned()
}

/// Waits until the Extract answers and has read everything that the server has written.
fn wait_until_read(stage: &Stage<'_>, extract: &Running) {
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    eventually("the Extract has read everything", || {
        extract.assert_running();
        is_confirmed(&stage.source, &end).then_some(())
    });
}

fn is_confirmed(side: &Side<'_>, end: &str) -> bool {
    side.holds(&format!(
        "SELECT FROM pg_replication_slots WHERE database = '{}' AND confirmed_flush_lsn >= '{end}'",
        side.database
    ))
}

#[test]
fn open_transactions_are_shown_as_the_server_knows_them() {
    let stage = streaming(
        "CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text); \
         CREATE TABLE v (id int PRIMARY KEY, a text)",
    );
    let extract = stage.extract();
    let (mut large, mut small, mut prepared) = (connect(&stage.source), connect(&stage.source), connect(&stage.source));
    large.run("SET application_name = 'batch job'; BEGIN").expect("a transaction");
    fill(&mut large, "t", 1, 3_000);
    large.run("SAVEPOINT s").expect("a savepoint");
    fill(&mut large, "t", 10_001, 3_000);
    large.run("ROLLBACK TO s").expect("a rollback");
    small.run("BEGIN; INSERT INTO u VALUES (1, 'never streamed')").expect("a transaction");
    prepared.run("BEGIN; INSERT INTO v VALUES (1, 'prepared')").expect("a transaction");
    let number = |connection: &mut Connection| one(connection, "SELECT pg_current_xact_id()::xid::text");
    let (of_large, of_small, of_prepared) = (number(&mut large), number(&mut small), number(&mut prepared));
    let gid = format!("{}_held", stage.source.database);
    prepared.run(&format!("PREPARE TRANSACTION '{gid}'")).expect("a preparation");
    assert_streamed(&stage.source, 1);

    // What the server streamed of the large one: all of it but what waits for more, and what was rolled back is gone.
    let shown = eventually("the large one is kept", || {
        let shown = stage.console("SEND EXTRACT e1, SHOWTRANS, DETAIL");
        let first = blocks(&shown).into_iter().next()?;
        (field(&first, "Items") != "0").then_some(shown)
    });
    let shown = blocks(&shown);
    let names: Vec<String> = shown.iter().map(|block| field(block, "XID")).collect();
    assert_eq!(names, [of_large.clone(), of_small.clone(), of_prepared.clone()], "the oldest first");
    let server = |what: &str| {
        stage.source.run(&format!(
            "SELECT to_char({what} AT TIME ZONE 'UTC', 'YYYY-MM-DD:HH24:MI:SS') FROM pg_stat_activity WHERE backend_xid = '{of_large}'"
        ))
    };
    let block = &shown[0];
    assert_eq!(field(block, "Start Time"), server("xact_start"));
    assert_eq!((field(block, "Status"), field(block, "Extract")), ("Running".to_owned(), "E1".to_owned()));
    assert_eq!(field(block, "Tables"), "public.t");
    assert_eq!(field(block, "Server state"), "idle in transaction");
    assert_eq!((field(block, "Program"), field(block, "User")), ("batch job".to_owned(), "postgres".to_owned()));
    let process = stage.source.run(&format!("SELECT pid FROM pg_stat_activity WHERE backend_xid = '{of_large}'"));
    assert_eq!(field(block, "Server process"), process);
    // Its first change stands in the log behind the place that the slot keeps, and before the end.
    let lsn = field(block, "LSN");
    let within = format!(
        "SELECT restart_lsn <= '{lsn}' AND pg_current_wal_lsn() > '{lsn}' FROM pg_replication_slots WHERE database = '{}'",
        stage.source.database
    );
    assert_eq!(stage.source.run(&within), "t");
    assert_eq!(stage.source.run(&format!("SELECT pg_walfile_name('{lsn}')")), field(block, "WAL File"));
    let block = &shown[1];
    assert_eq!((field(block, "Items"), field(block, "Tables")), ("0".to_owned(), "public.u".to_owned()));
    assert!(field(block, "LSN").contains("has not told of it yet"), "{block}");
    let block = &shown[2];
    assert_eq!((field(block, "Status"), field(block, "Prepared as")), ("Prepared".to_owned(), gid.clone()));
    assert_eq!(field(block, "Tables"), "public.v");

    // Less of it, and in other forms.
    assert_eq!(blocks(&stage.console("SEND EXTRACT e1, SHOWTRANS, COUNT 1")).len(), 1);
    assert_eq!(blocks(&stage.console(&format!("SEND EXTRACT e1, SHOWTRANS {of_small}"))).len(), 1);
    assert_eq!(blocks(&stage.console("SEND EXTRACT e1, SHOWTRANS, THRESHOLD 100")).len(), 1);
    for long in ["1H", "1 HOUR", "60 min"] {
        let shown = stage.console(&format!("SEND EXTRACT e1, SHOWTRANS, DURATION {long}, TABULAR"));
        assert!(shown.contains("No transactions found."), "{shown}");
    }
    assert_eq!(blocks(&stage.console("SEND EXTRACT e1, SHOWTRANS, ALL")).len(), 3);
    let refused = stage.console_refuses("SEND EXTRACT e1, SHOWTRANS, ALL, COUNT 1");
    assert!(refused.contains("ALL shows every transaction"), "{refused}");
    let table = stage.console("SEND EXTRACT e1, SHOWTRANS, TABULAR");
    assert_eq!(
        table.lines().filter(|line| line.contains("Running") || line.contains("Prepared")).count(),
        3,
        "{table}"
    );
    stage.console("SEND EXTRACT e1, SHOWTRANS, FILE dirrpt/open.txt");
    assert_eq!(blocks(&stage.text("dirrpt/open.txt")).len(), 3);

    // Refused: what is not the oldest, what is not there, of what nothing is kept, and what nobody has confirmed.
    let refused = stage.console_refuses(&format!("SEND EXTRACT e1, SKIPTRANS {of_small} !"));
    assert!(refused.contains("is not the oldest one") && refused.contains(&of_large), "{refused}");
    let refused = stage.console_refuses("SEND EXTRACT e1, SKIPTRANS 1 !");
    assert!(refused.contains("is not open at the source") && refused.contains("SHOWTRANS"), "{refused}");
    for transaction in [of_small.as_str(), of_prepared.as_str(), "1"] {
        let refused = stage.console_refuses(&format!("SEND EXTRACT e1, FORCETRANS {transaction}, FORCE"));
        assert!(refused.contains("nothing is kept of transaction"), "{refused}");
    }
    let refused = stage.console_refuses(&format!("SEND EXTRACT e1, FORCETRANS {of_large}"));
    assert!(refused.contains("is not forced without being asked twice"), "{refused}");
    assert!(stage.text("drover.log").matches("DRV-00773").count() == 3);
    let bounded = stage.console("SEND EXTRACT e1, BR BRSTATUS");
    assert!(bounded.contains("tells every open transaction again whole") && bounded.contains("kept: 1"), "{bounded}");

    for connection in [&mut large, &mut small] {
        connection.run("COMMIT").expect("a commit");
    }
    stage.source.run(&format!("ROLLBACK PREPARED '{gid}'"));
    wait_until_read(&stage, &extract);
    eventually("none is shown", || {
        stage.console("SEND EXTRACT e1, SHOWTRANS").contains("No transactions found.").then_some(())
    });
    let status = stage.console("SEND EXTRACT e1, STATUS");
    assert!(status.contains("Recovery complete"), "{status}");
    stage.console("STOP EXTRACT e1");
    // Where STATUS stood is where the checkpoint stands.
    let shown = stage.console("INFO EXTRACT e1, SHOWCH");
    let lsn = value(&shown, "Current Checkpoint (position", "LSN");
    assert!(stage.source.run(&format!("SELECT '{lsn}' <= pg_current_wal_lsn()")) == "t");
    extract.wait();
}

#[test]
fn a_skipped_transaction_is_left_out_whole_whatever_is_killed() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    // One that the server streams, one that it does not, one that is rolled back: each is the oldest in its turn.
    let mut users: Vec<Connection> = (0..3).map(|_| connect(&stage.source)).collect();
    users[0].run("BEGIN").expect("a transaction");
    fill(&mut users[0], "t", 1, 3_000);
    users[1].run("BEGIN; INSERT INTO u VALUES (1, 'small and skipped')").expect("a transaction");
    users[2].run("BEGIN; INSERT INTO u VALUES (2, 'rolled back')").expect("a transaction");
    let numbers: Vec<String> =
        users.iter_mut().map(|user| one(user, "SELECT pg_current_xact_id()::xid::text")).collect();
    assert_streamed(&stage.source, 1);
    for number in &numbers {
        let answer = stage.console(&format!("SEND EXTRACT e1, SKIPTRANS {number} !"));
        assert!(answer.contains("is left out when it commits"), "{answer}");
    }
    assert_eq!(stage.text("drover.log").matches("DRV-00771").count(), 3);
    let shown = stage.console("SEND EXTRACT e1, SHOWTRANS");
    assert!(blocks(&shown).iter().all(|block| field(block, "Status") == "Skipped"), "{shown}");
    let refused = stage.console_refuses(&format!("SEND EXTRACT e1, SKIPTRANS {} !", numbers[0]));
    assert!(refused.contains("already"), "{refused}");

    extract.kill();
    let extract = stage.extract();
    fill(&mut users[0], "t", 5_001, 3_000);
    users[2].run("ROLLBACK").expect("a rollback");
    users[1].run("COMMIT").expect("a commit");
    users[0].run("COMMIT").expect("a commit");
    stage.source.run("INSERT INTO u VALUES (3, 'kept')");
    stage.wait_for_signal(&[&extract, &replicat]);
    // Told again after a kill, and left out again.
    extract.kill();
    let extract = stage.extract();
    stage.source.run("UPDATE t SET a = 'late' WHERE id = 1; INSERT INTO u VALUES (4, 'kept')");
    let message = replicat.fails();
    assert!(message.contains("DRV-00701"), "the row that was left out is missing: {message}");
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM t), (SELECT string_agg(id::text, ',') FROM u)"), "0|3");
    let report = stage.text("drover.log");
    for (number, changes) in [(&numbers[0], "6000 changes"), (&numbers[1], "1 changes")] {
        let line =
            report.lines().find(|line| line.contains("DRV-00772") && line.contains(&format!("transaction {number} ")));
        assert!(line.is_some_and(|line| line.contains(changes)), "{number}: {report}");
    }
    extract.stop();
}

#[test]
fn a_forced_transaction_is_written_once_and_what_it_does_later_is_left_out_whatever_is_killed() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let (mut large, mut small, mut second) = (connect(&stage.source), connect(&stage.source), connect(&stage.source));
    for (user, first) in [(&mut large, 1), (&mut second, 20_001)] {
        user.run("BEGIN").expect("a transaction");
        fill(user, "t", first, 3_000);
    }
    small.run("BEGIN; INSERT INTO u VALUES (1, 'never streamed')").expect("a transaction");
    let number = |connection: &mut Connection| one(connection, "SELECT pg_current_xact_id()::xid::text");
    let (of_large, of_small, of_second) = (number(&mut large), number(&mut small), number(&mut second));
    stage.source.run("INSERT INTO u VALUES (2, 'beside')");
    stage.wait_for_signal(&[&extract, &replicat]);
    // All of it is kept: the server streams what goes beyond its memory, and tells the rest with the next rows.
    let kept = |transaction: &str| {
        let shown = stage.console(&format!("SEND EXTRACT e1, SHOWTRANS {transaction}"));
        field(&blocks(&shown)[0], "Items").parse::<u64>().expect("a number")
    };
    let (items, items_of_second) = (kept(&of_large), kept(&of_second));
    assert!(items > 1_000 && items_of_second > 1_000, "{items} {items_of_second}");
    let refused = stage.console_refuses(&format!("SEND EXTRACT e1, FORCETRANS {of_small} !"));
    assert!(refused.contains("nothing is kept"), "{refused}");
    let force = |transaction: &str| {
        eventually("it is forced", || {
            let answer = stage.try_ask(&format!("SEND EXTRACT e1, FORCETRANS {transaction} !"));
            answer.contains("Request processed").then_some(answer)
        })
    };
    let answer = force(&of_large);
    assert!(answer.contains(&format!("{items} changes")), "{answer}");
    force(&of_second);
    eventually("what was forced is at the target", || {
        replicat.assert_running();
        stage.target.holds(&format!("SELECT FROM t HAVING count(*) = {}", items + items_of_second)).then_some(())
    });
    assert!(stage.text("drover.log").contains("DRV-00333"));

    // The last thing in the trail is what was forced; the server tells the whole transaction again.
    extract.kill();
    let extract = stage.extract();
    fill(&mut large, "t", 5_001, 3_000);
    stage.source.run("INSERT INTO u VALUES (3, 'between')");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.kill();
    let extract = stage.extract();
    large.run("COMMIT").expect("a commit");
    second.run("ROLLBACK").expect("a rollback");
    small.run("COMMIT").expect("a commit");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    let extract = stage.extract();
    stage.source.run("INSERT INTO u VALUES (4, 'after')");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    let expected = format!("{}|1,2,3,4", items + items_of_second);
    assert_eq!(
        stage.target.run("SELECT (SELECT count(*) FROM t), (SELECT string_agg(id::text, ',' ORDER BY id) FROM u)"),
        expected
    );
    let first = "SELECT id FROM t WHERE id < 20000 ORDER BY id";
    assert_eq!(stage.target.run(&format!("{first} LIMIT 1")), "1");
    assert_eq!(stage.target.run("SELECT max(id) FROM t WHERE id < 20000"), items.to_string(), "the first ones");
}

#[test]
fn a_transaction_that_is_open_for_long_is_warned_of_once_although_nothing_was_told_of_it() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text)");
    stage.extract_parameters("WARNLONGTRANS 1S, CHECKINTERVAL 300S\nTABLE *.*;");
    let mut user = connect(&stage.source);
    user.run("BEGIN; INSERT INTO t VALUES (1, 'forgotten')").expect("a transaction");
    let (number, process) =
        (one(&mut user, "SELECT pg_current_xact_id()::xid::text"), one(&mut user, "SELECT pg_backend_pid()::text"));
    let sql = format!("SELECT FROM pg_stat_activity WHERE pid = {process} AND now() - xact_start > '1100 ms'");
    eventually("it is open for long", || stage.source.holds(&sql).then_some(()));
    let extract = stage.extract();
    eventually("a warning", || {
        extract.assert_running();
        stage.text("drover.log").contains("DRV-00426").then_some(())
    });
    let log = stage.text("drover.log");
    let line = log.lines().find(|line| line.contains("DRV-00426")).expect("a line");
    assert!(line.contains(&format!("transaction {number} is open for")), "{line}");
    assert!(line.contains(&format!("process {process}, and the source has told nothing of it yet")), "{line}");
    extract.stop();
    assert_eq!(stage.text("drover.log").matches("DRV-00426").count(), 1);
}

#[test]
fn a_forced_part_at_the_end_of_the_trail_is_not_written_again() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    user.run("BEGIN").expect("a transaction");
    fill(&mut user, "t", 1, 3_000);
    let number = one(&mut user, "SELECT pg_current_xact_id()::xid::text");
    stage.wait_for_signal(&[&extract, &replicat]);
    wait_until_read(&stage, &extract);
    // The process dies between the trail's sync and the checkpoint that leaves the transaction out: the file is put back.
    let file = stage.home().join("dirchk/E1.cpe");
    let confirmed =
        || stage.source.run("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()");
    let before = (confirmed(), std::fs::read(&file).expect("a checkpoint file"));
    eventually("it is forced", || {
        let answer = stage.try_ask(&format!("SEND EXTRACT e1, FORCETRANS {number} !"));
        answer.contains("Request processed").then_some(())
    });
    extract.kill();
    // Unless the server was told of a later checkpoint meanwhile, which it can't be made to forget.
    if confirmed() == before.0 {
        std::fs::write(&file, &before.1).expect("a checkpoint file");
    }
    let extract = stage.extract();
    user.run("COMMIT").expect("a commit");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    let inserted = stage.text("drover.log").matches("DRV-00772").count();
    assert_eq!(inserted, 1, "what the transaction did in all was left out at its commit");
    assert!(stage.target.run("SELECT count(*) FROM t").parse::<u32>().expect("a number") < 3_000);
}
