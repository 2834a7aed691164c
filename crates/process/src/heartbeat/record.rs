//! A heartbeat, and how it rests in a trail.
//!
//! In a trail all heartbeats have one shape, [`COLUMNS`], whatever the source's own table looks like: text in UTF-8, instants
//! as `YYYY-MM-DD HH:MM:SS.ffffff` in UTC. The table's name tells whether a record was born from a seed.

use super::parse_instant;
use change::{
    Change, Column, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp, Value,
};
use std::sync::Arc;

/// Name of the table that each database stamps for itself.
pub const SEED_TABLE: &str = "GG_HEARTBEAT_SEED";

/// Name of the table of what has arrived from others.
pub const TABLE: &str = "GG_HEARTBEAT";

/// Characters that a routing path may have at most, as wide as the column that keeps it.
pub const ROUTING_PATH_MAX: usize = 4000;

/// Columns of a heartbeat in a trail, in order. Those whose names end with `_TS` or `_TIMESTAMP` hold instants.
pub const COLUMNS: [&str; 25] = [
    "LOCAL_DATABASE",
    "HEARTBEAT_TIMESTAMP",
    "REMOTE_DATABASE",
    "INCOMING_EXTRACT",
    "INCOMING_ROUTING_PATH",
    "INCOMING_REPLICAT",
    "INCOMING_HEARTBEAT_TS",
    "INCOMING_EXTRACT_TS",
    "INCOMING_ROUTING_TS",
    "INCOMING_REPLICAT_TS",
    "INCOMING_REPLICAT_LW_CSN",
    "INCOMING_EXTRACT_HEARTBEAT_CSN",
    "INCOMING_EXTRACT_RESTART_CSN",
    "INCOMING_EXTRACT_RESTART_TS",
    "OUTGOING_EXTRACT",
    "OUTGOING_ROUTING_PATH",
    "OUTGOING_REPLICAT",
    "OUTGOING_HEARTBEAT_TS",
    "OUTGOING_EXTRACT_TS",
    "OUTGOING_ROUTING_TS",
    "OUTGOING_REPLICAT_TS",
    "OUTGOING_REPLICAT_LW_CSN",
    "OUTGOING_EXTRACT_HEARTBEAT_CSN",
    "OUTGOING_EXTRACT_RESTART_CSN",
    "OUTGOING_EXTRACT_RESTART_TS",
];

/// One direction between two databases: who passes heartbeats on, and when each of them had the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Direction {
    /// EXTRACT.
    pub extract: Option<String>,
    /// ROUTING_PATH: items `GROUP` or `GROUP:path`, with commas between them, and a `*` at the end while the list is open.
    pub routing_path: Option<String>,
    /// REPLICAT.
    pub replicat: Option<String>,
    /// HEARTBEAT_TS: the stamp of the database where it was born.
    pub heartbeat_time: Option<Timestamp>,
    /// EXTRACT_TS.
    pub extract_time: Option<Timestamp>,
    /// ROUTING_TS: when the last of all Pumps and paths had it.
    pub routing_time: Option<Timestamp>,
    /// REPLICAT_TS: when the Replicat read it.
    pub replicat_time: Option<Timestamp>,
    /// REPLICAT_LW_CSN: everything below it had been applied then.
    pub replicat_low_csn: Option<String>,
    /// EXTRACT_HEARTBEAT_CSN: of the transaction that stamped it.
    pub heartbeat_csn: Option<String>,
    /// EXTRACT_RESTART_CSN: where the Extract would have had to start again then.
    pub restart_csn: Option<String>,
    /// EXTRACT_RESTART_TS.
    pub restart_time: Option<Timestamp>,
}

impl Direction {
    /// Whether it names the same way as `other`, whatever the times.
    pub fn is_same_way(&self, other: &Direction) -> bool {
        (&self.extract, &self.routing_path, &self.replicat) == (&other.extract, &other.routing_path, &other.replicat)
    }

    /// The way as people read it: `E1 ==> P1,P2 ==> R1`; `None` when it names nobody.
    pub fn way(&self) -> Option<String> {
        let parts = [&self.extract, &self.routing_path, &self.replicat];
        let named: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!named.is_empty()).then(|| named.join(" ==> "))
    }
}

/// A heartbeat on its way, or a row of the heartbeat table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// LOCAL_DATABASE: whose row was stamped.
    pub local_database: String,
    /// HEARTBEAT_TIMESTAMP: the stamp.
    pub stamp: Timestamp,
    /// REMOTE_DATABASE: whose heartbeat the row keeps; `None` for a seed.
    pub remote_database: Option<String>,
    /// From the remote database to the local one.
    pub incoming: Direction,
    /// From the local database to the remote one.
    pub outgoing: Direction,
}

/// Why a record is no heartbeat although its table is a heartbeat table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// A column that every heartbeat has tells nothing.
    #[error("a heartbeat does not tell its {column}")]
    Untold {
        /// The column.
        column: &'static str,
    },
    /// A column holds no text of its kind.
    #[error("column {column} of a heartbeat holds no {kind}")]
    Unreadable {
        /// The column.
        column: &'static str,
        /// What it should hold.
        kind: &'static str,
    },
}

