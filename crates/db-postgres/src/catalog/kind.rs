//! Types: which logical type they are, how to cast to them, how to compare them.

use crate::wire::{Connection, Error};
use change::LogicalType;
use std::collections::HashMap;

/// What we need to know of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeKind {
    /// The type below all domains.
    pub(crate) base: u32,
    /// The modifier that the innermost domain with one gives, or -1.
    pub(crate) base_modifier: i32,
    /// Name of the base type for casts, without modifier: a cast with one would cut silently where an assignment fails.
    pub(crate) cast: String,
    /// The equality operator by which indexes find values, as it stands in an expression; `None` when there is none.
    pub(crate) equality: Option<String>,
    /// Whether values that are equal to that operator also read the same. Those of `numeric` need not: 1.0 and 1.00.
    pub(crate) is_exact: bool,
    /// What its values are.
    pub(crate) logical: LogicalType,
}

/// Types by number, read when they are first needed.
#[derive(Default)]
pub(crate) struct Kinds {
    known: HashMap<u32, Raw>,
}

#[derive(Clone)]
struct Raw {
    class: String,
    category: String,
    base: u32,
    modifier: i32,
    element: u32,
    name: String,
    cast: String,
    equality: Option<String>,
}

/// A cast from text that has a function of its own may read other texts than the type's input does (regclass takes no
/// number), so it goes by way of a type without one.
///
/// Arrays, enums and ranges are compared by operators of their pseudo-types, varchar by those of text.
const QUERY: &str = "
    SELECT t.oid, t.typtype, t.typcategory, t.typbasetype, t.typtypmod, t.typelem, t.typname,
      CASE WHEN EXISTS (SELECT FROM pg_cast c
                        WHERE c.castsource = 'text'::regtype AND c.casttarget = t.oid AND c.castmethod = 'f')
            AND NOT EXISTS (SELECT FROM pg_cast c WHERE c.castsource = 'bpchar'::regtype AND c.casttarget = t.oid)
           THEN 'bpchar::' ELSE '' END || format_type(t.oid, -1),
      (SELECT CASE WHEN n.nspname = 'pg_catalog' THEN o.oprname::text
                   ELSE format('OPERATOR(%I.%s)', n.nspname, o.oprname) END
       FROM pg_opclass oc
         JOIN pg_am am ON am.oid = oc.opcmethod AND am.amname = 'btree'
         JOIN pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3
           AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
         JOIN pg_operator o ON o.oid = ao.amopopr
         JOIN pg_namespace n ON n.oid = o.oprnamespace
       WHERE oc.opcdefault AND oc.opcintype = CASE
         WHEN t.typtype = 'e' THEN 'anyenum'::regtype
         WHEN t.typtype = 'r' THEN 'anyrange'::regtype
         WHEN t.typtype = 'm' THEN 'anymultirange'::regtype
         WHEN t.typcategory = 'A' THEN 'anyarray'::regtype
         WHEN t.oid = 'varchar'::regtype THEN 'text'::regtype
         ELSE t.oid END
       LIMIT 1)
    FROM pg_type t WHERE t.oid = ANY ($1::oid[])";

impl Kinds {
    /// Reads the types in `oids`, and those that they rest on, as far as they are not known.
    pub(crate) fn load(
        &mut self,
        connection: &mut Connection,
        oids: impl IntoIterator<Item = u32>,
    ) -> Result<(), Error> {
        let mut wanted: Vec<u32> = oids.into_iter().filter(|oid| !self.known.contains_key(oid)).collect();
        while !wanted.is_empty() {
            wanted.sort_unstable();
            wanted.dedup();
            let list = wanted.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let mut further = Vec::new();
            for row in connection.query(QUERY, &[Some(&format!("{{{list}}}"))])? {
                let raw = Raw {
                    class: row.required(1)?.to_owned(),
                    category: row.required(2)?.to_owned(),
                    base: row.parse(3)?,
                    modifier: row.parse(4)?,
                    element: row.parse(5)?,
                    name: row.required(6)?.to_owned(),
                    cast: row.required(7)?.to_owned(),
                    equality: row.text(8).map(str::to_owned),
                };
                further.extend([raw.base, raw.element].into_iter().filter(|oid| *oid != 0));
                self.known.insert(row.parse(0)?, raw);
            }
            // A type that was dropped meanwhile is asked for once only.
            further.retain(|oid| !self.known.contains_key(oid) && !wanted.contains(oid));
            wanted = further;
        }
        Ok(())
    }

