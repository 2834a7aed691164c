//! Names in statements, and the names of what we install.

use crate::wire::{Connection, Error, TextRow};
use change::TableName;

/// What all names of ours in a database start with.
pub(crate) const PREFIX: &str = "drover_";

/// Longest name that the server keeps whole; longer ones are cut, and could meet another name.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// `name` as an identifier in a statement.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as a string constant in a statement; needed where the server takes no parameter.
pub(crate) fn literal(text: &str) -> String {
    // The form with E reads the same whatever `standard_conforming_strings` says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A table's qualified name in a statement.
pub(crate) fn table(name: &TableName) -> String {
    format!("{}.{}", quote(&name.schema), quote(&name.table))
}

/// Name of a group's publication, which belongs to one database.
pub(crate) fn publication(group: &str) -> String {
    format!("{PREFIX}{}", plain(group))
}

/// Name of a group's slot. Slots belong to the whole cluster, so the database's number is part of it.
pub(crate) fn slot(group: &str, database: u32) -> String {
    format!("{PREFIX}{}_{database}", plain(group))
}

/// Name of the origin of a group that applies. Origins belong to the whole cluster too, and several homes may have a group
/// of one name, which their keys tell apart.
pub(crate) fn origin(group: &str, key: i64, database: u32) -> String {
    format!("{PREFIX}{}_{database}_{key:x}", plain(group))
}

/// A group's name in the characters that a slot's name may have: lower-case letters, digits and underscores.
fn plain(group: &str) -> String {
    group
        .bytes()
        .map(|byte| match byte.to_ascii_lowercase() {
            kept @ (b'a'..=b'z' | b'0'..=b'9') => char::from(kept).to_string(),
            other => format!("_{other:02x}"),
        })
        .collect()
}

/// Number of the database that the session is in.
pub(crate) fn database_number(connection: &mut Connection) -> Result<u32, Error> {
    let rows = connection.simple_query("SELECT oid FROM pg_database WHERE datname = current_database()")?;
    rows.first()
        .and_then(|result| result.rows.first())
        .map(|row: &TextRow| row.parse(0))
        .unwrap_or(Err(Error::Protocol("the server does not know its own database")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups_become_names_of_slots_and_stay_different() {
        assert_eq!(publication("E1"), "drover_e1");
        assert_eq!(slot("E1", 5), "drover_e1_5");
        assert_ne!(slot("E_1", 5), slot("E$1", 5));
        assert_ne!(slot("E", 15), slot("E_1", 5));
    }

    #[test]
    fn quoting_leaves_no_way_out() {
        assert_eq!(quote("x\"; DROP TABLE y; --"), "\"x\"\"; DROP TABLE y; --\"");
        assert_eq!(literal("a'b\\"), "E'a''b\\\\'");
    }
}
