//! What a checkpoint table must look like, and what is wrong with one that does not.
//!
//! Names and meaning are those of the specification (seed 001): names and attributes of columns must not be changed, storage
//! attributes may. Each product has its own words for the types.

use change::{TableName, Timestamp};

/// A column of a checkpoint table, in a product's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutColumn {
    /// Its name.
    pub name: String,
    /// Its type with length, as the product shows it.
    pub kind: String,
    /// Whether it refuses NULL.
    pub required: bool,
}

impl LayoutColumn {
    /// A column from plain words.
    pub fn new(name: &str, kind: &str, required: bool) -> LayoutColumn {
        LayoutColumn { name: name.to_owned(), kind: kind.to_owned(), required }
    }
}

/// The columns of a table and those of its primary key, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// All columns.
    pub columns: Vec<LayoutColumn>,
    /// Names of the key's columns.
    pub key: Vec<String>,
}

impl Layout {
    /// What is wrong with `found`, where this is what `table` must look like: a sentence for each fault, with the name of the
    /// column. The order of columns does not matter, and more columns do no harm as long as they may be NULL.
    pub fn faults(&self, table: &str, found: &Layout) -> Vec<String> {
        let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let known = |name: &str| self.columns.iter().any(|wanted| same(&wanted.name, name));
        let mut faults = Vec::new();
        let mut unknown = found.columns.iter().filter(|column| !known(&column.name));
        for wanted in &self.columns {
            let Some(column) = found.columns.iter().find(|column| same(&column.name, &wanted.name)) else {
                let instead = unknown.next().map(|column| format!("; {} is none of its columns", column.name));
                faults.push(format!("{table} has no column {}{}", wanted.name, instead.unwrap_or_default()));
                continue;
            };
            if !same(&column.kind, &wanted.kind) {
                faults.push(format!("column {} of {table} is {}, not {}", column.name, column.kind, wanted.kind));
            }
            if column.required != wanted.required {
                let how = if wanted.required { "takes NULL" } else { "takes no NULL" };
                faults.push(format!("column {} of {table} {how}", column.name));
            }
        }
        for column in unknown.filter(|column| column.required) {
            faults.push(format!("column {} of {table} is not known and takes no NULL", column.name));
        }
        let alike =
            self.key.len() == found.key.len() && self.key.iter().zip(&found.key).all(|(one, other)| same(one, other));
        if !alike {
            let is = if found.key.is_empty() { "none".to_owned() } else { found.key.join(", ") };
            faults.push(format!("the primary key of {table} is {is}, not {}", self.key.join(", ")));
        }
        faults
    }
}

/// What is known of a checkpoint table as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointTableState {
    /// When it was created, where it says so.
    pub created: Option<Timestamp>,
    /// What was changed about it, so that no group can use it: a sentence each.
    pub faults: Vec<String>,
    /// Tables that ought to stand beside it and do not: it was created by an earlier version.
    pub missing: Vec<TableName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Layout {
        let columns = [("A", "bigint", true), ("B", "varchar(8)", false)];
        Layout {
            columns: columns.map(|(name, kind, required)| LayoutColumn::new(name, kind, required)).to_vec(),
            key: vec!["A".to_owned()],
        }
    }

    fn faults(change: impl FnOnce(&mut Layout)) -> Vec<String> {
        let mut found = wanted();
        change(&mut found);
        wanted().faults("t", &found)
    }

    #[test]
    fn what_was_changed_is_told_by_name() {
        assert!(faults(|_| {}).is_empty());
        assert!(faults(|found| found.columns.reverse()).is_empty(), "the order does not matter");
        assert!(faults(|found| found.columns.push(LayoutColumn::new("note", "text", false))).is_empty());
        let told = faults(|found| found.columns[1].name = "bee".to_owned());
        assert_eq!(told, ["t has no column B; bee is none of its columns"]);
        let told = faults(|found| found.columns[1].kind = "varchar(9)".to_owned());
        assert_eq!(told, ["column B of t is varchar(9), not varchar(8)"]);
        assert_eq!(faults(|found| found.columns[0].required = false), ["column A of t takes NULL"]);
        assert_eq!(faults(|found| found.key.clear()), ["the primary key of t is none, not A"]);
        let told = faults(|found| found.columns.push(LayoutColumn::new("more", "int", true)));
        assert_eq!(told, ["column more of t is not known and takes no NULL"]);
    }
}
