//! `drover compare --apply`: mending one side of a replication that is at work.

use super::stage::Stage;
use crate::stage::drover;

#[test]
fn rows_that_compare_mends_are_not_captured_and_rows_on_their_way_are_left_alone() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, v text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO t SELECT n, 'same' FROM generate_series(1, 100) AS n");
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.target.run(
        "UPDATE t SET v = 'mended' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (200, 'mended'); \
                      UPDATE t SET v = 'on its way' WHERE id = 3",
    );
    let mut command = drover();
    command.args(["compare", &stage.source.url(), &stage.target.url(), "--tables", "public.t", "--apply", "source"]);
    command.args(["--settle", "4"]).stdout(std::process::Stdio::piped());
    let mut compare = command.spawn().expect("the binary runs");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(compare.stdout.take().expect("a pipe")));
    assert!(lines.next().expect("a line").expect("text").starts_with("right "));
    // The first comparison is made; now the row arrives, and is changed once more.
    stage.target.run("UPDATE t SET v = 'arrived' WHERE id = 3");
    stage
        .source
        .run("BEGIN; SET LOCAL session_replication_role = replica; UPDATE t SET v = 'arrived' WHERE id = 3; COMMIT");
    let rest: String = lines.map(|line| line.expect("text") + "\n").collect();
    let status = compare.wait().expect("it ends");
    assert!(status.success() && rest.contains("3 rows mended, 0 left alone"), "{rest}");
    let rows = "SELECT string_agg(id || v, ',' ORDER BY id) FROM t WHERE v <> 'same'";
    assert_eq!(stage.source.run(rows), "1mended,3arrived,200mended");
    assert_eq!(stage.target.run(rows), "1mended,3arrived,200mended");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    let trail = std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat");
    let told: String = trail.map(|file| crate::stage::trail_show(&file.expect("an entry").path())).collect();
    assert!(told.contains("arrived") && !told.contains("mended"), "what was mended is in no trail");
}
