//! Transactions that are open at the server, by its own views.

use crate::wire::{Config, Connection, Error as WireError, Lsn};
use change::{LogPosition, TableName, Timestamp, TransactionId};
use database::{Error, OpenWork, OpenWorkView};
use std::collections::BTreeMap;

/// Those with a number: others have written nothing. Numbers grow, so the oldest comes first; they turn over after 4 billion,
/// which `age` knows.
const TRANSACTIONS: &str = "\
    SELECT xid::text, (extract(epoch FROM started) * 1000000)::bigint, state, gid, usename, program, pid FROM ( \
      SELECT backend_xid AS xid, xact_start AS started, coalesce(state, 'unknown') AS state, NULL::text AS gid, \
        usename::text AS usename, nullif(application_name, '') AS program, pid \
      FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid() \
      UNION ALL \
      SELECT transaction, prepared, 'prepared', gid, owner::text, NULL, NULL FROM pg_prepared_xacts \
      WHERE database = current_database()) AS t \
    ORDER BY age(xid) DESC";

/// Tables of users that they write into. A prepared transaction has no process; the lock on its own number has the same owner as
/// its other locks.
const TABLES: &str = "\
    SELECT DISTINCT coalesce(a.backend_xid, p.transaction)::text, n.nspname, c.relname \
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace \
      LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
      LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' \
        AND x.virtualtransaction = l.virtualtransaction \
      LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid \
    WHERE l.locktype = 'relation' AND l.granted AND c.relkind IN ('r', 'p') \
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
      AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
      AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') \
      AND coalesce(a.backend_xid, p.transaction) IS NOT NULL \
    ORDER BY 1, 2, 3";

pub(crate) fn list(config: &Config) -> Result<OpenWorkView, Error> {
    let failed = |error: WireError| error.during(format!("can't ask {config} for open transactions"));
    let mut connection = Connection::connect(config)?;
    let mut tables: BTreeMap<String, Vec<TableName>> = BTreeMap::new();
    for row in connection.query(TABLES, &[]).map_err(failed)? {
        let text = |index| row.text(index).unwrap_or_default();
        tables.entry(text(0).to_owned()).or_default().push(TableName::new(text(1), text(2)));
    }
    let rows = connection.query(TRANSACTIONS, &[]).map_err(failed)?;
    // Asked last: what the queries did not find had ended before.
    let end = connection.query_one("SELECT pg_current_wal_insert_lsn()", &[]).map_err(failed)?;
    let end = end.and_then(|row| row.text(0).and_then(Lsn::parse));
    let end = end.ok_or_else(|| failed(WireError::Protocol("a log without an end")))?;
    let transactions = rows
        .iter()
        .map(|row| {
            let text = |index| row.text(index).map(str::to_owned);
            let transaction = text(0).unwrap_or_default();
            OpenWork {
                started: row.text(1).and_then(|micros| micros.parse().ok()).map(Timestamp::from_unix_micros),
                state: text(2).unwrap_or_default(),
                prepared: text(3),
                user: text(4),
                program: text(5),
                process_id: row.text(6).and_then(|id| id.parse().ok()),
                tables: tables.remove(&transaction).unwrap_or_default(),
                transaction: TransactionId::new(transaction),
            }
        })
        .collect();
    Ok(OpenWorkView { transactions, end: LogPosition::new(end.to_string()) })
}
