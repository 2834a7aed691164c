//! DBLOGIN

use crate::console::parse::Command;
use crate::console::{Console, Failure};

/// Opens a database for the commands that follow.
pub fn login(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let url = command.required("SOURCEDB");
    let database = console.open_database(url)?;
    let identity = database.identity()?;
    writeln!(console.output, "Logged in to {} {} database {}.", identity.product, identity.version, identity.name)?;
    console.login = Some(database);
    Ok(())
}
