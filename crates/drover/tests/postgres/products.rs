//! SQLite on one side, PostgreSQL on the other.

use super::stage::Stage;
use rusqlite::Connection;

/// Number, name, price, picture in hexadecimal, number as text.
type Item = (i64, Option<String>, Option<f64>, String, Option<String>);

/// Console commands that add both groups between these databases.
fn set_up(source: &str, target: &str, schema: &str) -> String {
    format!(
        "DBLOGIN SOURCEDB '{source}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
         DBLOGIN SOURCEDB '{target}'; ADD CHECKPOINTTABLE {schema}.checkpoints; \
         ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE {schema}.checkpoints"
    )
}

fn sqlite(stage: &Stage<'_>, schema: &str) -> Connection {
    let connection = Connection::open(stage.path().join("shop.db")).expect("a database");
    connection.execute_batch(schema).expect("a schema");
    connection.busy_timeout(crate::stage::DEADLINE).expect("a time-out");
    connection
}

#[test]
fn a_sqlite_database_feeds_postgres_tables() {
    let stage = Stage::bare(
        "CREATE TABLE item (id bigint PRIMARY KEY, name text, price float8, picture bytea, number numeric)",
    );
    let shop = sqlite(
        &stage,
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, picture BLOB, number NUMERIC); CREATE TABLE signal (number INTEGER PRIMARY KEY)",
    );
    stage.parameters("e1", "EXTRACT e1\nSOURCEDB sqlite:../shop.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n");
    stage.replicat_parameters("MAP main.*, TARGET public.*;");
    stage.console(&set_up("sqlite:../shop.db", &stage.target.url(), "public"));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let big = i64::MAX;
    shop.execute_batch(&format!(
        "INSERT INTO item VALUES (1, 'lamp''s \\ \"ä🐘', 12.5, x'00ff5c', 7), (2, NULL, NULL, NULL, NULL), ({big}, '', -0.1, x'', 0.1);
         WITH RECURSIVE n(n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM n WHERE n < 2000) INSERT INTO item SELECT n, 'n' || n, n / 3.0, randomblob(20), n FROM n;
         UPDATE item SET price = price + 1 WHERE id % 2 = 0; UPDATE item SET id = id + 100000 WHERE id BETWEEN 100 AND 200; DELETE FROM item WHERE id % 5 = 0;
         INSERT INTO signal VALUES (1)"
    ))
    .expect("changes");
    stage.await_signal(1, &[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    // As PostgreSQL would write SQLite's values.
    let mut query = shop
        .prepare("SELECT id, name, price, hex(picture), CAST(number AS TEXT) FROM item ORDER BY id")
        .expect("a query");
    let rows =
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))).expect("rows");
    let rows: Vec<Item> = rows.collect::<Result<_, _>>().expect("rows");
    let expected: Vec<String> = rows
        .into_iter()
        .map(|(id, name, price, picture, number)| {
            let price = price.map(|price| format!("{price}")).unwrap_or_default();
            format!(
                "{id}|{}|{price}|{}|{}",
                name.unwrap_or_default(),
                picture.to_lowercase(),
                number.unwrap_or_default()
            )
        })
        .collect();
    let found = stage.target.run("SELECT id, name, price, encode(picture, 'hex'), number FROM item ORDER BY id");
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_value_of_sqlite_that_is_none_of_its_columns_type_stops_the_group_and_is_not_bent() {
    let stage = Stage::bare("CREATE TABLE item (id bigint PRIMARY KEY, price int)");
    let shop = sqlite(&stage, "CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER)");
    stage.parameters("e1", "EXTRACT e1\nSOURCEDB sqlite:../shop.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n");
    stage.replicat_parameters("MAP main.*, TARGET public.*;");
    stage.console(&set_up("sqlite:../shop.db", &stage.target.url(), "public"));
    shop.execute_batch("INSERT INTO item VALUES (1, 5); INSERT INTO item VALUES (2, 'cheap')").expect("changes");
    let extract = stage.extract();
    let message = stage.replicat().fails();
    assert!(
        message.contains("public.item") && message.contains("does not fit") && !message.contains("cheap"),
        "{message}"
    );
    extract.stop();
}

