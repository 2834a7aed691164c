//! What a table demands of the order of writes by several sessions.

use super::CatalogTable;
use crate::wire::{Connection, Error};
use change::TableName;
use database::{ForeignKey, OrderScope, TableOrder, UniqueKey};

/// Columns of unique and exclusion indexes of the table, and of those of its partitions that the table does not have itself:
/// the index; the column, if it is a plain one; whether the index is of the table and compares its columns as they are
/// compared elsewhere; whether NULLs meet.
const INDEXES: &str = "
    SELECT i.indexrelid, a.attname,
      i.indrelid = $1::oid AND i.indisunique
        AND NOT EXISTS (SELECT FROM pg_collation k WHERE k.oid = ANY (i.indcollation::oid[]) AND NOT k.collisdeterministic)
        AND NOT EXISTS (SELECT FROM pg_opclass o
          WHERE o.oid = ANY (i.indclass::oid[]) AND NOT o.opcdefault AND o.opcname NOT LIKE '%\\_pattern\\_ops'),
      coalesce((to_jsonb(i)->>'indnullsnotdistinct')::boolean, false)
    FROM pg_index i
      CROSS JOIN LATERAL unnest((i.indkey::int2[])[0 : i.indnkeyatts - 1]) WITH ORDINALITY AS k (number, place)
      LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND a.attnum > 0
    WHERE (i.indisunique OR i.indisexclusion) AND (i.indrelid = $1::oid
      OR i.indrelid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass))
        AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid))
    ORDER BY i.indexrelid, k.place";

/// Columns of foreign keys: the key, the table that is referred to, the column, the column that is referred to.
const REFERENCES: &str = "
    SELECT f.oid, n.nspname, c.relname, a.attname, b.attname
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      CROSS JOIN LATERAL unnest(f.conkey, f.confkey) WITH ORDINALITY AS k (number, parent, place)
      JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.number
      JOIN pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = k.parent
    WHERE f.contype = 'f' AND f.conrelid = $1::oid
    ORDER BY f.oid, k.place";

/// Triggers and rules that run for a session that asks for none to run: of the table and of its partitions.
const ALWAYS: &str = "
    SELECT EXISTS (SELECT FROM pg_trigger t
        WHERE NOT t.tgisinternal AND t.tgenabled IN ('A', 'R')
          AND (t.tgrelid = $1::oid OR t.tgrelid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass))))
      OR EXISTS (SELECT FROM pg_rewrite r
        WHERE r.ev_class = $1::oid AND r.ev_type <> '1' AND (r.ev_enabled IN ('A', 'R') OR r.ev_enabled = 'O' AND NOT $2::boolean))";

/// Reads what `table` demands. `is_replica` tells whether the session runs under `session_replication_role = replica`.
pub(crate) fn read_order(
    connection: &mut Connection,
    table: &CatalogTable,
    is_replica: bool,
) -> Result<TableOrder, Error> {
    let oid = table.oid.to_string();
    let place = |name: &str| table.definition.column(name);
    let mut order = TableOrder { scope: OrderScope::Rows, unique: Vec::new(), references: Vec::new() };
    let mut last = None;
    for row in connection.query(INDEXES, &[Some(&oid)])? {
        let index: u32 = row.parse(0)?;
        if last.replace(index) != Some(index) {
            order.unique.push(UniqueKey { columns: Vec::new(), nulls_meet: row.flag(3) });
        }
        let column = row.text(1).and_then(place).filter(|column| row.flag(2) && is_exact(table, *column));
        match (column, order.unique.last_mut()) {
            (Some(column), Some(key)) => key.columns.push(column),
            _ => order.scope = OrderScope::Table,
        }
    }
    last = None;
    for row in connection.query(REFERENCES, &[Some(&oid)])? {
        let reference: u32 = row.parse(0)?;
        if last.replace(reference) != Some(reference) {
            let parent = TableName::new(row.required(1)?, row.required(2)?);
            order.references.push(ForeignKey { columns: Vec::new(), parent, parent_columns: Vec::new() });
        }
        if let (Some(column), Some(key)) = (place(row.required(3)?), order.references.last_mut()) {
            key.columns.push(column);
            key.parent_columns.push(row.required(4)?.to_owned());
        }
    }
    let role = if is_replica { "true" } else { "false" };
    if connection.query_one(ALWAYS, &[Some(&oid), Some(role)])?.is_some_and(|row| row.flag(0)) {
        order.scope = OrderScope::Database;
    }
    Ok(order)
}

/// Whether values of a column that are equal also read the same; a declared scale sees to that for numeric.
fn is_exact(table: &CatalogTable, column: usize) -> bool {
    let (known, defined) = (&table.columns[column], &table.definition.columns[column]);
    known.is_exact || known.kind.base == 1700 && defined.scale.is_some()
}
