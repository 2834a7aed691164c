//! Sites that change one row and tell each other: which methods leave them equal.
//!
//! The model is the reference's (section 10.4): one FIFO queue per pair of sites, a burst of updates of one row at random
//! sites with deliveries in between, the method asked only where old and current values differ, and in the end everything is
//! delivered. Seeds are fixed, so every figure is the same in each run.

use apply::conflict::{
    ConflictRules, Convergence, Detection, Engine, FunctionAnswer, FunctionCall, Priorities, Ruling, StampColumns,
    Surroundings, UniqueMethod, UpdateMethod,
};
use change::{Column, LogicalType, Operation, Row, TableDefinition, TableName, Value};
use std::collections::VecDeque;

const RUNS: u64 = 300;
const UPDATES: usize = 6;

const NUMBER: usize = 1;
const TIME: usize = 2;
const SITE: usize = 3;

struct World(usize);

impl Surroundings for World {
    fn origin_site(&self) -> &str {
        ["a", "b", "c", "d", "e"][self.0]
    }

    fn next_sequence(&mut self) -> Option<u64> {
        Some(7)
    }

    fn call(&mut self, _: &FunctionCall<'_>) -> Result<FunctionAnswer, String> {
        Err("there is no function".to_owned())
    }
}

fn table() -> TableDefinition {
    let columns = vec![
        Column::new("id", LogicalType::Integer, "integer").with_key(0),
        Column::new("number", LogicalType::Decimal, "numeric"),
        Column::new("time", LogicalType::Timestamp, "timestamp"),
        Column::new("site", LogicalType::Text, "text"),
    ];
    TableDefinition { name: TableName::new("main", "t"), columns: columns.into() }
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    number: f64,
    time: i64,
    site: usize,
}

impl State {
    fn row(&self) -> Row {
        // A moment per year.
        let (number, time) = (self.number.to_string(), format!("{:04}-01-01 00:00:00", self.time));
        let site = World(self.site);
        Row::from_values([b"1", number.as_bytes(), time.as_bytes(), site.origin_site().as_bytes()].map(Value::Bytes))
    }

    fn with(&self, row: &Row) -> State {
        let text = |column: usize| row.value(column).bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        State {
            number: text(NUMBER).map_or(self.number, |text| text.parse().expect("a number")),
            time: text(TIME).map_or(self.time, |text| text[..4].parse().expect("a year")),
            site: text(SITE).map_or(self.site, |text| usize::from(text.as_bytes()[0] - b'a')),
        }
    }
}

/// How sites make new values.
#[derive(Clone, Copy)]
enum Values {
    /// Any number.
    Free,
    /// Greater than before.
    Rising,
    /// Smaller than before.
    Falling,
}

#[derive(Clone, Copy)]
enum Clock {
    /// Strictly later than the version that is overwritten, however the site's clock goes.
    Hybrid,
    /// The site's own clock, which is behind or ahead of the others.
    Skewed,
    /// A clock that all share, too coarse to tell neighbours apart.
    Coarse,
}

struct Model {
    rules: ConflictRules,
    values: Values,
    clock: Clock,
    /// A change that stays unresolved leaves the columns behind that tell who wrote last; the number is what counts then.
    number_alone: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Runs that end with different sites.
    different: u64,
    /// Runs in which a change stayed unresolved.
    unresolved: u64,
}

impl Model {
    fn run(&self, sites: usize) -> Outcome {
        let mut outcome = Outcome::default();
        for seed in 0..RUNS {
            let (states, unresolved) = self.run_once(sites, seed);
            let is_different = |state: &State| match self.number_alone {
                true => state.number != states[0].number,
                false => *state != states[0],
            };
            outcome.different += u64::from(states.iter().any(is_different));
            outcome.unresolved += u64::from(unresolved);
        }
        outcome
    }

