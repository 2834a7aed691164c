//! Whatever the rules, and whatever dies on the way: several sessions come to the same end as one.

use super::by_one_session::{EXCEPTIONS, Stage, delete, insert, name, row, table, update};
use apply::{AnyReplicat, Error, GroupLimits, Step};
use change::{Operation, Row};
use fastrand::Rng;
use process::FilterReason;
use std::collections::BTreeMap;
use std::time::Duration;

const TABLES: [&str; 2] = ["t", "u"];

/// Rules, and whether rows of the source that the target does not take may stop the group.
fn rules(random: &mut Rng) -> String {
    let all = "MAP main.*, TARGET main.*";
    let resolve = |update: &str, missing: &str, reperror: &str| {
        format!(
            "REPERROR (DEFAULT, {reperror})\n{all}, {EXCEPTIONS}, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
             RESOLVECONFLICT (UPDATEROWEXISTS, {update}), RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (n))), \
             RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, {missing})), \
             RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, IGNORE)), RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, DISCARD));"
        )
    };
    match random.u8(..12) {
        0 => format!("HANDLECOLLISIONS\nREPERROR (DEFAULT, DISCARD)\n{all};"),
        1 => format!("OVERRIDEDUPS\nINSERTMISSINGUPDATES\nREPERROR (DEFAULT, IGNORE)\n{all};"),
        2 => format!("REPERROR (DEFAULT, DISCARD)\n{all};"),
        3 => format!("REPERROR (DEFAULT, EXCEPTION)\n{all}, {EXCEPTIONS};"),
        4 => format!("REPERROR (DEFAULT, TRANSDISCARD)\n{all};"),
        5 => format!("REPERROR (DUPLICATE, TRANSEXCEPTION)\nREPERROR (MISSING, IGNORE)\n{all}, {EXCEPTIONS};"),
        6 => "REPERROR (DEFAULT, TRANSDISCARD)\nMAP main.t, TARGET main.t;\nHANDLECOLLISIONS\nMAP main.u, TARGET main.u;"
            .to_owned(),
        7 => "ALLOWNOOPUPDATES\nREPERROR (DEFAULT, DISCARD)\nMAP main.t, TARGET main.t;\nMAP main.u, TARGET main.refused, INSERTALLRECORDS, \
             KEYCOLS (id);"
            .to_owned(),
        8 => format!(
            "UPDATEINSERTS\nUPDATEDELETES\nREPERROR (MISSING, EXCEPTION)\nREPERROR (DUPLICATE, DISCARD)\n{all}, {EXCEPTIONS};"
        ),
        9 => resolve("(d, USEDELTA, COLS (n)), (DEFAULT, OVERWRITE)", "OVERWRITE", "DISCARD"),
        10 => resolve("(DEFAULT, USEMAX (n))", "IGNORE", "TRANSEXCEPTION"),
        _ => resolve("(DEFAULT, DISCARD)", "DISCARD", "TRANSDISCARD"),
    }
}

fn text(values: (u32, &str, u32)) -> String {
    format!("{},{},{}", values.0, values.1, values.2)
}

