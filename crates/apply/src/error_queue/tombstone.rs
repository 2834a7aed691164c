//! The versions of deleted rows, so that a late change of one is told from a change of a row that was never there.
//!
//! A delete leaves the version of the row that it removed: at the site of the delete by a trigger, at the others by the
//! Replicat that carries it out. Sites therefore hold the same versions, and nobody has to send them.

use super::writer::{QueueWriter, text_of};
use crate::conflict::Stamp;
use change::{LogicalType, Operation, Row, TableName, Timestamp};
use database::error_queue::TOMBSTONES;
use database::{ApplyError, Error, OwnRows, Session, TablePlan};

/// Stands between the values of a key.
const BETWEEN: char = '\u{1f}';

/// The values of the row's key as one text; `None` when one is not told.
pub(crate) fn key_of(plan: &TablePlan, row: &Row) -> Option<String> {
    let mut pairs = plan.key.clone();
    pairs.sort_by_key(|pair| plan.target.columns[pair.target].key);
    let mut text = String::new();
    for (place, pair) in pairs.iter().enumerate() {
        if place > 0 {
            text.push(BETWEEN);
        }
        let bytes = row.value(pair.source).bytes()?;
        let is_dynamic = plan.source.columns[pair.source].logical == LogicalType::Dynamic;
        let bytes = if is_dynamic { bytes.get(1..)? } else { bytes };
        text.push_str(&String::from_utf8_lossy(bytes));
    }
    Some(text)
}

impl QueueWriter {
    /// The version that the row with this key had when it was deleted, as far as that is known.
    pub(crate) fn tombstone(
        &self,
        session: &mut dyn Session,
        table: &TableName,
        key: &str,
    ) -> Result<Option<Stamp>, Error> {
        if change::sabotage::is_on("forget-deleted-rows") {
            return Ok(None);
        }
        let place = |name: &str| self.column(TOMBSTONES, name);
        let query = OwnRows {
            table: &self.plan(TOMBSTONES).target,
            equal: &[(place("sname"), &table.schema), (place("oname"), &table.table), (place("key_values"), key)],
            order: &[],
            after: None,
            limit: 1,
        };
        let rows = session.own_rows(&query)?;
        let Some(row) = rows.first() else { return Ok(None) };
        let Some(time) = text_of(row, place("version")) else { return Ok(None) };
        let site = text_of(row, place("site")).unwrap_or(time);
        Ok(Some(Stamp { time: time.into(), site: site.into() }))
    }

    /// Notes the version of a row that is deleted in the open transaction; `known` is what is noted of its key already.
    pub(crate) fn bury(
        &self,
        session: &mut dyn Session,
        table: &TableName,
        key: &str,
        (stamp, now): (&Stamp, Timestamp),
        known: Option<&Stamp>,
    ) -> Result<(), ApplyError> {
        let [time, site] = [&stamp.time, &stamp.site].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let now = now.to_string();
        let identity =
            [("sname", Some(table.schema.as_str())), ("oname", Some(table.table.as_str())), ("key_values", Some(key))];
        let values = [("version", Some(time.as_str())), ("site", Some(site.as_str())), ("deleted_date", Some(&now))];
        let all: Vec<(&str, Option<&str>)> = identity.into_iter().chain(values).collect();
        let new = self.image(TOMBSTONES, &all);
        let operation = match known {
            None => Operation::Insert { new },
            Some(_) => Operation::Update { old: None, new },
        };
        self.write(session, TOMBSTONES, &[operation])
    }
}