#[test]
fn postgres_tables_feed_a_sqlite_database() {
    let stage = Stage::bare("CREATE TABLE item (id bigint PRIMARY KEY, name text, price float8, picture bytea)");
    let branch = sqlite(
        &stage,
        "CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, price REAL, picture BLOB); CREATE TABLE signal (number INTEGER PRIMARY KEY)",
    );
    stage.parameters("r1", "REPLICAT r1\nTARGETDB sqlite:../shop.db\nMAP public.*, TARGET main.*;\n");
    stage.console(&set_up(&stage.source.url(), "sqlite:../shop.db", "main"));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run(r"INSERT INTO item VALUES (1, 'lamp''s \ ä🐘', 12.5, '\x00ff5c'), (2, NULL, NULL, NULL), (9223372036854775807, '', -0.1, '')");
    stage.source.run("UPDATE item SET price = 3.25 WHERE id = 1; DELETE FROM item WHERE id = 2");
    let number = stage.send_signal();
    crate::stage::eventually("the changes have arrived", || {
        [&extract, &replicat].into_iter().for_each(crate::stage::Running::assert_running);
        branch.query_row("SELECT 1 FROM signal WHERE number = ?1", [number], |_| Ok(())).ok()
    });
    let shown = "SELECT group_concat(r, ' ') FROM (SELECT id || '/' || name || '/' || price || '/' || hex(picture) || '/' || typeof(id) || \
                 typeof(name) || typeof(price) || typeof(picture) AS r FROM item ORDER BY id)";
    let found: String = branch.query_row(shown, [], |row| row.get(0)).expect("a row");
    assert_eq!(found, "1/lamp's \\ ä🐘/3.25/00FF5C/integertextrealblob 9223372036854775807//-0.1//integertextrealblob");
    // A truncation starts the numbers of new rows anew where it was told to.
    for (sql, highest) in [("TRUNCATE item", Some(i64::MAX)), ("TRUNCATE item RESTART IDENTITY", None)] {
        stage.source.run(sql);
        let number = stage.send_signal();
        crate::stage::eventually("the truncation has arrived", || {
            [&extract, &replicat].into_iter().for_each(crate::stage::Running::assert_running);
            branch.query_row("SELECT 1 FROM signal WHERE number = ?1", [number], |_| Ok(())).ok()
        });
        let left: i64 = branch.query_row("SELECT count(*) FROM item", [], |row| row.get(0)).expect("a count");
        let sequence =
            branch.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'item'", [], |row| row.get(0)).ok();
        assert_eq!((left, sequence), (0, highest), "{sql}");
    }
    extract.stop();
    replicat.stop();
}

#[test]
fn a_table_that_is_sent_again_as_a_whole_arrives_under_rules_for_conflicts() {
    let stage = Stage::bare("CREATE TABLE item (id bigint PRIMARY KEY, a text, version bigint)");
    let item = "CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, version INTEGER)";
    let shop = sqlite(&stage, &format!("{item}; CREATE TABLE signal (number INTEGER PRIMARY KEY)"));
    stage.parameters("e1", "EXTRACT e1\nSOURCEDB sqlite:../shop.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n");
    stage.replicat_parameters(
        "REPERROR (DEFAULT, TRANSQUEUE HOLD)\nMAP main.signal, TARGET public.signal;\n\
         MAP main.item, TARGET public.item, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
         RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (version))), RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, IGNORE)), \
         RESOLVECONFLICT (TRUNCATE, (DEFAULT, OVERWRITE));",
    );
    stage.console(&set_up("sqlite:../shop.db", &stage.target.url(), "public"));
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; ADD ERRORQUEUE", stage.target.url()));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    shop.execute_batch("INSERT INTO item VALUES (1, 'old', 1); INSERT INTO signal VALUES (1)").expect("rows");
    stage.await_signal(1, &[&extract, &replicat]);
    shop.execute_batch(&format!("DROP TABLE item; {item}; INSERT INTO item VALUES (2, 'new', 2), (3, 'new', 3)"))
        .expect("a table made anew");
    shop.execute_batch("INSERT INTO signal VALUES (2)").expect("a row");
    stage.await_signal(2, &[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_eq!(stage.target.run("SELECT id, a FROM item ORDER BY id"), "2|new\n3|new");
}