/// Whether `definition` is that of heartbeats, in a trail or in a database.
pub fn is_heartbeat(definition: &TableDefinition) -> bool {
    let name = definition.name.table.as_str();
    let is_named =
        [TABLE, SEED_TABLE].iter().any(|known| known.len() == name.len() && known.eq_ignore_ascii_case(name));
    is_named && [COLUMNS[0], COLUMNS[1], "OUTGOING_EXTRACT"].iter().all(|column| find(definition, column).is_some())
}

fn find(definition: &TableDefinition, name: &str) -> Option<usize> {
    definition.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
}

/// The definition under which heartbeats rest in a trail, born in `schema`; from its seed when `is_seed`.
pub fn definition(schema: &str, is_seed: bool) -> Arc<TableDefinition> {
    let column = |name: &&str| {
        let (logical, native) = match is_instant(name) {
            true => (LogicalType::Timestamp, "timestamp(6)"),
            false => (LogicalType::Text, "varchar"),
        };
        Column::new(*name, logical, native)
    };
    let mut columns: Vec<Column> = COLUMNS.iter().map(column).collect();
    columns[0].nullable = false;
    columns[0].key = Some(0);
    let table = if is_seed { SEED_TABLE } else { TABLE };
    Arc::new(TableDefinition { name: TableName::new(schema, table), columns: columns.into() })
}

fn is_instant(column: &str) -> bool {
    column.ends_with("_TS") || column.ends_with("_TIMESTAMP")
}

impl Heartbeat {
    /// The heartbeat that `change` of a heartbeat table tells; `None` for a deletion, which stamps nothing.
    ///
    /// # Errors
    /// [`HeartbeatError`] when it is not what a heartbeat looks like.
    pub fn of(change: &Change) -> Result<Option<Heartbeat>, HeartbeatError> {
        let row = match &change.operation {
            Operation::Insert { new } | Operation::Update { new, .. } => new,
            Operation::Delete { .. } | Operation::Truncate(_) => return Ok(None),
        };
        let fields = Fields { definition: &change.table, row };
        let direction = |names: &[&'static str]| -> Result<Direction, HeartbeatError> {
            Ok(Direction {
                extract: fields.text(names[0])?,
                routing_path: fields.text(names[1])?,
                replicat: fields.text(names[2])?,
                heartbeat_time: fields.instant(names[3])?,
                extract_time: fields.instant(names[4])?,
                routing_time: fields.instant(names[5])?,
                replicat_time: fields.instant(names[6])?,
                replicat_low_csn: fields.text(names[7])?,
                heartbeat_csn: fields.text(names[8])?,
                restart_csn: fields.text(names[9])?,
                restart_time: fields.instant(names[10])?,
            })
        };
        let Some(stamp) = fields.instant(COLUMNS[1])? else {
            // A row that arrived and that nobody has stamped here yet.
            return Ok(None);
        };
        Ok(Some(Heartbeat {
            local_database: fields.text(COLUMNS[0])?.ok_or(HeartbeatError::Untold { column: COLUMNS[0] })?,
            stamp,
            remote_database: fields.text(COLUMNS[2])?,
            incoming: direction(&COLUMNS[3..14])?,
            outgoing: direction(&COLUMNS[14..25])?,
        }))
    }

    /// The heartbeat with these values, in the order of [`COLUMNS`]; what [`values`](Heartbeat::values) gave, or a row of a
    /// heartbeat table. What can't be read is left out.
    pub fn of_values(values: &[Option<String>]) -> Heartbeat {
        let text = |place: usize| values.get(place).cloned().flatten().filter(|text| !text.is_empty());
        let instant = |place: usize| text(place).as_deref().and_then(parse_instant);
        let direction = |first: usize| Direction {
            extract: text(first),
            routing_path: text(first + 1),
            replicat: text(first + 2),
            heartbeat_time: instant(first + 3),
            extract_time: instant(first + 4),
            routing_time: instant(first + 5),
            replicat_time: instant(first + 6),
            replicat_low_csn: text(first + 7),
            heartbeat_csn: text(first + 8),
            restart_csn: text(first + 9),
            restart_time: instant(first + 10),
        };
        Heartbeat {
            local_database: text(0).unwrap_or_default(),
            stamp: instant(1).unwrap_or_default(),
            remote_database: text(2),
            incoming: direction(3),
            outgoing: direction(14),
        }
    }

    /// Its values, in the order of [`COLUMNS`].
    pub fn values(&self) -> Vec<Option<String>> {
        let instant = |instant: Option<Timestamp>| instant.map(|instant| instant.to_string());
        let mut values =
            vec![Some(self.local_database.clone()), instant(Some(self.stamp)), self.remote_database.clone()];
        for direction in [&self.incoming, &self.outgoing] {
            values.extend([
                direction.extract.clone(),
                direction.routing_path.clone(),
                direction.replicat.clone(),
                instant(direction.heartbeat_time),
                instant(direction.extract_time),
                instant(direction.routing_time),
                instant(direction.replicat_time),
                direction.replicat_low_csn.clone(),
                direction.heartbeat_csn.clone(),
                direction.restart_csn.clone(),
                instant(direction.restart_time),
            ]);
        }
        values
    }

