//! Names in SQL text.

/// The name as an identifier, whatever characters it holds.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The text as a string literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether SQLite takes the two for one name. Like SQLite, folds ASCII letters only.
pub(crate) fn same(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
}

/// The form under which a name is looked up.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_become_one_identifier() {
        assert_eq!(quoted("x\"; DROP TABLE y; --"), "\"x\"\"; DROP TABLE y; --\"");
    }

    #[test]
    fn only_ascii_letters_fold() {
        assert!(same("Item", "iTEM"));
        assert!(!same("ключ", "КЛЮЧ"));
    }
}
