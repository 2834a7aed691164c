//! Lines that tell the operator what is captured.

use change::TableDefinition;

/// One line about a captured table: by what its rows are known.
pub(crate) fn table(definition: &TableDefinition, key_columns: Option<&[String]>) -> String {
    let name = &definition.name;
    if let Some(columns) = key_columns {
        return format!("table {name}: key {} (by KEYCOLS)", columns.join(", "));
    }
    let key: Vec<&str> = definition.key().into_iter().map(|index| definition.columns[index].name.as_str()).collect();
    if key.is_empty() {
        format!("table {name}: no key, whole rows are written")
    } else {
        format!("table {name}: key {}", key.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, LogicalType, TableName};

    #[test]
    fn each_table_is_told_with_the_key_that_is_used() {
        let column = |name: &str| Column::new(name, LogicalType::Text, "TEXT");
        let columns = vec![column("a").with_key(1), column("b").with_key(0), column("c")];
        let keyed = TableDefinition { name: TableName::new("main", "t"), columns: columns.into() };
        let keyless = TableDefinition { name: TableName::new("main", "u"), columns: [column("a")].into() };
        assert_eq!(table(&keyed, None), "table main.t: key b, a");
        assert_eq!(table(&keyed, Some(&["c".to_owned()])), "table main.t: key c (by KEYCOLS)");
        assert_eq!(table(&keyless, None), "table main.u: no key, whole rows are written");
    }
}
