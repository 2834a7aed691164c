//! `drover differences` and `drover rectify`, on any two of PostgreSQL and SQLite.

use crate::server::{Cluster, ClusterOptions};
use crate::stage::{Stage, drover, eventually, number};
use rusqlite::Connection;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

/// A database of either product, asked in plain SQL.
enum Site<'a> {
    Postgres(&'a Cluster, String),
    Sqlite(PathBuf),
}

const ITEM_OF_POSTGRES: &str =
    "CREATE TABLE item (id int PRIMARY KEY, name text, price numeric(10,2), is_new boolean, picture bytea)";
const ITEM_OF_SQLITE: &str =
    "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, is_new BOOLEAN, picture BLOB)";

impl Site<'_> {
    fn url(&self) -> String {
        match self {
            Site::Postgres(cluster, database) => cluster.url(database),
            Site::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    fn run(&self, sql: &str) {
        match self {
            Site::Postgres(cluster, database) => drop(cluster.psql(database, sql)),
            Site::Sqlite(path) => Connection::open(path)
                .and_then(|connection| connection.execute_batch(sql))
                .unwrap_or_else(|error| panic!("{sql}: {error}")),
        }
    }

    /// One value as text.
    fn text(&self, sql: &str) -> String {
        match self {
            Site::Postgres(cluster, database) => cluster.psql(database, sql),
            Site::Sqlite(path) => {
                let connection = Connection::open(path).expect("the database opens");
                let value: Option<String> =
                    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"));
                value.unwrap_or_default()
            }
        }
    }

    fn is_postgres(&self) -> bool {
        matches!(self, Site::Postgres(..))
    }

    /// A literal of the bytes that both products take for them.
    fn bytes(&self, hexadecimal: &str) -> String {
        if self.is_postgres() { format!("'\\x{hexadecimal}'") } else { format!("x'{hexadecimal}'") }
    }

    fn flag(&self, is_set: bool) -> &'static str {
        match (self.is_postgres(), is_set) {
            (true, true) => "true",
            (true, false) => "false",
            (false, true) => "1",
            (false, false) => "0",
        }
    }

    /// Identifiers with names, and nothing that the products write in different ways.
    fn items(&self) -> String {
        let all = if self.is_postgres() {
            "SELECT string_agg(id || ':' || coalesce(name, '-') || ':' || coalesce(is_new::int::text, '-') || ':' \
             || coalesce(encode(picture, 'hex'), '-'), ' ' ORDER BY id) FROM item"
        } else {
            "SELECT group_concat(id || ':' || coalesce(name, '-') || ':' || coalesce(is_new, '-') || ':' \
             || coalesce(lower(hex(picture)), '-'), ' ') FROM (SELECT * FROM item ORDER BY id)"
        };
        self.text(all)
    }

    fn make_missing_tables(&self) {
        let rows = if self.is_postgres() { ITEM_OF_POSTGRES } else { ITEM_OF_SQLITE };
        let rows = rows.replace("TABLE item", "TABLE missing_rows").replace(" PRIMARY KEY", "");
        let number = if self.is_postgres() { "tid" } else { "INTEGER" };
        self.run(&format!("{rows}; CREATE TABLE missing_location (r_id {number}, present TEXT, absent TEXT)"));
    }

    /// What the two tables say, row by row: where it is, its key, its name.
    fn missing(&self, reference: &str) -> String {
        let join = if self.is_postgres() { "r.ctid = l.r_id" } else { "r.rowid = l.r_id" };
        let list = if self.is_postgres() { "string_agg(w, ' ' ORDER BY w)" } else { "group_concat(w, ' ')" };
        let side = format!("CASE l.present WHEN '{reference}' THEN 'reference' ELSE 'comparison' END");
        self.text(&format!(
            "SELECT {list} FROM (SELECT {side} || '/' || r.id || '/' || coalesce(r.name, '-') AS w FROM missing_location l \
             JOIN missing_rows r ON {join} WHERE l.present <> l.absent ORDER BY w) AS s"
        ))
    }
}

