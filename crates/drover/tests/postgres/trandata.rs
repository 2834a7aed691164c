//! ADD, INFO and DELETE of TRANDATA and SCHEMATRANDATA: what they do to the server's log.

use super::stage::Stage;

const TABLES: &str = "
    CREATE SCHEMA sales; CREATE SCHEMA \"Odd\";
    CREATE TABLE sales.keyed (id int PRIMARY KEY, a text);
    CREATE TABLE sales.loose (a int, b text);
    CREATE TABLE sales.coded (code int NOT NULL, b text, c int NOT NULL);
    CREATE UNIQUE INDEX coded_both ON sales.coded (code, c);
    CREATE UNIQUE INDEX coded_code ON sales.coded (code);
    CREATE UNIQUE INDEX coded_part ON sales.coded (c) WHERE c > 0;
    CREATE TABLE sales.nullable (code int UNIQUE, b text);
    CREATE TABLE sales.parts (id int, at date, a text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
    CREATE TABLE sales.parts_1 PARTITION OF sales.parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE \"Odd\".\"Table\" (id int PRIMARY KEY)";

/// What the server itself says of each table.
fn identities(stage: &Stage<'_>, schema: &str) -> String {
    stage.source.run(&format!(
        "SELECT string_agg(c.relname || '=' || c.relreplident::text || coalesce(':' || i.relname, ''), ' ' ORDER BY c.relname) \
         FROM pg_class c LEFT JOIN pg_index x ON x.indrelid = c.oid AND x.indisreplident AND c.relreplident = 'i' \
         LEFT JOIN pg_class i ON i.oid = x.indexrelid \
         WHERE c.relkind IN ('r', 'p') AND c.relnamespace = '\"{schema}\"'::regnamespace"
    ))
}

fn console(stage: &Stage<'_>, command: &str) -> String {
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; {command}", stage.source.url()))
}

fn refuses(stage: &Stage<'_>, command: &str) -> String {
    stage.console_refuses(&format!("DBLOGIN SOURCEDB '{}'; {command}", stage.source.url()))
}

#[test]
fn each_table_gets_the_identity_that_fits_it_and_loses_it_again() {
    let stage = Stage::bare(TABLES);
    let unset = "coded=d keyed=d loose=d nullable=d parts=d parts_1=d";
    assert_eq!(identities(&stage, "sales"), unset);
    let info = console(&stage, "INFO TRANDATA sales.*");
    assert!(info.contains("sales.keyed: of old rows the log tells key."), "{info}");
    assert!(info.contains("sales.loose: of old rows the log tells nothing"), "{info}");
    let said = console(&stage, "ADD SCHEMATRANDATA SALES");
    assert!(said.contains("sales.coded: the log tells index coded_code."), "{said}");
    assert!(said.contains("sales.loose: the log tells all columns (it has no key)."), "{said}");
    assert!(said.contains("need the command again"), "{said}");
    assert_eq!(identities(&stage, "sales"), "coded=i:coded_code keyed=d loose=f nullable=f parts=d parts_1=d");
    let info = console(&stage, "INFO SCHEMATRANDATA sales");
    assert!(info.contains("sales.coded: of old rows the log tells index coded_code."), "{info}");
    console(&stage, "DELETE SCHEMATRANDATA sales");
    assert_eq!(identities(&stage, "sales"), unset);
}

#[test]
fn all_columns_are_told_of_the_tables_that_a_name_with_wildcards_means_and_of_their_partitions() {
    let stage = Stage::bare(TABLES);
    console(&stage, "ADD TRANDATA sales.*ed, ALLCOLS");
    assert_eq!(identities(&stage, "sales"), "coded=f keyed=f loose=d nullable=d parts=d parts_1=d");
    console(&stage, "ADD TRANDATA sales.parts, ALLCOLS");
    assert_eq!(identities(&stage, "sales"), "coded=f keyed=f loose=d nullable=d parts=f parts_1=f");
    console(&stage, "ADD TRANDATA \"Odd\".\"Table\", ALLCOLS");
    assert_eq!(identities(&stage, "Odd"), "Table=f");
    // Giving it without ALLCOLS goes back to the key.
    console(&stage, "ADD TRANDATA sales.keyed; DELETE TRANDATA sales.parts");
    assert_eq!(identities(&stage, "sales"), "coded=f keyed=d loose=d nullable=d parts=d parts_1=d");
}

#[test]
fn what_is_added_reaches_the_trail() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, a text, b text); CREATE TABLE loose (a int, b text)");
    console(&stage, "ADD TRANDATA public.t, ALLCOLS; ADD TRANDATA public.loose");
    stage.add_groups();
    stage.source.run("INSERT INTO t VALUES (1, 'old', 'kept'); INSERT INTO loose VALUES (1, 'x'), (2, 'y')");
    stage.source.run("UPDATE t SET a = 'new'; UPDATE loose SET b = 'z' WHERE a = 2; DELETE FROM loose WHERE a = 1");
    stage.replicate();
    stage.assert_equal();
    let dump = crate::stage::trail_show(&stage.home().join("dirdat/aa000000000"));
    assert!(dump.contains("old") && dump.contains("new"), "the image before holds what only ALLCOLS tells");
}

#[test]
fn what_would_break_the_users_own_statements_is_refused() {
    let stage = Stage::bare(TABLES);
    console(&stage, "ADD TRANDATA sales.*");
    stage.source.run("CREATE PUBLICATION theirs FOR TABLE sales.loose, sales.keyed");
    let refused = refuses(&stage, "DELETE TRANDATA sales.loose");
    assert!(refused.contains("published by theirs") && refused.contains("UPDATE and DELETE"), "{refused}");
    stage.source.run("UPDATE sales.loose SET a = 1; DELETE FROM sales.loose");
    console(&stage, "DELETE TRANDATA sales.keyed");
    stage.source.run("DROP PUBLICATION theirs");
    console(&stage, "DELETE TRANDATA sales.loose");
}

#[test]
fn wrong_names_and_missing_rights_are_told() {
    let stage = Stage::bare(TABLES);
    assert!(refuses(&stage, "ADD TRANDATA sales.nosuch").contains("no table of this database is called sales.nosuch"));
    assert!(refuses(&stage, "ADD TRANDATA a.b.c").contains("next step"));
    assert!(refuses(&stage, "INFO SCHEMATRANDATA nosuch").contains("schema nosuch has no table"));
    stage.source.run(
        "DROP ROLE IF EXISTS trandata_reader; CREATE ROLE trandata_reader LOGIN; GRANT USAGE ON SCHEMA sales TO trandata_reader",
    );
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.source.url_of("trandata_reader"));
    let refused = stage.console_refuses(&format!("{login}; ADD TRANDATA sales.keyed, ALLCOLS"));
    assert!(refused.contains("belongs to another role") && refused.contains("owner"), "{refused}");
    assert!(stage.console(&format!("{login}; INFO TRANDATA sales.keyed")).contains("key"));
    stage.source.run("DROP OWNED BY trandata_reader; DROP ROLE trandata_reader");
}
