//! Tables with columns, keys and replica identity.

use super::kind::{BPCHAR, Kinds, TypeKind, measures};
use crate::wire::{Connection, Error};
use change::{Column, Generation, TableDefinition, TableName};
use std::collections::HashMap;

/// What the comment of a table of ours starts with. Such tables are nobody's data.
pub(crate) const OUR_COMMENT: &str = "Drover ";

/// How updates and deletes of a table tell which row they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// By the primary key, if it is immediate.
    Default,
    /// By a chosen index.
    Index,
    /// By the whole row.
    Full,
    /// Not at all.
    Nothing,
}

/// A column with what writing needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogColumn {
    pub(crate) kind: TypeKind,
    /// Whether values that are equal also read the same.
    pub(crate) is_exact: bool,
}

/// A table as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogTable {
    pub(crate) oid: u32,
    pub(crate) definition: TableDefinition,
    /// One per column of the definition.
    pub(crate) columns: Vec<CatalogColumn>,
    pub(crate) is_partitioned: bool,
    /// The table that this one is a partition of.
    pub(crate) parent: Option<u32>,
    pub(crate) is_logged: bool,
    /// Whether our role may change the table.
    pub(crate) is_owned: bool,
    pub(crate) identity: Identity,
    /// Columns of the index that identifies rows; empty when there is none.
    pub(crate) identity_columns: Vec<usize>,
    /// Unique keys whose columns hold no NULL and that are checked at once.
    pub(crate) unique: Vec<Vec<usize>>,
    /// A trigger of the user's that fires for an ordinary session.
    pub(crate) trigger: Option<String>,
    /// A foreign key that leaves the table or points at it.
    pub(crate) reference: Option<String>,
}

/// Which tables are asked for.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// All that belong to users; partitions included.
    Users,
    /// The one of this name, whoever it belongs to.
    Named(&'a TableName),
    /// The one with this number.
    Numbered(u32),
}

