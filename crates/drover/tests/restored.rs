//! A target that goes back in time while Replicat runs gets everything again.

use crate::stage::Stage;

#[test]
fn a_backup_restored_over_the_target_of_a_running_replicat_loses_nothing() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)");
    let insert = |ids: std::ops::Range<i64>| {
        ids.for_each(|id| {
            stage.source().execute("INSERT INTO t VALUES (?1, 'row')", [id]).expect("an insert");
        });
    };
    let (extract, replicat) = (stage.extract(), stage.replicat());
    insert(0..10);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    let backup = stage.path().join("backup.db");
    stage.target().execute("VACUUM INTO ?1", [backup.to_str().expect("a path")]).expect("a backup");
    insert(10..20);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // Through SQLite, so that the file stays the same one.
    let restore = format!(
        "ATTACH '{}' AS backup;
         BEGIN IMMEDIATE;
         DELETE FROM t; INSERT INTO t SELECT * FROM backup.t;
         DELETE FROM checkpoints; INSERT INTO checkpoints SELECT * FROM backup.checkpoints;
         COMMIT",
        backup.display()
    );
    stage.target().execute_batch(&restore).expect("a restore");
    insert(20..30);
    stage.wait_until_equal(&["t"], &extract, &replicat);
    assert!(stage.event_log().contains("the target was put back"), "{}", stage.event_log());
    extract.stop();
    replicat.stop();
}
