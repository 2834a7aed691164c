//! Rows that do not fit, at a PostgreSQL target.

use super::stage::Stage;

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL, n numeric, at timestamp); \
                      ALTER TABLE t REPLICA IDENTITY FULL; \
                      CREATE TABLE refused (id int, v text, n numeric, at timestamp, code text, csn text, seen timestamp);";

fn applied(rules: &str, before: &str, given: &str, changes: &str) -> Stage<'static> {
    let stage = Stage::bare(SCHEMA);
    stage.source.run(before);
    stage.extract_parameters("TABLE public.t;\nTABLE public.signal;");
    stage.replicat_parameters(&format!("{rules}\nMAP public.signal, TARGET public.signal;"));
    stage.add_groups();
    stage.target.run(given);
    stage.source.run(changes);
    stage.replicate();
    stage
}

fn rows(stage: &Stage<'_>) -> String {
    stage.target.run("SELECT string_agg(id || ' ' || v || ' ' || coalesce(n::text, '-'), ',' ORDER BY id) FROM t")
}

fn report(stage: &Stage<'_>) -> String {
    std::fs::read_to_string(stage.home().join("dirrpt/R1.rpt")).expect("a report")
}

#[test]
fn a_refused_row_goes_where_its_error_is_sent() {
    let exceptions = "MAPEXCEPTION (TARGET public.refused, INSERTALLRECORDS, COLMAP (USEDEFAULTS, code = @GETENV ('LASTERR', \
                      'DBERRNUM'), csn = @GETENV ('TRANSACTION', 'CSN'), seen = @DATENOW ()))";
    // Many rows, so that arrays and COPY are sent and must be taken back before rows are tried one by one.
    let changes = "INSERT INTO t SELECT n, 'theirs', n, NULL FROM generate_series(1, 1500) AS n";
    for (response, discarded, excepted, kept) in [
        ("REPERROR (23505, DISCARD)", 1, 0, 1500),
        ("REPERROR (DUPLICATE, EXCEPTION)", 0, 1, 1500),
        ("REPERROR (DEFAULT, IGNORE)", 0, 0, 1500),
        ("REPERROR (SQLSTATE 23505, TRANSDISCARD)", 1500, 0, 1),
    ] {
        let rules = format!("{response}\nMAP public.t, TARGET public.t, {exceptions};");
        let stage = applied(&rules, "", "INSERT INTO t VALUES (700, 'mine', 0)", changes);
        assert_eq!(
            stage.target.run("SELECT count(*), string_agg(v, ',') FILTER (WHERE id = 700) FROM t"),
            format!("{kept}|mine")
        );
        let file = std::fs::read_to_string(stage.home().join("dirrpt/R1.dsc")).unwrap_or_default();
        assert_eq!(file.matches("insert of public.t to public.t").count(), discarded, "{response}");
        let told =
            "SELECT count(*) FROM refused WHERE code = '23505' AND v = 'theirs' AND csn <> '' AND seen IS NOT NULL";
        assert_eq!(stage.target.run(told), excepted.to_string(), "{response}");
        let total = report(&stage);
        let line = total.lines().rev().find(|line| line.starts_with("Total")).expect("a total").to_owned();
        let numbers: Vec<i64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers[0], numbers[1] + numbers[2], "{line}");
    }
}

