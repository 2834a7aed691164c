//! The rules of Extract, Pump or path, and Replicat.

use super::record::{Direction, Heartbeat, HeartbeatError, ROUTING_PATH_MAX, is_heartbeat};
use change::{Change, Timestamp};

/// The item of a list that is still open.
const OPEN: &str = "*";

/// What an Extract notes in heartbeats that it passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractNotes {
    /// When it has the record in hand.
    pub now: Timestamp,
    /// CSN of the transaction that stamped it.
    pub csn: Option<String>,
    /// Where it would have to start again.
    pub restart: Option<String>,
    /// The time of that.
    pub restart_time: Option<Timestamp>,
}

/// What an Extract called `group` does with a heartbeat that its source has stamped: returns it as it goes into the trail,
/// or `None` when it is not this Extract's to pass on.
pub fn pass_extract(heartbeat: &Heartbeat, group: &str, notes: ExtractNotes) -> Option<Heartbeat> {
    match heartbeat.outgoing.extract.as_deref() {
        Some(other) if other != group && !change::sabotage::is_on("circulate-heartbeats") => return None,
        _ => {}
    }
    let mut passed = heartbeat.clone();
    let outgoing = &mut passed.outgoing;
    outgoing.extract = Some(group.to_owned());
    outgoing.extract_time = Some(notes.now);
    outgoing.heartbeat_csn = notes.csn;
    outgoing.restart_csn = notes.restart;
    outgoing.restart_time = notes.restart_time;
    Some(passed)
}

/// A Pump, or a distribution path, as lists of routing paths name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    item: String,
}

/// What becomes of a record at a [`Router`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// It is none of ours: it goes on as it is.
    Other,
    /// It goes on as this.
    Forward(Box<Change>),
    /// It takes another way.
    Drop,
}

impl Router {
    /// The Pump called `group`.
    pub fn pump(group: &str) -> Router {
        Router { item: group.to_owned() }
    }

    /// The path called `path` of the distribution server `group`.
    pub fn path(group: &str, path: &str) -> Router {
        Router { item: format!("{group}:{path}") }
    }

    /// The item by which lists name it, `GROUP` or `GROUP:path`.
    pub fn item(&self) -> &str {
        &self.item
    }

    /// What becomes of a record that it has in hand at `now`. To be asked for every change that a Pump or path reads.
    ///
    /// # Errors
    /// [`HeartbeatError`] when the record is a heartbeat by its table and not by what it holds.
    pub fn route(&self, change: &Change, now: Timestamp) -> Result<Routing, HeartbeatError> {
        if !is_heartbeat(&change.table) {
            return Ok(Routing::Other);
        }
        let passed = Heartbeat::of(change)?.and_then(|heartbeat| self.pass(&heartbeat, now));
        Ok(match passed {
            Some(passed) => Routing::Forward(Box::new(passed.change(&change.table, change.address))),
            None => Routing::Drop,
        })
    }

    /// What becomes of a heartbeat; `None` when it takes another way.
    pub fn pass(&self, heartbeat: &Heartbeat, now: Timestamp) -> Option<Heartbeat> {
        let list = heartbeat.outgoing.routing_path.as_deref().map_or_else(Vec::new, items);
        let list = if list.is_empty() {
            vec![self.item.as_str(), OPEN]
        } else if list.contains(&OPEN) {
            let replaced = |item| if item == OPEN { vec![self.item.as_str(), OPEN] } else { vec![item] };
            list.into_iter().flat_map(replaced).collect()
        } else if list.contains(&self.item.as_str()) {
            list
        } else {
            return None;
        };
        let routing_path = list.join(",");
        // Only trails that lead into each other make a list grow without end.
        if routing_path.chars().count() > ROUTING_PATH_MAX {
            return None;
        }
        let mut passed = heartbeat.clone();
        passed.outgoing.routing_path = Some(routing_path);
        passed.outgoing.routing_time = Some(now);
        Some(passed)
    }
}

fn items(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// What a Replicat notes in heartbeats that it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicatNotes {
    /// When it has read the record.
    pub now: Timestamp,
    /// Everything below this CSN is applied.
    pub low_csn: Option<String>,
}

/// What a heartbeat makes of the target's row, and adds to its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// LOCAL_DATABASE.
    pub local_database: String,
    /// REMOTE_DATABASE.
    pub remote_database: String,
    /// What came in, as the target sees it.
    pub incoming: Direction,
    /// What the remote end knows of the other direction.
    pub outgoing: Direction,
}

/// What a Replicat called `group`, whose target is called `database`, does with a heartbeat: returns what it writes, or
/// `None` when it is another Replicat's.
///
/// The directions change places: what goes out of the remote database comes in here.
pub fn arrive(heartbeat: &Heartbeat, group: &str, database: &str, notes: ReplicatNotes) -> Option<Arrival> {
    match heartbeat.outgoing.replicat.as_deref() {
        Some(other) if other != group && !change::sabotage::is_on("circulate-heartbeats") => return None,
        _ => {}
    }
    let routing_path = heartbeat.outgoing.routing_path.as_deref().map(items).unwrap_or_default();
    let routing_path: Vec<&str> = routing_path.into_iter().filter(|item| *item != OPEN).collect();
    Some(Arrival {
        local_database: heartbeat.remote_database.clone().unwrap_or_else(|| database.to_owned()),
        remote_database: heartbeat.local_database.clone(),
        incoming: Direction {
            routing_path: (!routing_path.is_empty()).then(|| routing_path.join(",")),
            replicat: Some(group.to_owned()),
            heartbeat_time: Some(heartbeat.stamp),
            replicat_time: Some(notes.now),
            replicat_low_csn: notes.low_csn,
            ..heartbeat.outgoing.clone()
        },
        outgoing: heartbeat.incoming.clone(),
    })
}

impl Arrival {
    /// [`identity`](Arrival::identity) as a short key: its SHA-256 in hexadecimal digits.
    pub fn way_key(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.identity().as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What tells its row from all others of the table: both databases and both ways, as one text. A length stands before
    /// each part, so that no two rows have one text.
    pub fn identity(&self) -> String {
        let way = |direction: &Direction| {
            [direction.extract.clone(), direction.routing_path.clone(), direction.replicat.clone()]
        };
        let databases = [Some(self.local_database.clone()), Some(self.remote_database.clone())];
        let parts = databases.into_iter().chain(way(&self.incoming)).chain(way(&self.outgoing));
        let length = |part: &Option<String>| part.as_ref().map_or("-".to_owned(), |part| part.len().to_string());
        parts.map(|part| format!("{}:{}", length(&part), part.unwrap_or_default())).collect::<Vec<_>>().join(" ")
    }
}