    /// The record of it, under a `table` that [`definition`] gave.
    pub fn change(&self, table: &Arc<TableDefinition>, address: RecordAddress) -> Change {
        let values = self.values();
        let new = Row::from_values(
            values.iter().map(|value| value.as_ref().map_or(Value::Null, |text| Value::Bytes(text.as_bytes()))),
        );
        Change { table: Arc::clone(table), operation: Operation::Update { old: None, new }, address }
    }
}

struct Fields<'a> {
    definition: &'a TableDefinition,
    row: &'a Row,
}

impl Fields<'_> {
    /// The text of a column; `None` where it is NULL, empty, not told, or not a column of the table.
    fn text(&self, name: &'static str) -> Result<Option<String>, HeartbeatError> {
        let Some(place) = find(self.definition, name) else { return Ok(None) };
        let Some(bytes) = self.row.value(place).bytes() else { return Ok(None) };
        // A value that has its class with it tells that first.
        let is_marked = self.definition.columns[place].logical == LogicalType::Dynamic;
        let bytes = if is_marked { bytes.get(1..).unwrap_or_default() } else { bytes };
        let text = std::str::from_utf8(bytes)
            .map_err(|_| HeartbeatError::Unreadable { column: name, kind: "text in UTF-8" })?;
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    fn instant(&self, name: &'static str) -> Result<Option<Timestamp>, HeartbeatError> {
        let unreadable = HeartbeatError::Unreadable { column: name, kind: "instant" };
        self.text(name)?.map(|text| parse_instant(&text).ok_or(unreadable)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn direction() -> impl Strategy<Value = Direction> {
        let text = || proptest::option::of("[^\\x00]{1,12}");
        let instant = || proptest::option::of((0_i64..4_000_000_000_000_000).prop_map(Timestamp::from_unix_micros));
        ((text(), text(), text(), text(), text(), text()), (instant(), instant(), instant(), instant(), instant()))
            .prop_map(
                |(
                    (extract, routing_path, replicat, low, csn, restart),
                    (heartbeat, extracted, routed, read, restarts),
                )| {
                    Direction {
                        extract,
                        routing_path,
                        replicat,
                        heartbeat_time: heartbeat,
                        extract_time: extracted,
                        routing_time: routed,
                        replicat_time: read,
                        replicat_low_csn: low,
                        heartbeat_csn: csn,
                        restart_csn: restart,
                        restart_time: restarts,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn a_heartbeat_is_read_from_a_trail_as_it_was_written(
            incoming in direction(), outgoing in direction(), stamp in 0_i64..4_000_000_000_000_000, is_seed: bool,
        ) {
            let heartbeat = Heartbeat {
                local_database: "a".to_owned(),
                stamp: Timestamp::from_unix_micros(stamp),
                remote_database: (!is_seed).then(|| "ключ".to_owned()),
                incoming,
                outgoing,
            };
            let table = definition("s", is_seed);
            prop_assert!(is_heartbeat(&table));
            let change = heartbeat.change(&table, RecordAddress::default());
            prop_assert_eq!(Heartbeat::of_values(&heartbeat.values()), heartbeat.clone());
            prop_assert_eq!(Heartbeat::of(&change), Ok(Some(heartbeat)));
        }
    }

    #[test]
    fn a_seed_needs_only_its_own_columns_and_any_notation_of_names_and_values() {
        let dynamic = |name: &str| Column::new(name, LogicalType::Dynamic, "TEXT");
        let columns = vec![dynamic("local_database"), dynamic("Heartbeat_Timestamp"), dynamic("OUTGOING_EXTRACT")];
        let table =
            Arc::new(TableDefinition { name: TableName::new("main", "gg_heartbeat_seed"), columns: columns.into() });
        assert!(is_heartbeat(&table));
        let new = Row::from_values([Value::Bytes(b"tshop"), Value::Bytes(b"t1970-01-01 00:00:01"), Value::Null]);
        let change = Change { table, operation: Operation::Insert { new }, address: RecordAddress::default() };
        let heartbeat = Heartbeat::of(&change).expect("a heartbeat").expect("a stamp");
        assert_eq!((heartbeat.local_database.as_str(), heartbeat.stamp.unix_micros), ("shop", 1_000_000));
        assert_eq!(heartbeat.outgoing, Direction::default());
    }

    #[test]
    fn tables_of_users_are_no_heartbeats() {
        let table = |name: &str, columns: &[&str]| TableDefinition {
            name: TableName::new("public", name),
            columns: columns.iter().map(|name| Column::new(*name, LogicalType::Text, "text")).collect(),
        };
        assert!(!is_heartbeat(&table("gg_heartbeat", &["id", "text"])));
        assert!(!is_heartbeat(&table("gg_heartbeat_history", &COLUMNS)));
        assert!(is_heartbeat(&table("gg_heartbeat", &COLUMNS)));
    }
}
