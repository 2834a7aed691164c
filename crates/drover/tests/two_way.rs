//! Two databases that replicate into each other.

use crate::stage::{Stage, eventually, number, rows};

#[test]
fn changes_go_both_ways_and_never_come_back() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a, n INTEGER)");
    stage.parameters("e2", "EXTRACT e2\nSOURCEDB sqlite:../target.db\nEXTTRAIL ./dirdat/bb\nTABLE main.t;\n");
    stage.parameters("r2", "REPLICAT r2\nTARGETDB sqlite:../source.db\nMAP main.t, TARGET main.t;\n");
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../target.db
         ADD EXTRACT e2, TRANLOG, BEGIN NOW
         ADD EXTTRAIL ./dirdat/bb, EXTRACT e2
         DBLOGIN SOURCEDB sqlite:../source.db
         ADD CHECKPOINTTABLE main.checkpoints
         ADD REPLICAT r2, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE main.checkpoints",
    );
    stage.parameters("e1", "EXTRACT e1\nSOURCEDB sqlite:../source.db\nEXTTRAIL ./dirdat/aa\nTABLE main.t;\n");
    let mut groups = [
        stage.start("extract", "e1"),
        stage.start("replicat", "r1"),
        stage.start("extract", "e2"),
        stage.start("replicat", "r2"),
    ];
    let (east, west) = (stage.source(), stage.target());
    let equal = |groups: &[crate::stage::Running], count: i64| {
        eventually("both sides hold the same rows", || {
            groups.iter().for_each(crate::stage::Running::assert_running);
            let (one, other) = (rows(&east, "t"), rows(&west, "t"));
            (one == other && one.len() as i64 == count).then_some(())
        });
    };
    for round in 0..5 {
        for id in 0..20 {
            east.execute("INSERT INTO t VALUES (?1, 'east', 0)", [round * 100 + id]).expect("an insert");
            west.execute("INSERT INTO t VALUES (?1, 'west', 0)", [round * 100 + 50 + id]).expect("an insert");
        }
        equal(&groups, (round + 1) * 40);
        // Each side changes a row that came from the other one: a change that came back would add once more.
        east.execute("UPDATE t SET n = n + 1 WHERE a = 'west'", []).expect("an update");
        equal(&groups, (round + 1) * 40);
        west.execute("UPDATE t SET n = n + 1 WHERE a = 'east'", []).expect("an update");
        equal(&groups, (round + 1) * 40);
        // The mark of our own transactions survives a crash of either applier.
        let victim = (round % 4) as usize;
        let (part, group) = [("extract", "e1"), ("replicat", "r1"), ("extract", "e2"), ("replicat", "r2")][victim];
        let fresh = |stage: &Stage| stage.start(part, group);
        let groups_after: Vec<crate::stage::Running> = std::mem::take(&mut Vec::from(groups))
            .into_iter()
            .enumerate()
            .map(|(index, running)| {
                if index == victim {
                    running.kill();
                    fresh(&stage)
                } else {
                    running
                }
            })
            .collect();
        groups = groups_after.try_into().unwrap_or_else(|_| unreachable!("four groups"));
    }
    equal(&groups, 200);
    // Trails are quiet when nobody writes: what was applied is not captured again.
    groups.into_iter().for_each(|group| {
        group.stop();
    });
    let inserts = |trail: &str| {
        let mut count = 0;
        for file in std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat") {
            let path = file.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if name.starts_with(trail) && name.len() == 11 {
                let text = crate::stage::trail_show(&path);
                count += text.matches("east").count() + text.matches("west").count();
            }
        }
        count
    };
    assert!(inserts("aa") > 0 && inserts("bb") > 0);
    assert_eq!(number(&east, "SELECT max(n) FROM t"), 5);
    assert_eq!(number(&west, "SELECT sum(n) FROM t"), number(&east, "SELECT sum(n) FROM t"));
}