    fn run_once(&self, sites: usize, seed: u64) -> (Vec<State>, bool) {
        let mut random = fastrand::Rng::with_seed(seed * 31 + sites as u64);
        let table = table();
        let mut states = vec![State { number: 100.0, time: 100, site: 0 }; sites];
        let skews: Vec<i64> = (0..sites).map(|_| random.i64(-8..=8)).collect();
        let mut queues: Vec<VecDeque<(State, State)>> = vec![VecDeque::new(); sites * sites];
        let mut unresolved = false;
        let mut left = UPDATES;
        let mut now = 100;
        while left > 0 || queues.iter().any(|queue| !queue.is_empty()) {
            let full: Vec<usize> = (0..queues.len()).filter(|queue| !queues[*queue].is_empty()).collect();
            // Updates come in bursts: more often than deliveries, as long as there are any.
            if left > 0 && (full.is_empty() || random.u8(0..3) > 0) {
                left -= 1;
                now += 1;
                let site = random.usize(0..sites);
                let old = states[site].clone();
                let time = match self.clock {
                    Clock::Hybrid => (now + skews[site]).max(old.time + 1),
                    Clock::Skewed => now + skews[site],
                    Clock::Coarse => 101 + (now - 101) / 3,
                };
                let step = f64::from(random.i32(1..=9));
                let number = match self.values {
                    Values::Free => f64::from(random.i32(1..=200)),
                    Values::Rising => old.number + step,
                    Values::Falling => old.number - step,
                };
                let new = State { number, time, site };
                states[site] = new.clone();
                for other in (0..sites).filter(|other| *other != site) {
                    queues[site * sites + other].push_back((old.clone(), new.clone()));
                }
                continue;
            }
            let queue = full[random.usize(0..full.len())];
            let (from, to) = (queue / sites, queue % sites);
            let (old, new) = queues[queue].pop_front().expect("the queue is not empty");
            let mut world = World(from);
            let mut engine = Engine::new(&table, &self.rules, &mut world);
            let settlement = engine.update(Some(&old.row()), &new.row(), Some(&states[to].row()), None);
            match settlement.ruling {
                Ruling::Write(Operation::Update { new, .. }) => states[to] = states[to].with(&new),
                Ruling::Keep => {}
                Ruling::Unresolved => unresolved = true,
                other => panic!("{other:?}"),
            }
        }
        (states, unresolved)
    }
}

/// All columns in one group, or the number alone while the rest does not matter.
fn model(columns: &[&str], methods: Vec<UpdateMethod>, values: Values, clock: Clock) -> Model {
    let table = table();
    let mut rules = ConflictRules::default();
    rules.make_column_group(&table, "g", columns).expect("a group");
    for (number, method) in (1..).zip(methods) {
        rules.add_update_resolution(&table, "g", number, method).expect("a method that fits");
    }
    if columns != ["*"] {
        rules.make_column_group(&table, "rest", &["*"]).expect("a group");
        let latest = UpdateMethod::LatestStamp(StampColumns { time: TIME, site: SITE });
        rules.add_update_resolution(&table, "rest", 1, latest).expect("a method that fits");
    }
    Model { rules, values, clock, number_alone: columns != ["*"] }
}

fn by_site() -> UpdateMethod {
    let mut priorities = Priorities::default();
    for (priority, site) in (1..).zip(["a", "b", "c", "d", "e"]) {
        priorities.add(site, priority).expect("each site once");
    }
    UpdateMethod::SitePriority { column: SITE, priorities }
}

fn whole(methods: Vec<UpdateMethod>, values: Values, clock: Clock) -> Model {
    model(&["*"], methods, values, clock)
}

/// A number alone: nothing but the number decides and is compared.
fn alone(method: UpdateMethod, values: Values) -> Model {
    model(&["number"], vec![method], values, Clock::Hybrid)
}

fn latest() -> UpdateMethod {
    UpdateMethod::LatestTimestamp(TIME)
}

#[test]
fn stamps_leave_all_sites_equal_whatever_the_clocks() {
    for detection in [Detection::OldValues, Detection::Stamps(StampColumns { time: TIME, site: SITE })] {
        let method = UpdateMethod::LatestStamp(StampColumns { time: TIME, site: SITE });
        let mut model = whole(vec![method], Values::Free, Clock::Hybrid);
        model.rules.detection = detection;
        for sites in 2..=5 {
            assert_eq!(model.run(sites), Outcome::default(), "{sites} sites");
            assert!(model.rules.divergences(sites).is_empty());
        }
    }
}

#[test]
fn the_latest_moment_with_a_backup_for_ties_leaves_all_sites_equal_when_moments_rise() {
    let model = whole(vec![latest(), by_site()], Values::Free, Clock::Hybrid);
    for sites in 2..=5 {
        assert_eq!(model.run(sites), Outcome::default(), "{sites} sites");
    }
}

#[test]
fn the_latest_moment_of_skewed_clocks_leaves_only_two_sites_equal() {
    let model = whole(vec![latest(), by_site()], Values::Free, Clock::Skewed);
    for sites in 3..=5 {
        assert!(model.run(sites).different > 0, "{sites} sites");
    }
}

