//! What our event triggers say in the log.
//!
//! A message is a run of fields, each its length in bytes as decimal digits, a colon, and the bytes. In order: the form's number,
//! the publication that the triggers belong to, the mark of their messages, the command tag, the user, the search path, how many statements of the tag came
//! before in the same text, where the text is from (`sent`, `run` by a function, or `unknown`), the text or why it is not known, a
//! text from the catalog, and the reason why the effect on rows is not told. Then the number of objects and for each its type,
//! schema, name, identity, and schema and name of its table; then the number of columns that were filled, each with its value.

use super::choose::{Ran, choose};
use super::text::split;
use change::{DefinitionStatement, FilledColumn, TableName};

/// Prefix of the messages.
pub(crate) const PREFIX: &str = "drover.ddl";

/// Number of the form.
const FORM: &str = "1";

struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (length, rest) = self.0.split_once(':')?;
        let length: usize = length.parse().ok()?;
        let field = rest.get(..length)?;
        self.0 = &rest[length..];
        Some(field)
    }

    fn count(&mut self) -> Option<usize> {
        self.next()?.parse().ok()
    }
}

/// An object that a statement is about.
struct Object<'a> {
    kind: &'a str,
    schema: &'a str,
    name: &'a str,
    identity: &'a str,
    base: Option<TableName>,
}

/// The statements that a message for `publication` with the mark `token` tells; none when it is for another one. `None` when it is
/// no message of ours.
pub(crate) fn read<'a>(content: &'a [u8], publication: &str, token: &str) -> Option<Vec<DefinitionStatement>> {
    let mut fields = Fields(std::str::from_utf8(content).ok()?);
    if fields.next()? != FORM {
        return None;
    }
    if fields.next()? != publication {
        return Some(Vec::new());
    }
    if fields.next()? != token || token.is_empty() {
        return None;
    }
    let (tag, user, search_path) = (fields.next()?, fields.next()?, fields.next()?);
    let ordinal = fields.count()?;
    let (from, text, canonical, hidden) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let mut objects = Vec::new();
    for _ in 0..fields.count()? {
        let (kind, schema, name, identity) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (base_schema, base_name) = (fields.next()?, fields.next()?);
        let base = (!base_name.is_empty()).then(|| TableName::new(base_schema, base_name));
        objects.push(Object { kind, schema, name, identity, base });
    }
    let mut filled = Vec::new();
    for _ in 0..fields.count()? {
        let (column, value) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        filled.push(FilledColumn { column, value });
    }
    let (verb, tag_object) = tag.split_once(' ').unwrap_or((tag, ""));
    let verb = if tag == "SELECT INTO" { "CREATE" } else { verb };
    let of = |object: &Object<'_>| DefinitionStatement {
        owner: object.schema.to_owned(),
        object: object.name.to_owned(),
        object_type: object.kind.to_ascii_uppercase(),
        verb: verb.to_owned(),
        user: user.to_owned(),
        search_path: search_path.to_owned(),
        base: object.base.clone(),
        untold: hidden.to_owned(),
        ..DefinitionStatement::default()
    };
    let ran = |main: &Object<'a>| Ran { text, tag, object: main.name, ordinal, repeats: from == "run" };
    if verb == "DROP" {
        // What the statement says besides names is whether it waits for nobody, and what becomes of what depends on them.
        let statement = if from == "unknown" { None } else { choose(&ran(objects.first()?)).ok() };
        let concurrently = statement.as_ref().is_some_and(|statement| statement.has("CONCURRENTLY"));
        let cascade = statement.as_ref().is_none_or(|statement| statement.has("CASCADE"));
        let made = objects.iter().map(|object| DefinitionStatement {
            text: format!(
                "DROP {} {}{}{}",
                object.kind.to_ascii_uppercase(),
                if concurrently { "CONCURRENTLY " } else { "" },
                object.identity,
                if cascade { " CASCADE" } else { "" }
            ),
            // The identity is qualified.
            search_path: String::new(),
            ..of(object)
        });
        return Some(made.collect());
    }
    let nothing = Object { kind: "", schema: "", name: "", identity: "", base: None };
    let main = objects.first().unwrap_or(&nothing);
    let mut statement = of(main);
    if statement.object_type.is_empty() {
        statement.object_type = tag_object.to_owned();
    }
    let chosen = match from {
        "unknown" => Err(text.to_owned()),
        _ => choose(&ran(main)),
    };
    if !canonical.is_empty() {
        let is_concurrent = chosen.as_ref().is_ok_and(|chosen| chosen.has("CONCURRENTLY"));
        statement.text = if is_concurrent { concurrent(canonical) } else { canonical.to_owned() };
        statement.search_path.clear();
        return Some(vec![statement]);
    }
    match chosen {
        Ok(chosen) => {
            let added = chosen.added_columns();
            statement.filled = filled.into_iter().filter(|filled| added.contains(&filled.column)).collect();
            statement.text = chosen.text().to_owned();
        }
        Err(reason) => statement.untold = reason,
    }
    Some(vec![statement])
}

