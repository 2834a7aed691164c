//! The settings that every session pins.
//!
//! A role or a database can change how values read (`ALTER ROLE … SET datestyle`), which names resolve, and how long we
//! may live. Each of them would change data or stop replication silently, so they go into the startup packet, where they
//! win over role and database, and are set again once the session stands: a login trigger runs between the two.

/// Settings of every session, as name and value.
pub const PINNED: [(&str, &str); 34] = [
    // Text of values.
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
    ("quote_all_identifiers", "off"),
    // How text is read.
    ("array_nulls", "on"),
    ("standard_conforming_strings", "on"),
    ("backslash_quote", "safe_encoding"),
    ("transform_null_equals", "off"),
    // Names of ours are always qualified, and `regclass` values print qualified.
    ("search_path", "pg_catalog"),
    // A policy that hides rows must fail, not filter.
    ("row_security", "off"),
    // Nothing may end us but the operator.
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    // Known to servers from version 14 on; a short one would end a session before its first statement.
    ("idle_session_timeout", "0"),
    // Long enough for a reader that waits for its disk, short enough to free the slot of one that has vanished.
    ("wal_sender_timeout", "1min"),
    // Our transactions.
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    // Order and plans.
    ("synchronize_seqscans", "off"),
    ("gin_fuzzy_search_limit", "0"),
    ("jit", "off"),
    ("enable_indexscan", "on"),
    ("enable_bitmapscan", "on"),
    ("plan_cache_mode", "auto"),
    // Triggers may shout; we need to hear warnings only.
    ("client_min_messages", "warning"),
    ("default_tablespace", ""),
    // By this our event triggers know that a statement is none of a user's.
    ("drover.session", "on"),
];

/// Further settings, with the first server version that has them.
pub const PINNED_SINCE: [(&str, &str, u32); 1] = [("transaction_timeout", "0", 170_000)];

/// Settings that the server reports on change and that must stay as pinned.
pub(crate) const WATCHED: [(&str, &str); 5] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("standard_conforming_strings", "on"),
];

/// The statements that pin a session of a server of `version`.
pub(crate) fn statements(version: u32) -> String {
    let newer = PINNED_SINCE.iter().filter(|(_, _, since)| version >= *since).map(|(name, value, _)| (*name, *value));
    // The values are constants of ours, none holds a quote.
    PINNED.into_iter().chain(newer).map(|(name, value)| format!("SET {name} = '{value}';")).collect()
}
