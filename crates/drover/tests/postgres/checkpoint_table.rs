//! The checkpoint table in PostgreSQL: the script, alterations, the form of the first version.

use super::stage::Stage;

/// The tables as the version made them that knew no appliers.
const FIRST_FORM: &str = "
    CREATE TABLE old (group_name varchar(8) NOT NULL, group_key bigint NOT NULL, seqno integer, rba bigint NOT NULL,
        audit_ts varchar(29), create_ts timestamp NOT NULL, last_update_ts timestamp NOT NULL,
        current_dir varchar(255) NOT NULL, log_bsn varchar(128), log_csn varchar(128), log_xid varchar(128),
        log_cmplt_csn varchar(128), log_cmplt_xids varchar(2000), version integer,
        PRIMARY KEY (group_name, group_key)) WITH (fillfactor = 10);
    CREATE TABLE old_lox (group_name varchar(8) NOT NULL, group_key bigint NOT NULL, log_cmplt_csn varchar(128) NOT NULL,
        log_cmplt_xids_seq integer NOT NULL, log_cmplt_xids varchar(2000) NOT NULL,
        PRIMARY KEY (group_name, group_key, log_cmplt_csn, log_cmplt_xids_seq));
    COMMENT ON TABLE old IS 'Drover checkpoint table';
    COMMENT ON TABLE old_lox IS 'Drover checkpoint table, overflow of log_cmplt_xids'";

/// What the catalog says of a table: columns with types, constraints, storage.
fn catalog(stage: &Stage<'_>, table: &str) -> String {
    let described = stage.target.run(&format!(
        "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull, ', ' ORDER BY attnum), \
         (SELECT string_agg(pg_get_constraintdef(oid), ',') FROM pg_constraint WHERE conrelid = '{table}'::regclass), \
         (SELECT reloptions FROM pg_class WHERE oid = '{table}'::regclass), \
         split_part(obj_description('{table}'::regclass), ', created', 1) \
         FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
    ));
    assert!(described.contains("group_key"), "{table}: {described}");
    described
}

fn set_up(stage: &Stage<'_>, table: &str) -> String {
    stage.set_up().replace("public.checkpoints", table)
}

#[test]
fn the_script_of_the_home_makes_what_add_makes() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY)");
    let script = stage.text("chkpt_postgres_create.sql").replace("public.checkpoints", "public.scripted");
    stage.target.script(&script);
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.target.url());
    stage.console(&format!("{login}; ADD CHECKPOINTTABLE public.added"));
    for end in ["", "_lox", "_grp"] {
        assert_eq!(catalog(&stage, &format!("scripted{end}")), catalog(&stage, &format!("added{end}")));
    }
    let commands = set_up(&stage, "public.scripted").replace("ADD CHECKPOINTTABLE", "INFO CHECKPOINTTABLE");
    stage.console(&commands);
    stage.source.run("INSERT INTO t VALUES (1)");
    stage.replicate();
    let today = stage.target.run("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')");
    for table in ["scripted", "added"] {
        let shown = stage.console(&format!("{login}; INFO CHECKPOINTTABLE public.{table}"));
        assert!(shown.contains(&format!("public.{table} exists (created {today} ")), "{shown}");
    }
}

#[test]
fn storage_may_be_changed_and_columns_and_keys_may_not() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY)");
    stage.source.run("INSERT INTO t VALUES (1)");
    stage.replicate();
    stage.target.run(
        "ALTER TABLE checkpoints SET (fillfactor = 50, autovacuum_enabled = off); \
         ALTER TABLE checkpoints ALTER COLUMN log_cmplt_xids SET STORAGE external; \
         ALTER TABLE checkpoints ADD COLUMN note text; CREATE INDEX ON checkpoints (last_update_ts)",
    );
    stage.source.run("INSERT INTO t VALUES (2)");
    stage.replicate();
    for (change, undo, words) in [
        (
            "ALTER TABLE checkpoints RENAME log_csn TO high_csn",
            "ALTER TABLE checkpoints RENAME high_csn TO log_csn",
            &["log_csn", "high_csn"][..],
        ),
        (
            "ALTER TABLE checkpoints ALTER rba TYPE numeric",
            "ALTER TABLE checkpoints ALTER rba TYPE bigint",
            &["rba", "numeric", "bigint"],
        ),
        (
            "ALTER TABLE checkpoints_lox ALTER group_name TYPE varchar(20)",
            "ALTER TABLE checkpoints_lox ALTER group_name TYPE varchar(8)",
            &["public.checkpoints_lox", "character varying(20)"],
        ),
        (
            "ALTER TABLE checkpoints DROP CONSTRAINT checkpoints_pkey",
            "ALTER TABLE checkpoints ADD PRIMARY KEY (group_name, group_key)",
            &["primary key", "none", "group_name, group_key"],
        ),
        ("ALTER TABLE checkpoints SET UNLOGGED", "ALTER TABLE checkpoints SET LOGGED", &["unlogged"]),
    ] {
        stage.target.run(change);
        let message = stage.replicat().fails();
        for word in words.iter().chain(&["DRV-00652", "public.checkpoints"]) {
            assert!(message.contains(word), "{change}: {word:?} is not in {message}");
        }
        stage.target.run(undo);
    }
    stage.target.run("UPDATE checkpoints SET group_key = group_key + 1");
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00306") && message.contains("R1"), "{message}");
    stage.target.run("UPDATE checkpoints SET group_key = group_key - 1");
    stage.source.run("INSERT INTO t VALUES (3)");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn a_table_of_the_first_form_is_upgraded() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY)");
    stage.target.run(FIRST_FORM);
    stage.console(&set_up(&stage, "public.old").replace("ADD CHECKPOINTTABLE", "INFO CHECKPOINTTABLE"));
    stage.target.run("UPDATE old SET version = 1");
    stage.source.run("INSERT INTO t VALUES (1)");
    stage.replicate();
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.target.url());
    let shown = stage.console(&format!("{login}; INFO CHECKPOINTTABLE public.old"));
    assert!(shown.contains("public.old_grp is missing"), "{shown}");
    let upgraded =
        stage.console(&format!("{login}; UPGRADE CHECKPOINTTABLE public.old; ADD CHECKPOINTTABLE public.new"));
    assert!(upgraded.contains("table public.old_grp created"), "{upgraded}");
    for end in ["", "_lox", "_grp"] {
        assert_eq!(catalog(&stage, &format!("old{end}")), catalog(&stage, &format!("new{end}")));
    }
    stage.source.run("INSERT INTO t VALUES (2)");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT drover.from_remote()"), "f", "what triggers ask came with the upgrade");
}