/// A statement that makes an index, so that it keeps nobody waiting.
fn concurrent(text: &str) -> String {
    let is_index = split(text).first().is_some_and(|statement| statement.has_tag("CREATE INDEX"));
    match text.split_once(" INDEX ") {
        Some((create, rest)) if is_index => format!("{create} INDEX CONCURRENTLY {rest}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(fields: &[&str]) -> Vec<u8> {
        fields.iter().map(|field| format!("{}:{field}", field.len())).collect::<String>().into_bytes()
    }

    fn told(tag: &str, from: &str, text: &str, canonical: &str, objects: &[[&str; 6]]) -> Vec<DefinitionStatement> {
        let count = objects.len().to_string();
        let mut fields =
            vec!["1", "drover_e1", "mark", tag, "u", "public, \"S\"", "0", from, text, canonical, "", &count];
        fields.extend(objects.iter().flatten());
        fields.extend(["2", "d", "7", "other", "x"]);
        read(&message(&fields), "drover_e1", "mark").expect("a message")
    }

    #[test]
    fn a_statement_comes_with_its_own_text_and_what_it_filled() {
        let text = "SELECT 1; ALTER TABLE t ADD d int DEFAULT 7; COMMIT";
        let told = told("ALTER TABLE", "sent", text, "", &[["table", "public", "t", "public.t", "", ""]]);
        assert_eq!(
            told,
            [DefinitionStatement {
                owner: "public".to_owned(),
                object: "t".to_owned(),
                object_type: "TABLE".to_owned(),
                verb: "ALTER".to_owned(),
                user: "u".to_owned(),
                text: "ALTER TABLE t ADD d int DEFAULT 7".to_owned(),
                search_path: "public, \"S\"".to_owned(),
                filled: vec![FilledColumn { column: "d".to_owned(), value: "7".to_owned() }],
                ..DefinitionStatement::default()
            }]
        );
    }

    #[test]
    fn each_object_of_a_drop_is_a_statement_of_its_own() {
        let objects = [["table", "s", "a", "s.a", "", ""], ["table", "s", "B", "s.\"B\"", "", ""]];
        let texts = |text: &str, from: &str| {
            let told = told("DROP TABLE", from, text, "", &objects);
            told.into_iter().map(|statement| statement.text).collect::<Vec<_>>()
        };
        assert_eq!(texts("DROP TABLE a, \"B\"", "sent"), ["DROP TABLE s.a", "DROP TABLE s.\"B\""]);
        assert_eq!(texts("DROP TABLE a, \"B\" CASCADE", "run")[1], "DROP TABLE s.\"B\" CASCADE");
        assert_eq!(texts("no text", "unknown")[0], "DROP TABLE s.a CASCADE");
    }

    #[test]
    fn what_the_catalog_knows_better_is_taken_from_there() {
        let index = [["index", "s", "i", "s.i", "s", "t"]];
        let catalog = "CREATE UNIQUE INDEX i ON s.t USING btree (a)";
        let plain = told("CREATE INDEX", "sent", "create unique index on t (a)", catalog, &index);
        assert_eq!((plain[0].text.as_str(), plain[0].search_path.as_str()), (catalog, ""));
        assert_eq!(plain[0].base, Some(TableName::new("s", "t")));
        let concurrent = told("CREATE INDEX", "sent", "create unique index concurrently on t (a)", catalog, &index);
        assert_eq!(concurrent[0].text, "CREATE UNIQUE INDEX CONCURRENTLY i ON s.t USING btree (a)");
        let table = told("SELECT INTO", "unknown", "it is not known", "CREATE TABLE s.t (a integer)", &index);
        assert_eq!((table[0].verb.as_str(), table[0].untold.as_str()), ("CREATE", ""));
    }

    #[test]
    fn a_text_that_is_not_known_is_said_to_be_so() {
        let told = told("ALTER TABLE", "unknown", "a function of another language has run it", "", &[]);
        assert_eq!((told[0].text.as_str(), told[0].untold.as_str()), ("", "a function of another language has run it"));
        assert_eq!(told[0].title(), "ALTER TABLE an object without name");
    }

    #[test]
    fn messages_of_others_are_none_of_ours() {
        assert_eq!(read(&message(&["1", "drover_e2"]), "drover_e1", "mark"), Some(Vec::new()));
        assert_eq!(read(&message(&["2", "drover_e1"]), "drover_e1", "mark"), None);
        let forged = [
            "1",
            "drover_e1",
            "",
            "DROP TABLE",
            "u",
            "",
            "0",
            "sent",
            "",
            "",
            "",
            "1",
            "table",
            "s",
            "t",
            "s.t",
            "",
            "",
            "0",
        ];
        assert_eq!(read(&message(&forged), "drover_e1", "mark"), None);
        assert_eq!(read(&message(&forged), "drover_e1", ""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[0-9:a-z]{0,60}") {
            read(&bytes, "x", "y");
            read(text.as_bytes(), "x", "y");
            read(&message(&["1", "x", "y", "DROP TABLE", "u", "", &text, "sent", &text, "", "", &text]), "x", "y");
        }
    }
}
