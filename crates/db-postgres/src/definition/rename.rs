//! A statement in the form in which a target runs it: under the names that its tables have there.

use super::text::{Name, Statement, split};
use crate::name;
use change::{DefinitionStatement, TableName};

/// What a target runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) text: String,
    /// Whether the server runs it only by itself.
    pub(crate) is_alone: bool,
}

/// Words behind which a statement names other tables, which can't be replaced.
const OTHERS: [&str; 9] = ["REFERENCES", "INHERITS", "INHERIT", "LIKE", "PARTITION", "FROM", "JOIN", "OF", "EXECUTE"];

/// The form of a statement whose object, or the object's table, is called `target` at the target; `None` when it is called as at
/// the source.
///
/// # Errors
/// Why it can't have that form.
pub(crate) fn form(statement: &DefinitionStatement, target: Option<&TableName>) -> Result<Form, String> {
    let list = split(&statement.text);
    let [one] = list.as_slice() else {
        return Err("it is not one statement".to_owned());
    };
    let tag = format!("{} {}", statement.verb, statement.object_type);
    let is_index = statement.object_type == "INDEX" && (statement.verb == "CREATE" || statement.verb == "DROP");
    let is_alone = is_index && one.has("CONCURRENTLY");
    // What else waits for nobody has the same effect in a transaction.
    let text = |text: String| match split(&text).as_slice() {
        [one] if !is_alone && one.has("CONCURRENTLY") => one.without("CONCURRENTLY"),
        _ => text,
    };
    let Some(target) = target else {
        return Ok(Form { text: text(one.text().to_owned()), is_alone });
    };
    let renamed = rename(one, &tag, statement, target)?;
    Ok(Form { text: text(renamed), is_alone })
}

fn rename(
    one: &Statement<'_>,
    tag: &str,
    statement: &DefinitionStatement,
    target: &TableName,
) -> Result<String, String> {
    let source = statement.base.clone().unwrap_or_else(|| TableName::new(&*statement.owner, &*statement.object));
    let refuse = |why: &str| Err(format!("MAP gives {source} the name {target} at the target, and {why}"));
    let name: Option<Name> = match (statement.object_type.as_str(), &statement.base) {
        ("INDEX", None) => return refuse("an index has the schema of its table"),
        ("TABLE", None) => one.own_name(tag),
        ("INDEX", Some(_)) if statement.verb == "CREATE" => one.table_behind_on(),
        ("TRIGGER" | "RULE" | "POLICY", Some(_)) if statement.verb != "COMMENT" => one.table_behind_on(),
        _ => None,
    };
    let Some(name) = name else {
        return refuse("the statement does not name it in a place where it can be replaced");
    };
    if OTHERS.iter().any(|word| one.mentions(word)) && !matches!(statement.object_type.as_str(), "TRIGGER" | "RULE") {
        return refuse("the statement names other tables, too");
    }
    if one.renamed_to().is_some() {
        return refuse("the statement gives it a new one");
    }
    // SET SCHEMA, too, gives it another name.
    if one.has("SET") && one.mentions("SCHEMA") {
        return refuse("the statement moves it to another schema");
    }
    Ok(one.replaced(&name.place, &name::table(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(verb: &str, object_type: &str, base: Option<&str>, text: &str) -> DefinitionStatement {
        DefinitionStatement {
            owner: "s".to_owned(),
            object: "t".to_owned(),
            object_type: object_type.to_owned(),
            verb: verb.to_owned(),
            text: text.to_owned(),
            base: base.map(|base| TableName::new("s", base)),
            ..DefinitionStatement::default()
        }
    }

    #[test]
    fn names_are_replaced_where_that_is_sound() {
        let target = TableName::new("copy", "T2");
        let renamed = |statement: DefinitionStatement| form(&statement, Some(&target)).map(|form| form.text);
        let table = |verb, text| renamed(statement(verb, "TABLE", None, text));
        assert_eq!(
            table("ALTER", "ALTER TABLE ONLY t ADD a int"),
            Ok("ALTER TABLE ONLY \"copy\".\"T2\" ADD a int".to_owned())
        );
        assert_eq!(
            table("CREATE", "CREATE TABLE IF NOT EXISTS s.t (a int)"),
            Ok("CREATE TABLE IF NOT EXISTS \"copy\".\"T2\" (a int)".to_owned())
        );
        assert_eq!(table("DROP", "DROP TABLE s.t CASCADE"), Ok("DROP TABLE \"copy\".\"T2\" CASCADE".to_owned()));
        let index = statement("CREATE", "INDEX", Some("t"), "CREATE INDEX i ON s.t USING btree (a)");
        assert_eq!(renamed(index), Ok("CREATE INDEX i ON \"copy\".\"T2\" USING btree (a)".to_owned()));
        for text in [
            "ALTER TABLE t RENAME TO u",
            "ALTER TABLE t SET SCHEMA x",
            "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u",
            "ALTER TABLE t ATTACH PARTITION u DEFAULT",
        ] {
            let refused = table("ALTER", text).expect_err(text);
            assert!(refused.contains("s.t") && refused.contains("copy.T2"), "{refused}");
        }
        assert!(renamed(statement("CREATE", "VIEW", None, "CREATE VIEW t AS SELECT 1")).is_err());
    }

    #[test]
    fn only_indexes_are_made_outside_of_a_transaction() {
        let of = |verb, kind, text| form(&statement(verb, kind, None, text), None);
        let index = of("CREATE", "INDEX", "CREATE INDEX CONCURRENTLY i ON s.t (a)").expect("a form");
        assert!(index.is_alone && index.text.contains("CONCURRENTLY"));
        let detach = of("ALTER", "TABLE", "ALTER TABLE p DETACH PARTITION q CONCURRENTLY").expect("a form");
        assert_eq!(detach, Form { text: "ALTER TABLE p DETACH PARTITION q ".to_owned(), is_alone: false });
        assert!(of("ALTER", "TABLE", "ALTER TABLE t ADD a int; DROP TABLE u").is_err());
    }
}