fn fill(site: &Site<'_>, rows: &[(i32, &str, bool, &str)]) {
    let values: Vec<String> = rows
        .iter()
        .map(|(id, name, is_new, bytes)| {
            let name = if name.is_empty() { "NULL".to_owned() } else { format!("'{name}'") };
            format!("({id}, {name}, {id}.50, {}, {})", site.flag(*is_new), site.bytes(bytes))
        })
        .collect();
    site.run(&format!("INSERT INTO item VALUES {}", values.join(", ")));
}

fn drover_sites(part: &str, reference: &Site<'_>, comparison: &Site<'_>, more: &[&str]) -> Output {
    let mut command = drover();
    command.args([part, &reference.url(), &comparison.url(), "--table", "item"]);
    command.args(["--missing-rows", "missing_rows", "--missing-location", "missing_location"]).args(more);
    command.output().expect("the binary runs")
}

/// Output and exit status.
fn told(output: &Output) -> (String, i32) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (text, output.status.code().expect("an exit status"))
}

fn sites<'a>(cluster: &'a Cluster, folder: &TempDir, names: [&str; 2], is_postgres: [bool; 2]) -> [Site<'a>; 2] {
    let site = |name: &str, is_postgres: bool| {
        let site = if is_postgres {
            cluster.psql("postgres", &format!("CREATE DATABASE {name}"));
            Site::Postgres(cluster, name.to_owned())
        } else {
            Site::Sqlite(folder.path().join(format!("{name}.db")))
        };
        site.run(if is_postgres { ITEM_OF_POSTGRES } else { ITEM_OF_SQLITE });
        site
    };
    [site(names[0], is_postgres[0]), site(names[1], is_postgres[1])]
}