/// Both sides of foreign keys are looked up once: asked for table by table, each question would go over all constraints.
const TABLES: &str = "
    SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', i.inhparent, c.relpersistence = 'p',
      pg_has_role(c.relowner, 'USAGE'), c.relreplident,
      (SELECT quote_ident(t.tgname) FROM pg_trigger t
       WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') ORDER BY t.tgname LIMIT 1),
      quote_ident(f.conname)
    FROM pg_class c
      LEFT JOIN (SELECT side, min(conname::text COLLATE \"C\") AS conname
        FROM (SELECT conrelid AS side, conname FROM pg_constraint WHERE contype = 'f'
          UNION ALL SELECT confrelid, conname FROM pg_constraint WHERE contype = 'f') AS sides
        GROUP BY side) AS f ON f.side = c.oid
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND ";

/// Schemas and tables that are the server's, an extension's or ours do not count. The last pattern is [`OUR_COMMENT`].
const USERS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
      AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'Drover %'";

const COLUMNS: &str = "
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      a.attidentity, a.attgenerated, coalesce(k.collisdeterministic, true)
    FROM pg_attribute a LEFT JOIN pg_collation k ON k.oid = a.attcollation
    WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum";

const INDEXES: &str = "
    SELECT i.indrelid, i.indisprimary, i.indisreplident, i.indimmediate,
      array_to_string((i.indkey::int2[])[0 : i.indnkeyatts - 1], ' ')
    FROM pg_index i
    WHERE i.indrelid = ANY ($1::oid[]) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid";

/// Reads the tables of `scope`, in name order. The types that they use are in `kinds` afterwards.
pub(crate) fn read_tables(
    connection: &mut Connection,
    kinds: &mut Kinds,
    scope: Scope<'_>,
) -> Result<Vec<CatalogTable>, Error> {
    let rows = match scope {
        Scope::Users => connection.query(&format!("{TABLES} {USERS}"), &[])?,
        Scope::Named(name) => {
            // No name holds a zero byte, and none is cut here: a longer one finds nothing.
            if name.schema.contains('\0') || name.table.contains('\0') {
                return Ok(Vec::new());
            }
            let sql = format!("{TABLES} n.nspname::text = $1 AND c.relname::text = $2");
            connection.query(&sql, &[Some(&name.schema), Some(&name.table)])?
        }
        Scope::Numbered(oid) => connection.query(&format!("{TABLES} c.oid = $1::oid"), &[Some(&oid.to_string())])?,
    };
    let mut tables = Vec::with_capacity(rows.len());
    for row in rows {
        tables.push(CatalogTable {
            oid: row.parse(0)?,
            definition: TableDefinition {
                name: TableName::new(row.required(1)?, row.required(2)?),
                columns: Vec::new().into(),
            },
            columns: Vec::new(),
            is_partitioned: row.flag(3),
            parent: row.text(4).map(|_| row.parse(4)).transpose()?,
            is_logged: row.flag(5),
            is_owned: row.flag(6),
            identity: match row.required(7)? {
                "d" => Identity::Default,
                "i" => Identity::Index,
                "f" => Identity::Full,
                _ => Identity::Nothing,
            },
            identity_columns: Vec::new(),
            unique: Vec::new(),
            trigger: row.text(8).map(str::to_owned),
            reference: row.text(9).map(str::to_owned),
        });
    }
    fill(connection, kinds, &mut tables)?;
    tables.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
    Ok(tables)
}

struct Attribute {
    number: i16,
    column: Column,
    kind: u32,
    modifier: i32,
    is_deterministic: bool,
}

fn fill(connection: &mut Connection, kinds: &mut Kinds, tables: &mut [CatalogTable]) -> Result<(), Error> {
    if tables.is_empty() {
        return Ok(());
    }
    let list = tables.iter().map(|table| table.oid.to_string()).collect::<Vec<_>>().join(",");
    let list = format!("{{{list}}}");
    let mut attributes: HashMap<u32, Vec<Attribute>> = HashMap::new();
    for row in connection.query(COLUMNS, &[Some(&list)])? {
        let generation = match (row.required(7)?, row.required(8)?) {
            (_, "s") => Generation::Stored,
            (_, "v") => Generation::Virtual,
            ("a", _) => Generation::IdentityAlways,
            ("d", _) => Generation::IdentityByDefault,
            _ => Generation::None,
        };
        let mut column = Column::new(row.required(2)?, change::LogicalType::Other, row.required(5)?);
        column.nullable = !row.flag(6);
        column.generation = generation;
        let attribute = Attribute {
            number: row.parse(1)?,
            column,
            kind: row.parse(3)?,
            modifier: row.parse(4)?,
            is_deterministic: row.flag(9),
        };
        attributes.entry(row.parse(0)?).or_default().push(attribute);
    }
    kinds.load(connection, attributes.values().flatten().map(|attribute| attribute.kind))?;
    let mut indexes: HashMap<u32, Vec<Index>> = HashMap::new();
    for row in connection.query(INDEXES, &[Some(&list)])? {
        let numbers = row.required(4)?.split(' ').map(str::parse).collect::<Result<_, _>>();
        indexes.entry(row.parse(0)?).or_default().push(Index {
            is_primary: row.flag(1),
            is_identity: row.flag(2),
            is_immediate: row.flag(3),
            numbers: numbers.map_err(|_| Error::Protocol("an index has a column without a number"))?,
        });
    }
    for table in tables {
        describe(
            table,
            attributes.remove(&table.oid).unwrap_or_default(),
            indexes.remove(&table.oid).unwrap_or_default(),
            kinds,
        );
    }
    Ok(())
}

struct Index {
    is_primary: bool,
    is_identity: bool,
    is_immediate: bool,
    numbers: Vec<i16>,
}

fn describe(table: &mut CatalogTable, attributes: Vec<Attribute>, indexes: Vec<Index>, kinds: &Kinds) {
    let places: HashMap<i16, usize> =
        attributes.iter().enumerate().map(|(place, attribute)| (attribute.number, place)).collect();
    let mut shape = Vec::with_capacity(attributes.len());
    for Attribute { mut column, kind, modifier, is_deterministic, .. } in attributes {
        let kind = kinds.kind(kind);
        let modifier = if modifier == -1 { kind.base_modifier } else { modifier };
        (column.length, column.precision, column.scale) = measures(kind.base, modifier);
        column.logical = kind.logical;
        let column_length = column.length;
        shape.push(column);
        let is_filled_up = kind.base != BPCHAR || column_length.is_some();
        table.columns.push(CatalogColumn { is_exact: kind.is_exact && is_deterministic && is_filled_up, kind });
    }
    let columns = |index: &Index| index.numbers.iter().filter_map(|number| places.get(number).copied()).collect();
    let primary = indexes.iter().find(|index| index.is_primary);
    let chosen = indexes.iter().find(|index| match table.identity {
        Identity::Default => index.is_primary && index.is_immediate,
        Identity::Index => index.is_identity,
        Identity::Full | Identity::Nothing => false,
    });
    table.identity_columns = chosen.map(columns).unwrap_or_default();
    let key: Vec<usize> = match (table.identity, chosen, primary) {
        // What old images tell is the key.
        (Identity::Index, Some(index), _) | (_, None, Some(index)) | (_, Some(index), _) => columns(index),
        (_, None, None) => Vec::new(),
    };
    for (place, column) in (0_u16..).zip(key) {
        shape[column].key = Some(place);
    }
    table.definition.columns = shape.into();
    let definition = &table.definition;
    let holds_no_null = |columns: &Vec<usize>| columns.iter().all(|column| !definition.columns[*column].nullable);
    table.unique = indexes.iter().filter(|index| index.is_immediate).map(columns).filter(holds_no_null).collect();
}
