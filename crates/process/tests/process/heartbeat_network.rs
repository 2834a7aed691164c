//! A model of databases, groups and trails through which heartbeats travel. Each step takes a second.

use change::{RecordAddress, Timestamp};
use process::heartbeat::{
    Arrival, Direction, ExtractNotes, Heartbeat, Lags, ReplicatNotes, Router, Routing, arrive, definition, pass_extract,
};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000;

/// A row of a heartbeat table.
#[derive(Clone, Debug)]
pub struct Stored {
    pub arrival: Arrival,
    pub received: Timestamp,
    /// How often it was written.
    pub writes: u64,
}

#[derive(Default)]
pub struct Database {
    pub rows: BTreeMap<String, Stored>,
    pub history: Vec<Arrival>,
    /// Seconds by which its clock is wrong.
    pub offset: i64,
}

#[derive(Default)]
pub struct Network {
    now: i64,
    pub databases: BTreeMap<String, Database>,
    /// Extracts: name, database, trail.
    pub extracts: Vec<(String, String, String)>,
    /// Pumps and paths: who, trail read, trail written.
    pub routers: Vec<(Router, String, String)>,
    /// Replicats: name, trail, database.
    pub replicats: Vec<(String, String, String)>,
    /// Records that Extracts wrote.
    pub written: u64,
}

impl Network {
    fn clock(&mut self, database: &str) -> Timestamp {
        self.now += SECOND;
        let offset = self.databases.get(database).map_or(0, |database| database.offset);
        Timestamp::from_unix_micros(self.now + offset * SECOND)
    }

    /// The database's job runs: seed and rows are stamped, and all records go as far as they get.
    pub fn stamp(&mut self, name: &str) {
        let stamp = self.clock(name);
        let born = Heartbeat {
            local_database: name.to_owned(),
            stamp,
            remote_database: None,
            incoming: Direction::default(),
            outgoing: Direction::default(),
        };
        let rows = self.databases[name].rows.values().map(|stored| Heartbeat {
            local_database: stored.arrival.local_database.clone(),
            stamp,
            remote_database: Some(stored.arrival.remote_database.clone()),
            incoming: stored.arrival.incoming.clone(),
            outgoing: stored.arrival.outgoing.clone(),
        });
        let heartbeats: Vec<Heartbeat> = std::iter::once(born).chain(rows).collect();
        for (extract, database, trail) in self.extracts.clone() {
            if database != name {
                continue;
            }
            for heartbeat in &heartbeats {
                let notes = ExtractNotes { now: self.clock(name), ..ExtractNotes::default() };
                if let Some(passed) = pass_extract(heartbeat, &extract, notes) {
                    self.written += 1;
                    self.travel(&trail, &passed);
                }
            }
        }
    }

    /// All databases stamp, one after the other.
    pub fn stamp_all(&mut self) {
        for name in self.databases.keys().cloned().collect::<Vec<_>>() {
            self.stamp(&name);
        }
    }

    fn travel(&mut self, trail: &str, heartbeat: &Heartbeat) {
        for (router, read, written) in self.routers.clone() {
            if read != trail {
                continue;
            }
            // As in a trail: what a Pump reads is a record.
            let table = definition("s", heartbeat.remote_database.is_none());
            let record = heartbeat.change(&table, RecordAddress::default());
            let now = self.clock("");
            match router.route(&record, now).expect("a heartbeat") {
                Routing::Other => panic!("a heartbeat is not known as one"),
                Routing::Drop => {}
                Routing::Forward(record) => {
                    let passed = Heartbeat::of(&record).expect("a heartbeat").expect("a stamp");
                    self.travel(&written, &passed);
                }
            }
        }
        for (replicat, read, database) in self.replicats.clone() {
            if read != trail {
                continue;
            }
            let notes = ReplicatNotes { now: self.clock(&database), low_csn: None };
            if let Some(arrival) = arrive(heartbeat, &replicat, &database, notes) {
                let received = self.clock(&database);
                let target = self.databases.get_mut(&database).expect("a database");
                target.history.push(arrival.clone());
                let writes = target.rows.get(&arrival.identity()).map_or(0, |stored| stored.writes) + 1;
                target.rows.insert(arrival.identity(), Stored { arrival, received, writes });
            }
        }
    }

    /// The rows of a database as text, one line each.
    pub fn rows(&self, name: &str) -> String {
        let way = |direction: &Direction| direction.way().unwrap_or_else(|| "-".to_owned());
        let seconds = |lag: Option<i64>| lag.map_or("-".to_owned(), |lag| (lag / SECOND).to_string());
        let line = |stored: &Stored| {
            let Stored { arrival, received, writes } = stored;
            let lags = Lags::of(&arrival.incoming, Some(*received));
            let hops: Vec<String> = lags.hops.iter().map(|lag| seconds(*lag)).collect();
            let skew = lags.clock_skew().map_or(String::new(), |skew| {
                format!(
                    " skew {}{}",
                    skew.micros / SECOND,
                    skew.hop.map_or("", |hop| match hop.name() {
                        "extract" => " at extract",
                        "routing" => " at routing",
                        "read" => " at read",
                        _ => " at apply",
                    })
                )
            });
            format!(
                "{} <- {}: in {} | out {} | lag {} = {}{skew} | writes {writes}",
                arrival.local_database,
                arrival.remote_database,
                way(&arrival.incoming),
                way(&arrival.outgoing),
                seconds(lags.total),
                hops.join(" "),
            )
        };
        self.databases[name].rows.values().map(line).collect::<Vec<_>>().join("\n")
    }
}