#[test]
fn any_two_products_are_rectified_as_the_two_tables_say() {
    let cluster = Cluster::start(&ClusterOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    for (number, is_postgres) in [[true, true], [true, false], [false, true], [false, false]].into_iter().enumerate() {
        for at_reference in [true, false] {
            let names = [format!("r{number}{at_reference}"), format!("c{number}{at_reference}")];
            let [reference, comparison] = sites(&cluster, &folder, [&names[0], &names[1]], is_postgres);
            fill(
                &reference,
                &[(1, "same", true, "00"), (2, "it''s", false, "0aff"), (3, "", true, ""), (5, "tab\\t", true, "01")],
            );
            fill(&comparison, &[(1, "same", true, "00"), (2, "other", false, "0aff"), (4, "extra", true, "04")]);
            comparison.run("UPDATE item SET price = 1.5 WHERE id = 1");
            let missing = if at_reference { &reference } else { &comparison };
            missing.make_missing_tables();
            let site = missing.url();
            let more = ["--missing-rows-site", site.as_str()];
            let (text, status) = told(&drover_sites("differences", &reference, &comparison, &more));
            let context = format!("{is_postgres:?} {at_reference}: {text}");
            assert_eq!(status, 1, "{context}");
            assert!(text.contains("4 rows at the reference, 3 of them only there"), "{context}");
            assert!(text.contains("3 rows at the comparison site, 2 of them only there"), "{context}");
            assert_eq!(
                missing.missing(text.split_whitespace().nth(1).expect("the name of the reference")),
                "comparison/2/other comparison/4/extra reference/2/it's reference/3/- reference/5/tab\\t",
                "{context}"
            );
            // What was found before is not mixed with what is found now.
            let (text, status) = told(&drover_sites("differences", &reference, &comparison, &more));
            assert!(status == 2 && text.contains("is not empty"), "{text}");
            let more = [&more[..], &["--settle", "0", "--commit-rows", "2"]].concat();
            let (text, status) = told(&drover_sites("rectify", &reference, &comparison, &more));
            assert!(text.contains("1 rows deleted, 1 updated, 2 inserted") && status == 0, "{context}{text}");
            assert_eq!(comparison.items(), reference.items());
            assert_eq!(reference.items(), "1:same:1:00 2:it's:0:0aff 3:-:1: 5:tab\\t:1:01");
            let compared = drover().args(["compare", &reference.url(), &comparison.url(), "--tables", "item"]).output();
            assert_eq!(compared.expect("runs").status.code(), Some(0), "{context}");
            // Again, as after a kill: nothing is left to do.
            let (text, status) = told(&drover_sites("rectify", &reference, &comparison, &more));
            assert!(
                text.contains("0 rows deleted, 0 updated, 0 inserted\n4 rows were equal by now") && status == 0,
                "{text}"
            );
        }
    }
}

#[test]
fn rows_that_have_changed_since_are_left_alone_and_refused_ones_are_told() {
    let cluster = Cluster::start(&ClusterOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    for (number, is_postgres) in [[true, false], [false, true]].into_iter().enumerate() {
        let names = [format!("changing{number}"), format!("changed{number}")];
        let [reference, comparison] = sites(&cluster, &folder, [&names[0], &names[1]], is_postgres);
        let is_new = (1..=6).map(|id| (id, "right", true, "01")).collect::<Vec<_>>();
        fill(&reference, &is_new);
        fill(&comparison, &[(1, "a", true, "01"), (2, "b", true, "01"), (7, "c", true, "01"), (8, "d", true, "01")]);
        comparison.run("CREATE UNIQUE INDEX one_price ON item (price); UPDATE item SET price = 6.5 WHERE id = 2");
        reference.make_missing_tables();
        let (text, status) = told(&drover_sites("differences", &reference, &comparison, &[]));
        assert_eq!(status, 1, "{text}");
        // 1 was on its way, 3 was deleted meanwhile, 7 is one that the other site made anew; 6 meets the price of 2 as it is now.
        comparison.run("UPDATE item SET name = 'right' WHERE id = 1; UPDATE item SET name = 'again' WHERE id = 2");
        reference.run("DELETE FROM item WHERE id = 3");
        fill(&reference, &[(7, "anew", true, "01")]);
        let before = comparison.text("SELECT CAST(count(*) AS TEXT) FROM item WHERE id IN (2, 7)");
        let (text, status) = told(&drover_sites("rectify", &reference, &comparison, &["--settle", "0"]));
        let expected = "1 rows deleted, 0 updated, 2 inserted\n2 rows were equal by now, 2 left alone because they have changed\n\
                        1 rows refused by the comparison site, the first one: a row with the same unique value exists: ";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("3 rows still differ") && status == 1, "{text}");
        assert_eq!(comparison.text("SELECT CAST(count(*) AS TEXT) FROM item WHERE id IN (2, 7)"), before);
        assert_eq!(comparison.items(), "1:right:1:01 2:again:1:01 4:right:1:01 5:right:1:01 7:c:1:01");
    }
}

#[test]
fn columns_conditions_and_limits_are_kept_to() {
    let cluster = Cluster::start(&ClusterOptions::default());
    let folder = tempfile::tempdir().expect("a folder");
    let [reference, comparison] = sites(&cluster, &folder, ["few", "others"], [true, false]);
    fill(&reference, &(1..=20).map(|id| (id, "right", true, "01")).collect::<Vec<_>>());
    fill(&comparison, &(1..=15).map(|id| (id, "wrong", false, "02")).collect::<Vec<_>>());
    comparison.run(
        "CREATE TABLE missing_rows (id INTEGER, name TEXT); CREATE TABLE missing_location (r_id, present, absent)",
    );
    let site = comparison.url();
    let more = |others: &[&'static str]| -> Vec<String> {
        ["--missing-rows-site", &site].iter().chain(others).map(|word| (*word).to_owned()).collect()
    };
    let run = |part: &str, others: &[&'static str]| {
        let more = more(others);
        told(&drover_sites(part, &reference, &comparison, &more.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    for (others, what) in [
        (vec![], "has no column price"),
        (vec!["--columns", "name"], "column id of the key of public.item is not compared"),
        (vec!["--columns", "id,nothing"], "there is no column nothing"),
        (vec!["--columns", "id,name,id"], "column id is named twice"),
        (vec!["--columns", "id,name", "--comparison-table", "gone"], "there is no table gone at sqlite:"),
    ] {
        let (text, status) = run("differences", &others);
        assert!(status == 2 && text.contains(what) && text.contains("next step: "), "{text}");
    }
    let (text, _) = run("differences", &["--columns", "id,name", "--where", "id > 10", "--max-missing", "6"]);
    for line in
        ["10 rows at the reference, 10 of them only there", "5 rows at the comparison site, 5", "6 rows written"]
    {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("9 rows not written: --max-missing is 6"), "{text}");
    assert_eq!(comparison.text("SELECT group_concat(DISTINCT name) FROM missing_rows"), "right,wrong");
    comparison.run("DELETE FROM missing_rows; DELETE FROM missing_location");
    run("differences", &["--columns", "name,id", "--where", "id > 10"]);
    // Who reads them may take some out.
    comparison.run("DELETE FROM missing_location WHERE r_id IN (SELECT rowid FROM missing_rows WHERE id IN (12, 20))");
    let (text, status) = run("rectify", &["--columns", "name,id", "--settle", "0"]);
    assert!(text.contains("0 rows deleted, 4 updated, 4 inserted") && status == 0, "{text}");
    // Columns that were not compared stay, and are NULL in new rows.
    assert_eq!(
        comparison.text("SELECT group_concat(id || name || coalesce(is_new, '-'), ' ') FROM (SELECT * FROM item WHERE id > 10 ORDER BY id)"),
        "11right0 12wrong0 13right0 14right0 15right0 16right- 17right- 18right- 19right-"
    );
    // Rows of other sites are nobody's.
    comparison.run("UPDATE missing_location SET present = 'elsewhere' WHERE r_id = 1");
    let (text, status) = run("rectify", &["--columns", "name,id", "--settle", "0"]);
    assert!(status == 2 && text.contains("does not speak of"), "{text}");
}

#[test]
fn what_rectify_writes_is_not_replicated_back() {
    let stage = Stage::new(ITEM_OF_SQLITE);
    let [reference, comparison] = ["target.db", "source.db"].map(|name| Site::Sqlite(stage.path().join(name)));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    fill(&comparison, &[(1, "carried", true, "01")]);
    stage.wait_until_equal(&["item"], &extract, &replicat);
    reference.run("UPDATE item SET name = 'mended' WHERE id = 1");
    fill(&reference, &[(2, "mended", true, "02")]);
    reference.make_missing_tables();
    assert_eq!(told(&drover_sites("differences", &reference, &comparison, &[])).1, 1);
    let (text, status) = told(&drover_sites("rectify", &reference, &comparison, &["--settle", "0"]));
    assert!(text.contains("0 rows deleted, 1 updated, 1 inserted") && status == 0, "{text}");
    fill(&comparison, &[(3, "behind", true, "03")]);
    let target = stage.target();
    eventually("what comes behind arrives", || {
        (number(&target, "SELECT count(*) FROM item WHERE name = 'behind'") == 1).then_some(())
    });
    extract.stop();
    replicat.stop();
    let files = std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat");
    let dumped: String = files.map(|file| crate::stage::trail_show(&file.expect("an entry").path())).collect();
    assert!(dumped.contains("behind") && !dumped.contains("mended"), "{dumped}");
}

#[test]
fn the_steps_of_the_compare_guide_work_as_written() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/compare.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once("\n## DIFFERENCES and RECTIFY\n").expect("the guide has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    crate::readme::run(example);
}