#[test]
fn ties_without_a_backup_leave_sites_different() {
    let model = whole(vec![latest()], Values::Free, Clock::Coarse);
    for sites in 2..=5 {
        let outcome = model.run(sites);
        assert!(outcome.different > 0 && outcome.unresolved > 0, "{sites} sites: {outcome:?}");
    }
}

#[test]
fn values_that_only_rise_or_only_fall_leave_all_sites_equal() {
    for (method, values) in [
        (UpdateMethod::Maximum(NUMBER), Values::Rising),
        (UpdateMethod::Minimum(NUMBER), Values::Falling),
        (UpdateMethod::Additive(NUMBER), Values::Free),
        (UpdateMethod::Additive(NUMBER), Values::Rising),
    ] {
        let model = alone(method, values);
        for sites in 2..=5 {
            assert_eq!(model.run(sites).different, 0, "{sites} sites");
        }
    }
}

#[test]
fn a_status_that_only_moves_up_leaves_all_sites_equal() {
    let mut priorities = Priorities::default();
    (0..=400).for_each(|number| priorities.add(number.to_string(), number).expect("each number once"));
    let model = alone(UpdateMethod::PriorityGroup { column: NUMBER, priorities }, Values::Rising);
    for sites in 2..=5 {
        assert_eq!(model.run(sites).different, 0, "{sites} sites");
    }
}

#[test]
fn site_priority_leaves_two_sites_equal_and_no_more() {
    let model = whole(vec![by_site()], Values::Free, Clock::Hybrid);
    assert_eq!(model.run(2), Outcome::default());
    assert!(model.rules.divergences(2).is_empty());
    for sites in 3..=5 {
        assert!(model.run(sites).different > 0, "{sites} sites");
        assert_eq!(model.rules.divergences(sites)[0].convergence, Convergence::Two);
    }
}

#[test]
fn methods_that_do_not_converge_leave_sites_different_and_are_announced() {
    let model_of = |method: UpdateMethod| alone(method, Values::Free);
    for (name, model) in [
        ("earliest", whole(vec![UpdateMethod::EarliestTimestamp(TIME), by_site()], Values::Free, Clock::Hybrid)),
        ("maximum on free values", model_of(UpdateMethod::Maximum(NUMBER))),
        ("minimum on free values", model_of(UpdateMethod::Minimum(NUMBER))),
        ("overwrite", whole(vec![UpdateMethod::Overwrite], Values::Free, Clock::Hybrid)),
        ("discard", whole(vec![UpdateMethod::Discard], Values::Free, Clock::Hybrid)),
        ("average", model_of(UpdateMethod::Average(NUMBER))),
    ] {
        for sites in 2..=5 {
            let outcome = model.run(sites);
            assert!(outcome.different > 0, "{name} at {sites} sites");
            let warned = model.rules.divergences(sites);
            assert_eq!(warned.len(), 1, "{name} at {sites} sites");
            assert!(model.rules.divergences(1).is_empty());
        }
    }
}

/// Two sites insert different rows with one name, and each settles the other's.
#[test]
fn uniqueness_methods_leave_two_sites_different_and_are_announced() {
    let columns = vec![
        Column::new("id", LogicalType::Integer, "integer").with_key(0),
        Column { length: Some(10), ..Column::new("name", LogicalType::Text, "varchar") },
    ];
    let table = TableDefinition { name: TableName::new("main", "t"), columns: columns.into() };
    for method in [UniqueMethod::AppendSiteName(1), UniqueMethod::AppendSequence(1), UniqueMethod::Discard] {
        let mut rules = ConflictRules::default();
        rules.add_unique_resolution(&table, "u", 1, method).unwrap();
        assert_eq!(rules.divergences(2).len(), 1);
        let row = |id: &'static str| Row::from_values([id.as_bytes(), b"anna"].map(Value::Bytes));
        let mut sites = [vec![row("1")], vec![row("2")]];
        for (from, to) in [(0, 1), (1, 0)] {
            let insert = Operation::Insert { new: row(["1", "2"][from]) };
            let mut world = World(from);
            let current = sites[to][0].clone();
            let settlement = Engine::new(&table, &rules, &mut world).unique("u", &insert, Some(&current), None);
            match settlement.ruling {
                Ruling::Write(Operation::Insert { new }) => sites[to].push(new),
                Ruling::Keep => {}
                other => panic!("{other:?}"),
            }
        }
        let sorted = |rows: &[Row]| {
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        assert_ne!(sorted(&sites[0]), sorted(&sites[1]));
    }
}