    /// What is known of the type `oid`; a type that is gone is text that nothing compares.
    pub(crate) fn kind(&self, oid: u32) -> TypeKind {
        let (mut base, mut base_modifier) = (oid, -1);
        while let Some(raw) = self.known.get(&base)
            && raw.class == "d"
        {
            base_modifier = if base_modifier == -1 { raw.modifier } else { base_modifier };
            base = raw.base;
        }
        let raw = self.known.get(&base);
        TypeKind {
            base,
            base_modifier,
            cast: raw.map_or_else(|| "text".to_owned(), |raw| raw.cast.clone()),
            equality: raw.filter(|_| self.compares(base)).and_then(|raw| raw.equality.clone()),
            is_exact: EXACT.contains(&base) || raw.is_some_and(|raw| raw.class == "e"),
            logical: raw.map_or(LogicalType::Other, |raw| logical(base, raw)),
        }
    }

    /// Whether values can be compared: an array has an operator always, which fails where its elements have none.
    fn compares(&self, oid: u32) -> bool {
        let Some(raw) = self.known.get(&oid) else { return false };
        match raw.class.as_str() {
            "d" => self.compares(raw.base),
            _ if raw.category == "A" => raw.equality.is_some() && self.compares(raw.element),
            _ => raw.equality.is_some(),
        }
    }
}

/// Built-in types of whose values no two are equal and read differently: boolean, bytea, "char", name, integers, text, oid,
/// varchar, dates, times, timestamps, uuid. For texts that holds under a deterministic collation.
const EXACT: [u32; 16] = [16, 17, 18, 19, 20, 21, 23, 25, 26, 1043, 1082, 1083, 1114, 1184, 2950, BPCHAR];

/// OID of `character(n)`, whose values are filled up with blanks to `n`, and exact only then.
pub(crate) const BPCHAR: u32 = 1042;

fn logical(oid: u32, raw: &Raw) -> LogicalType {
    match oid {
        16 => LogicalType::Boolean,
        20 | 21 | 23 | 26 => LogicalType::Integer,
        1700 => LogicalType::Decimal,
        700 | 701 => LogicalType::Float,
        18 | 19 | 25 | 1042 | 1043 => LogicalType::Text,
        17 => LogicalType::Binary,
        1082 => LogicalType::Date,
        1083 | 1266 => LogicalType::Time,
        1114 => LogicalType::Timestamp,
        1184 => LogicalType::TimestampWithZone,
        1186 => LogicalType::Interval,
        2950 => LogicalType::Uuid,
        114 | 3802 => LogicalType::Json,
        1560 | 1562 => LogicalType::Bits,
        _ if raw.class == "e" => LogicalType::Enumeration,
        _ if raw.name == "citext" => LogicalType::Text,
        _ => LogicalType::Other,
    }
}

/// Length, precision and scale that a modifier of a built-in type stands for.
pub(crate) fn measures(base: u32, modifier: i32) -> (Option<u32>, Option<u16>, Option<i16>) {
    // Types of characters and numeric count a header of 4 bytes in (`VARHDRSZ`).
    let counted = u32::try_from(modifier.saturating_sub(4)).ok();
    match base {
        1042 | 1043 => (counted, None, None),
        1560 | 1562 => (u32::try_from(modifier).ok(), None, None),
        1700 => match counted {
            Some(packed) => {
                let precision = u16::try_from(packed >> 16 & 0xFFFF).ok();
                // The scale is a signed number of 11 bits.
                let scale = i16::try_from(packed & 0x7FF).map(|scale| (scale ^ 1024) - 1024).ok();
                (None, precision, scale)
            }
            None => (None, None, None),
        },
        1083 | 1114 | 1184 | 1266 => (None, u16::try_from(modifier).ok(), None),
        _ => (None, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_read_as_declared() {
        // From `SELECT atttypmod` for varchar(3), numeric(10,2), numeric(5,-3), bit(9), timestamp(3).
        assert_eq!(measures(1043, 7), (Some(3), None, None));
        assert_eq!(measures(1700, 655_366), (None, Some(10), Some(2)));
        assert_eq!(measures(1700, (5 << 16 | (-3 & 0x7FF)) + 4), (None, Some(5), Some(-3)));
        assert_eq!(measures(1560, 9), (Some(9), None, None));
        assert_eq!(measures(1114, 3), (None, Some(3), None));
        assert_eq!(measures(1700, -1), (None, None, None));
    }
}