/// Transactions of a source that knows its own rows, and a target that has others.
struct Script {
    rules: String,
    given: BTreeMap<&'static str, Vec<String>>,
    transactions: Vec<Vec<(&'static str, Operation)>>,
}

impl Script {
    fn new(random: &mut Rng) -> Script {
        let rules = rules(random);
        let mut source: BTreeMap<(&'static str, u32), (u32, &str, u32)> = BTreeMap::new();
        let mut given: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let ids = random.u32(4..40);
        let misfits = random.u8(0..60);
        // Values of a unique column of `u`, which both sides give away once.
        let mut unique = 100_u32;
        for table in TABLES {
            for id in 1..=ids {
                let mut number = |random: &mut Rng| {
                    unique += 1;
                    if table == "u" { unique } else { random.u32(..10) }
                };
                let values = (id, "a", number(random));
                let is_known = random.bool();
                if is_known {
                    source.insert((table, id), values);
                }
                let fits = random.u8(..100) >= misfits;
                match (is_known == fits, fits) {
                    (true, true) => given.entry(table).or_default().push(text(values)),
                    (true, false) => given.entry(table).or_default().push(text((id, "mine", number(random)))),
                    (false, _) if is_known && random.bool() => {
                        given.entry(table).or_default().push(text((id, "mine", number(random))));
                    }
                    _ => {}
                }
            }
        }
        let transactions = (0..random.usize(5..60)).map(|_| {
            let operations = if random.u8(..10) == 0 { random.usize(4..14) } else { random.usize(1..4) };
            let mut made = Vec::new();
            for _ in 0..operations {
                let table = *random.choice(TABLES.iter()).expect("a table");
                let id = random.u32(1..=ids);
                unique += 1;
                let number = if table == "u" { unique } else { random.u32(..20) };
                let word = *random.choice(["a", "b", "c"].iter()).expect("a word");
                let known = source.get(&(table, id)).copied();
                let operation = match known {
                    None => {
                        source.insert((table, id), (id, word, number));
                        insert(&text((id, word, number)))
                    }
                    Some(old) if random.u8(..3) == 0 => {
                        source.remove(&(table, id));
                        delete(&text(old))
                    }
                    Some(old) => {
                        // Sometimes the row gets another key.
                        let moved = random.u32(1..=ids);
                        let is_free = random.u8(..6) == 0 && !source.contains_key(&(table, moved));
                        let new = (if is_free { moved } else { id }, word, number);
                        source.remove(&(table, id));
                        source.insert((table, new.0), new);
                        update(&text(old), &text(new))
                    }
                };
                made.push((table, operation));
            }
            made
        });
        let transactions = transactions.collect();
        Script { rules, given, transactions }
    }

    fn stage(&self) -> Stage {
        let mut stage = Stage::new(&self.rules);
        stage.target.drop_table(&name("u")).expect("the table goes");
        stage.target.create_table((*table("u")).clone(), &[vec![2]]).expect("the table comes again");
        for (table, rows) in &self.given {
            for values in rows {
                stage.target.write(|transaction| transaction.insert(&name(table), row(values))).expect("a row");
            }
        }
        for transaction in &self.transactions {
            stage.transaction(transaction);
        }
        stage
    }
}

/// How a run ends.
#[derive(Debug, PartialEq)]
struct End {
    rows: Vec<Vec<Row>>,
    /// Entries of the discard file; what stands there twice after a crash counts once.
    discarded: Vec<String>,
    stopped: Option<String>,
    /// Without deaths: conflicts, and what the statistics hold.
    told: Option<String>,
}

fn told(replicat: &AnyReplicat) -> String {
    let total = replicat.statistics().total();
    // What is read again, because a large transaction has to be judged, is known then.
    let reasons = FilterReason::ALL.into_iter().filter(|reason| *reason != FilterReason::AlreadyDone);
    let filtered: Vec<u64> = reasons.map(|reason| total.filtered(reason)).collect();
    let read = total.read - total.filtered(FilterReason::AlreadyDone);
    format!("{:?}, {read} read, {} written, {filtered:?} filtered", replicat.conflicts(), total.written)
}

/// Applies everything; the target, or the process, dies so many times.
fn end(stage: &Stage, deaths: usize, random: &mut Rng) -> End {
    let mut left = deaths;
    let mut replicat = stage.start();
    let stopped = loop {
        if left > 0 && random.u8(..3) == 0 {
            left -= 1;
            if random.bool() {
                stage.target.fail_after(random.u64(1..60), random.u64(..));
            } else {
                drop(replicat);
                stage.target.restart();
                replicat = stage.start();
            }
        }
        match replicat.step(Duration::ZERO) {
            Ok(Step::Idle) => break None,
            Ok(Step::Worked) => {}
            Ok(Step::Retry { .. }) => stage.target.restart(),
            Err(Error::Rejected(rejected)) => break Some(format!("{} {:?}", rejected.position, rejected.outcome)),
            Err(error) => panic!("{error}"),
        }
    };
    let statistics = replicat.statistics().balanced();
    assert!(statistics, "{}", replicat.statistics().render("Applied"));
    let told = (deaths == 0).then(|| told(&replicat));
    stage.target.restart();
    let mut discarded = Vec::new();
    for entry in stage.discarded().split("\n\n").map(str::to_owned) {
        if !discarded.contains(&entry) {
            discarded.push(entry);
        }
    }
    let rows = ["t", "u", "refused"].map(|table| stage.rows(table)).to_vec();
    End { rows, discarded, stopped, told }
}

#[test]
fn several_sessions_come_to_the_end_of_one_under_any_rules_and_deaths() {
    let first = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(0..400, |seed: u64| seed..seed + 1);
    let mut conflicts = 0;
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let script = Script::new(&mut random);
        let chunk_operations = if random.bool() { 5 } else { 4000 };
        let limits = GroupLimits {
            operations: *random.choice([1, 3, 20, 1000].iter()).expect("a number"),
            chunk_operations,
            ..GroupLimits::with_operations(1)
        };
        let mut classic = script.stage();
        (classic.limits, classic.appliers) = (limits, None);
        let expected = end(&classic, 0, &mut random);
        conflicts += usize::from(expected.told.as_ref().is_some_and(|told| told.contains("resolved: ")));
        let appliers = random.usize(1..6);
        for deaths in [0, 4] {
            let mut parallel = script.stage();
            (parallel.limits, parallel.appliers) = (limits, Some((appliers, random.u64(..))));
            let mut found = end(&parallel, deaths, &mut random);
            if deaths > 0 {
                found.told.clone_from(&expected.told);
            }
            assert_eq!(found.rows, expected.rows, "DROVER_SEED={seed}, {deaths} deaths, {}", script.rules);
            assert_eq!(found, expected, "DROVER_SEED={seed}, {deaths} deaths, {}", script.rules);
        }
    }
    assert!(conflicts > 0);
}