#[test]
fn collisions_and_conversions_take_effect() {
    for (rules, before, given, changes, expected) in [
        ("HANDLECOLLISIONS", "", "INSERT INTO t VALUES (1, 'old', 0)", "INSERT INTO t VALUES (1, 'new', 1)", "1 new 1"),
        ("HANDLECOLLISIONS", "INSERT INTO t VALUES (1, 'a', 0)", "", "UPDATE t SET id = 2", "2 a 0"),
        (
            "HANDLECOLLISIONS",
            "INSERT INTO t VALUES (1, 'a', 0), (3, 'c', 0)",
            "INSERT INTO t VALUES (2, 'old', 9), (1, 'a', 0)",
            "UPDATE t SET id = 2 WHERE id = 1; UPDATE t SET n = 7 WHERE id = 3; DELETE FROM t WHERE id = 3",
            "2 a 0",
        ),
        ("INSERTMISSINGUPDATES", "INSERT INTO t VALUES (1, 'a', 0)", "", "UPDATE t SET n = 5", "1 a 5"),
        ("OVERRIDEDUPS", "", "INSERT INTO t VALUES (1, 'old', 0)", "INSERT INTO t VALUES (1, 'new', 1)", "1 new 1"),
        ("INSERTDELETES", "INSERT INTO t VALUES (1, 'a', 7)", "", "DELETE FROM t", "1 a 7"),
        (
            "UPDATEDELETES",
            "INSERT INTO t VALUES (1, 'a', 7)",
            "INSERT INTO t VALUES (1, 'b', 1)",
            "DELETE FROM t",
            "1 a 7",
        ),
    ] {
        let off = format!("NO{rules}");
        let stage = applied(&format!("{rules}\nMAP public.t, TARGET public.t;\n{off}"), before, given, changes);
        assert_eq!(rows(&stage), expected, "{rules}");
    }
}

#[test]
fn conflicts_are_settled_as_the_map_says() {
    let rules = "MAP public.t, TARGET public.t, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
                 RESOLVECONFLICT (UPDATEROWEXISTS, (d, USEDELTA, COLS (n)), (DEFAULT, USEMAX (at))), \
                 RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (at))), \
                 RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, OVERWRITE)), \
                 RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, OVERWRITE)), \
                 RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, IGNORE));";
    let before = "INSERT INTO t SELECT n, 'a', 10, '2024-01-01' FROM generate_series(1, 5) AS n";
    let given = "INSERT INTO t VALUES (1, 'mine', 20, '2024-01-02'), (2, 'mine', 20.5, '2024-01-09'), (4, 'mine', 1, NULL), \
                 (7, 'mine', 1, '2024-01-01')";
    let changes = "UPDATE t SET v = 'b', n = 15, at = '2024-01-03' WHERE id <= 3; DELETE FROM t WHERE id > 3; \
                   INSERT INTO t VALUES (7, 'theirs', 2, '2024-01-05')";
    let stage = applied(rules, before, given, changes);
    assert_eq!(rows(&stage), "1 b 25,2 mine 25.5,3 b 15,7 theirs 2");
    let report = report(&stage);
    for line in
        ["UPDATEROWEXISTS conflicts of public.t: 2 resolved", "DELETEROWMISSING conflicts of public.t: 1 resolved"]
    {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn a_row_that_nobody_else_has_changed_is_in_no_conflict_whatever_its_types() {
    let schema = "CREATE TABLE k (id int PRIMARY KEY, b boolean, c char(5), i inet, d cidr, m money, j jsonb, a text[], \
                  s interval, y bytea, f real, q \"char\", n numeric(9,3), z timestamptz, t time, u uuid, x bit(5), w int4range); \
                  ALTER TABLE k REPLICA IDENTITY FULL";
    let stage = Stage::bare(schema);
    stage.extract_parameters("TABLE public.k;\nTABLE public.signal;");
    stage.replicat_parameters(
        "MAP public.k, TARGET public.k, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
         RESOLVECONFLICT (UPDATEROWEXISTS, (DEFAULT, OVERWRITE));\nMAP public.signal, TARGET public.signal;",
    );
    stage.add_groups();
    stage.source.run(
        "INSERT INTO k VALUES (1, true, 'ab', '192.168.0.1', '10.0.0.0/8', 1.5, '{\"a\": [1, null]}', '{x,NULL,\"y z\"}', \
         '1 mon 2 days 03:00', '\\x00ff', 0.1, 'q', 1.5, now(), '10:00', gen_random_uuid(), B'00101', '[1,5)'), \
         (2, false, '', '::1/64', '::/0', -1, 'null', '{}', '0', '', 'NaN', '', 'NaN', 'infinity', '24:00', NULL, NULL, 'empty')",
    );
    stage.source.run("UPDATE k SET n = 2; UPDATE k SET b = NOT b; DELETE FROM k WHERE id = 2");
    stage.replicate();
    assert_eq!(stage.target.run("SELECT count(*) FROM k WHERE NOT b AND n = 2"), "1");
    let report = report(&stage);
    assert!(!report.contains("conflicts of"), "{report}");
}
