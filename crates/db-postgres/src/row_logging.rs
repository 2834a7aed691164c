//! TRANDATA: how much of old rows the server's log tells, which PostgreSQL calls replica identity.

use crate::catalog::{CatalogTable, Identity, Kinds, Scope, read_tables};
use crate::name;
use crate::wire::{Config, Connection, Error as WireError};
use change::TableName;
use database::{Error, ErrorClass, RowIdentity, RowLogging};

/// Who waits for a lock on a table makes everybody wait who comes after: better to try again.
const LOCK_LIMIT: &str = "SET lock_timeout = '5s'";

/// The unique index that identifies rows best where there is no primary key: its columns hold no NULL, it is checked at
/// once and holds all rows. Of several the one with the fewest columns, then the oldest.
const BEST_INDEX: &str = "\
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL \
      AND i.indexprs IS NULL AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid \
        AND a.attnum = ANY ((i.indkey::int2[])[0 : i.indnkeyatts - 1]) AND NOT a.attnotnull) \
    ORDER BY i.indnkeyatts, i.indexrelid LIMIT 1";

/// The index that a table's replica identity names.
const CHOSEN_INDEX: &str = "\
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = $1::oid AND i.indisreplident";

/// Publications that tell updates or deletes of the table, itself or by a partitioned ancestor, by name.
const PUBLICATIONS: &str = "\
    SELECT string_agg(DISTINCT quote_ident(p.pubname), ', ') FROM pg_publication p \
    WHERE (p.pubupdate OR p.pubdelete) AND (p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r \
      WHERE r.prpubid = p.oid AND (r.prrelid = $1::oid OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors($1::oid)))))";

/// What is told of each table of users.
pub(crate) fn list(config: &Config) -> Result<Vec<RowLogging>, Error> {
    let failed = |error: WireError| error.during(format!("can't list the replica identities of {config}"));
    let mut connection = Connection::connect(config)?;
    let tables = read_tables(&mut connection, &mut Kinds::default(), Scope::Users).map_err(failed)?;
    tables.iter().map(|table| told(&mut connection, table).map_err(failed)).collect()
}

/// Lets the log tell the key of old rows, or all columns; of a table without a key it tells all.
pub(crate) fn set(config: &Config, name: &TableName, all_columns: bool) -> Result<RowLogging, Error> {
    change(config, name, |connection, member| {
        if all_columns {
            return Ok("FULL".to_owned());
        }
        if has_primary_key(connection, member)? {
            return Ok("DEFAULT".to_owned());
        }
        let index = connection.query_one(BEST_INDEX, &[Some(&member.oid.to_string())])?;
        Ok(match index.and_then(|row| row.text(0).map(name::quote)) {
            Some(index) => format!("USING INDEX {index}"),
            None => "FULL".to_owned(),
        })
    })
}

/// Gives a table back the replica identity that it was created with.
pub(crate) fn reset(config: &Config, name: &TableName) -> Result<RowLogging, Error> {
    let mut connection = Connection::connect(config)?;
    let failed = |error: WireError| error.during(format!("can't look at table {name}"));
    for member in family(&mut connection, name)? {
        if has_primary_key(&mut connection, &member).map_err(failed)? {
            continue;
        }
        let row = connection.query_one(PUBLICATIONS, &[Some(&member.oid.to_string())]).map_err(failed)?;
        if let Some(publications) = row.as_ref().and_then(|row| row.text(0)) {
            let member = &member.definition.name;
            let what = format!(
                "table {member} has no primary key and is published by {publications}: without its replica identity the \
                 server would refuse every UPDATE and DELETE of it"
            );
            return Err(Error::new(ErrorClass::Unsupported, what)
                .with_next_step("take the table out of the publication first, or leave its TRANDATA as it is"));
        }
    }
    change(config, name, |_, _| Ok("DEFAULT".to_owned()))
}

/// Alters the table and its partitions in one transaction. `identity` says to what, table by table.
fn change(
    config: &Config,
    name: &TableName,
    mut identity: impl FnMut(&mut Connection, &CatalogTable) -> Result<String, WireError>,
) -> Result<RowLogging, Error> {
    let failed = |error: WireError| error.during(format!("can't change the replica identity of table {name}"));
    let mut connection = Connection::connect(config)?;
    let members = family(&mut connection, name)?;
    if let Some(member) = members.iter().find(|member| !member.is_owned) {
        let what = format!("table {} belongs to another role", member.definition.name);
        return Err(Error::new(ErrorClass::Denied, what).with_next_step("DBLOGIN as the owner of the table"));
    }
    let mut statements = Vec::new();
    for member in &members {
        let identity = identity(&mut connection, member).map_err(failed)?;
        let table = name::table(&member.definition.name);
        statements.push(format!("ALTER TABLE ONLY {table} REPLICA IDENTITY {identity}"));
    }
    connection.run(LOCK_LIMIT).map_err(failed)?;
    connection.run(&statements.join(";")).map_err(failed)?;
    let table = family(&mut connection, name)?.swap_remove(0);
    told(&mut connection, &table).map_err(failed)
}

/// The table, and after it its partitions of every level.
fn family(connection: &mut Connection, name: &TableName) -> Result<Vec<CatalogTable>, Error> {
    let failed = |error: WireError| error.during(format!("can't look at table {name}"));
    let mut kinds = Kinds::default();
    let table = read_tables(connection, &mut kinds, Scope::Named(name)).map_err(failed)?.pop().ok_or_else(|| {
        Error::new(ErrorClass::Missing, format!("table {name} does not exist"))
            .with_next_step("check the name; names without quotes are lower case")
    })?;
    let mut members = vec![table];
    if members[0].is_partitioned {
        let root = members[0].oid.to_string();
        let rows = connection
            .query(
                "SELECT relid::oid FROM pg_partition_tree($1::oid) WHERE level > 0 ORDER BY level, relid",
                &[Some(&root)],
            )
            .map_err(failed)?;
        for row in rows {
            let oid = row.parse(0).map_err(failed)?;
            members.extend(read_tables(connection, &mut kinds, Scope::Numbered(oid)).map_err(failed)?);
        }
    }
    Ok(members)
}

fn has_primary_key(connection: &mut Connection, table: &CatalogTable) -> Result<bool, WireError> {
    let sql = "SELECT count(*) > 0 FROM pg_index i WHERE i.indrelid = $1::oid AND i.indisprimary AND i.indimmediate";
    Ok(connection.query_one(sql, &[Some(&table.oid.to_string())])?.is_some_and(|row| row.flag(0)))
}

fn told(connection: &mut Connection, table: &CatalogTable) -> Result<RowLogging, WireError> {
    let identity = match table.identity {
        Identity::Full => RowIdentity::AllColumns,
        Identity::Default if !table.identity_columns.is_empty() => RowIdentity::Key,
        Identity::Index if !table.identity_columns.is_empty() => {
            let row = connection.query_one(CHOSEN_INDEX, &[Some(&table.oid.to_string())])?;
            RowIdentity::Index(row.and_then(|row| row.text(0).map(str::to_owned)).unwrap_or_default())
        }
        // An identity by a key or an index that is not there identifies nothing.
        Identity::Default | Identity::Index | Identity::Nothing => RowIdentity::Nothing,
    };
    Ok(RowLogging { table: table.definition.name.clone(), identity })
}
