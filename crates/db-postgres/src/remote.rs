//! What trigger bodies can ask: does a Replicat write this row?
//!
//! ```sql
//! CREATE TRIGGER audit AFTER INSERT ON t FOR EACH ROW WHEN (NOT drover.from_remote()) EXECUTE FUNCTION audit();
//! ```

use crate::wire::{Connection, Error};
use database::ErrorClass;

/// The statements that make the function. It reads a setting that the sessions of Replicats have.
pub(crate) const CREATE: &str = "\
CREATE SCHEMA IF NOT EXISTS drover;
GRANT USAGE ON SCHEMA drover TO PUBLIC;
CREATE OR REPLACE FUNCTION drover.from_remote() RETURNS boolean LANGUAGE sql STABLE
    AS $$ SELECT coalesce(pg_catalog.current_setting('drover.from_remote', true), '') = 'on' $$;
COMMENT ON FUNCTION drover.from_remote() IS 'Drover: whether a Replicat writes this row';
";

/// What makes a session known as a Replicat's.
pub(crate) const ENTER: &str = "SET drover.from_remote = 'on'";

/// Makes the function, where it is not there and the user may make it: only who has triggers that ask needs it, and they can't
/// be created without it.
pub(crate) fn install(connection: &mut Connection) -> Result<(), Error> {
    let exists = "SELECT to_regprocedure('drover.from_remote()') IS NOT NULL";
    if connection.query_one(exists, &[])?.is_some_and(|row| row.flag(0)) {
        return Ok(());
    }
    let made = connection.run(&format!("BEGIN; {CREATE} COMMIT"));
    if made.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK")?;
    }
    match made {
        Err(error) if error.class() == ErrorClass::Denied => Ok(()),
        made => made.map(drop),
    }
}
