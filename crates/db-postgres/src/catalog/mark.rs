//! Whether the tables of the database are those of the last look.

use crate::wire::{Connection, Error};

/// A number of versions and their sum, for each part of the catalog that decides which tables are captured, and how. Every
/// change of such a row makes a new version of it, under the number of the transaction. Columns do not count: what a change of
/// them means is told by the stream. Temporary tables do not count.
const MARK: &str = "
    SELECT concat_ws('/',
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(c.oid, ' ', c.xmin), 0)))
       FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'),
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(i.indexrelid, ' ', i.xmin), 0)))
       FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
       WHERE i.indisunique AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'),
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(i.inhrelid, ' ', i.xmin), 0))) FROM pg_inherits i),
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(r.oid, ' ', r.xmin), 0)))
       FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname::text = $1),
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(n.oid, ' ', n.xmin), 0)))
       FROM pg_namespace n WHERE n.nspname !~ '^pg_'),
      (SELECT concat(count(*), ':', sum(hashtextextended(concat(d.objoid, ' ', d.xmin), 0)))
       FROM pg_description d WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0))";

/// A text that stays the same for as long as no table comes, goes, or gets another name, owner, identity, parent, unique
/// index or comment, and `publication` keeps its members. One statement, however many tables there are.
pub(crate) fn read_mark(connection: &mut Connection, publication: &str) -> Result<String, Error> {
    let row = connection.query_one(MARK, &[Some(publication)])?;
    let row = row.ok_or(Error::Protocol("a query for one row gave none"))?;
    row.required(0).map(str::to_owned)
}
