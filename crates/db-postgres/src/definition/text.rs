//! Statements in a text: where each stands, what kind it is, and what it names.

use super::lex::{Kind, Token, tokens};
use std::ops::Range;

/// One statement of a text.
#[derive(Clone, Debug)]
pub(super) struct Statement<'t> {
    text: &'t str,
    tokens: Vec<Token>,
}

/// A name with its parts, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) parts: Vec<String>,
    pub(super) place: Range<usize>,
}

/// Words that may stand between the first word of a statement and the kind of object.
const MODIFIERS: [&str; 17] = [
    "OR",
    "REPLACE",
    "TEMP",
    "TEMPORARY",
    "LOCAL",
    "GLOBAL",
    "UNLOGGED",
    "UNIQUE",
    "RECURSIVE",
    "TRUSTED",
    "PROCEDURAL",
    "CONSTRAINT",
    "DEFAULT",
    "CONCURRENTLY",
    "IF",
    "NOT",
    "EXISTS",
];

/// The statements of `text`, none of them empty.
pub(super) fn split(text: &str) -> Vec<Statement<'_>> {
    let mut statements = Vec::new();
    let mut current: Vec<Token> = Vec::new();
    // A function's body may be a block of statements, and a rule's a list of them in parentheses.
    let (mut parentheses, mut blocks) = (0_u32, 0_u32);
    for token in tokens(text) {
        match token.kind {
            Kind::Mark('(') => parentheses += 1,
            Kind::Mark(')') => parentheses = parentheses.saturating_sub(1),
            Kind::Mark(';') if parentheses == 0 && blocks == 0 => {
                if !current.is_empty() {
                    statements.push(Statement { text, tokens: std::mem::take(&mut current) });
                }
                continue;
            }
            Kind::Word if current.first().is_some_and(|first| first.is(text, "CREATE")) => {
                let opens = token.is(text, "BEGIN") || (blocks > 0 && token.is(text, "CASE"));
                if opens {
                    blocks += 1;
                } else if token.is(text, "END") {
                    blocks = blocks.saturating_sub(1);
                }
            }
            _ => {}
        }
        current.push(token);
    }
    if !current.is_empty() {
        statements.push(Statement { text, tokens: current });
    }
    statements
}

impl<'t> Statement<'t> {
    /// The statement's own text.
    pub(super) fn text(&self) -> &'t str {
        let start = self.tokens.first().map_or(0, |token| token.place.start);
        let end = self.tokens.last().map_or(start, |token| token.place.end);
        &self.text[start..end]
    }

    /// Where its text starts.
    fn start(&self) -> usize {
        self.tokens.first().map_or(0, |token| token.place.start)
    }

    fn is(&self, at: usize, keyword: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(self.text, keyword))
    }

    /// Whether the word stands in it outside of parentheses.
    pub(super) fn has(&self, keyword: &str) -> bool {
        self.outside().any(|at| self.is(at, keyword))
    }

    /// Whether the word stands anywhere in it.
    pub(super) fn mentions(&self, keyword: &str) -> bool {
        (0..self.tokens.len()).any(|at| self.is(at, keyword))
    }

    /// Places of tokens outside of parentheses.
    fn outside(&self) -> impl Iterator<Item = usize> {
        let mut depth = 0_u32;
        self.tokens.iter().enumerate().filter_map(move |(at, token)| {
            match token.kind {
                Kind::Mark('(') => depth += 1,
                Kind::Mark(')') => depth = depth.saturating_sub(1),
                _ => return (depth == 0).then_some(at),
            }
            None
        })
    }

    /// The first words, in upper case.
    pub(super) fn first_word(&self) -> String {
        self.tokens.first().map_or(String::new(), |token| self.text[token.place.clone()].to_ascii_uppercase())
    }

    /// The place behind the words of a command tag, if it is a statement of that tag.
    fn behind_tag(&self, tag: &str) -> Option<usize> {
        let query = |at: usize| {
            ["SELECT", "WITH", "VALUES", "TABLE", "EXECUTE"].iter().any(|word| self.is(at, word))
                || self.tokens.get(at).is_some_and(|token| token.is_mark('('))
        };
        let makes_of_query = self.outside().any(|at| self.is(at, "AS") && query(at + 1));
        let words: Vec<&str> = match tag {
            "SELECT INTO" => {
                let starts = ["SELECT", "WITH"].iter().any(|word| self.is(0, word))
                    || self.tokens.first().is_some_and(|token| token.is_mark('('));
                return (starts && self.mentions("INTO")).then_some(1);
            }
            "CREATE TABLE AS" if makes_of_query => vec!["CREATE", "TABLE"],
            "CREATE TABLE AS" => return None,
            "CREATE TABLE" if makes_of_query => return None,
            _ => tag.split(' ').collect(),
        };
        let (first, rest) = words.split_first()?;
        if !self.is(0, first) {
            return None;
        }
        let Some(object) = rest.first() else { return Some(1) };
        let mut at = 1;
        while !self.is(at, object) && MODIFIERS.iter().any(|word| self.is(at, word)) {
            at += 1;
        }
        rest.iter().enumerate().all(|(place, word)| self.is(at + place, word)).then_some(at + rest.len())
    }

    /// Whether it is a statement of this command tag.
    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.behind_tag(tag).is_some()
    }

    /// The name that starts at token `at`.
    fn name_at(&self, mut at: usize) -> Option<Name> {
        let start = self.tokens.get(at)?.place.start;
        let mut parts = Vec::new();
        loop {
            let token = self.tokens.get(at)?;
            parts.push(token.name(self.text)?);
            let end = token.place.end;
            match self.tokens.get(at + 1) {
                Some(dot) if dot.is_mark('.') => at += 2,
                _ => return Some(Name { parts, place: start..end }),
            }
        }
    }

    /// The name that stands right behind the words of its tag.
    pub(super) fn own_name(&self, tag: &str) -> Option<Name> {
        let mut at = self.behind_tag(tag)?;
        while ["CONCURRENTLY", "IF", "NOT", "EXISTS", "ONLY"].iter().any(|word| self.is(at, word)) {
            at += 1;
        }
        if tag == "COMMENT" {
            // COMMENT ON TABLE name: one word or several for the kind.
            at += 2;
        }
        self.name_at(at)
    }

    /// The name of the table behind the first ON.
    pub(super) fn table_behind_on(&self) -> Option<Name> {
        let on = self.outside().find(|at| self.is(*at, "ON"))?;
        let at = if self.is(on + 1, "ONLY") { on + 2 } else { on + 1 };
        self.name_at(at)
    }

    /// The new name of RENAME TO.
    pub(super) fn renamed_to(&self) -> Option<Name> {
        let rename = (0..self.tokens.len()).find(|at| self.is(*at, "RENAME") && self.is(at + 1, "TO"))?;
        self.name_at(rename + 2)
    }

    /// The columns that ALTER TABLE adds.
    pub(super) fn added_columns(&self) -> Vec<String> {
        let mut columns = Vec::new();
        for at in self.outside().filter(|at| self.is(*at, "ADD")) {
            let mut at = at + 1;
            if ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE"].iter().any(|word| self.is(at, word)) {
                continue;
            }
            while ["COLUMN", "IF", "NOT", "EXISTS"].iter().any(|word| self.is(at, word)) {
                at += 1;
            }
            columns.extend(self.tokens.get(at).and_then(|token| token.name(self.text)));
        }
        columns
    }

    /// The name of a savepoint that it sets or goes back to; the second says that it goes back.
    pub(super) fn savepoint(&self) -> Option<(String, bool)> {
        let name = |at: usize| self.tokens.get(at).and_then(|token| token.name(self.text));
        if self.is(0, "SAVEPOINT") {
            return Some((name(1)?, false));
        }
        if !self.is(0, "ROLLBACK") {
            return None;
        }
        let to = (1..3).find(|at| self.is(*at, "TO"))?;
        let at = if self.is(to + 1, "SAVEPOINT") && self.tokens.len() > to + 2 { to + 2 } else { to + 1 };
        Some((name(at)?, true))
    }

    /// The statement's text with `place` of the whole text replaced.
    pub(super) fn replaced(&self, place: &Range<usize>, by: &str) -> String {
        let (text, start) = (self.text(), self.start());
        format!("{}{by}{}", &text[..place.start - start], &text[place.end - start..])
    }

    /// The statement's text without the words CONCURRENTLY.
    pub(super) fn without(&self, keyword: &str) -> String {
        match self.tokens.iter().find(|token| token.is(self.text, keyword)) {
            Some(token) => self.replaced(&token.place, ""),
            None => self.text().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text).iter().map(Statement::text).collect()
    }

    fn only(text: &str) -> Statement<'_> {
        split(text).into_iter().next().expect("a statement")
    }

    #[test]
    fn statements_end_where_they_end() {
        assert_eq!(texts(" a ; /* ; */ ; b 'x;y' ;-- c;\n"), ["a", "b 'x;y'"]);
        let function =
            "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END";
        assert_eq!(texts(&format!("{function}; x")), [function, "x"]);
        let rule = "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)";
        assert_eq!(texts(&format!("{rule}; BEGIN; COMMIT")), [rule, "BEGIN", "COMMIT"]);
    }

    #[test]
    fn the_tag_of_a_statement_is_known() {
        for (text, tag) in [
            ("create table t (a int generated always as (b) stored)", "CREATE TABLE"),
            ("create unlogged table if not exists t as select 1", "CREATE TABLE AS"),
            ("CREATE TABLE t (a) AS (SELECT 1)", "CREATE TABLE AS"),
            ("select 1 as a into t from u", "SELECT INTO"),
            ("with x as (select 1) select * into t from x", "SELECT INTO"),
            ("CREATE UNIQUE INDEX CONCURRENTLY ON t (a)", "CREATE INDEX"),
            ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE VIEW"),
            ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE MATERIALIZED VIEW"),
            ("CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t", "CREATE TRIGGER"),
            ("alter table only t add a int", "ALTER TABLE"),
            ("COMMENT ON TABLE t IS 'x'", "COMMENT"),
            ("DROP INDEX CONCURRENTLY i", "DROP INDEX"),
        ] {
            assert!(only(text).has_tag(tag), "{text}");
            for other in
                ["CREATE TABLE", "CREATE TABLE AS", "CREATE INDEX", "CREATE VIEW", "ALTER TABLE", "SELECT INTO"]
            {
                assert!(other == tag || !only(text).has_tag(other), "{text} is no {other}");
            }
        }
    }

    #[test]
    fn names_are_found_where_they_stand() {
        let parts = |name: Option<Name>| name.map(|name| name.parts.join("/")).unwrap_or_default();
        let own = |text: &str, tag: &str| parts(only(text).own_name(tag));
        assert_eq!(own("ALTER TABLE IF EXISTS ONLY \"S.1\".T ADD x int", "ALTER TABLE"), "S.1/t");
        assert_eq!(own("create table if not exists a . b (c int)", "CREATE TABLE"), "a/b");
        assert_eq!(own("COMMENT ON TABLE s.t IS 'x'", "COMMENT"), "s/t");
        assert_eq!(own("CREATE INDEX i ON t (a)", "CREATE INDEX"), "i");
        let on = |text: &str| parts(only(text).table_behind_on());
        assert_eq!(on("CREATE INDEX ON ONLY s.t (a)"), "s/t");
        assert_eq!(on("CREATE TRIGGER x BEFORE UPDATE OF a ON s.t EXECUTE FUNCTION f()"), "s/t");
        assert_eq!(parts(only("ALTER TABLE t RENAME TO \"U\"").renamed_to()), "U");
        assert_eq!(parts(only("ALTER TABLE t RENAME a TO b").renamed_to()), "");
        let added = only(
            "ALTER TABLE t ADD a int DEFAULT f(1, 2), ADD COLUMN IF NOT EXISTS \"B\" text, ADD CONSTRAINT c CHECK (a > 1), ADD UNIQUE (a)",
        );
        assert_eq!(added.added_columns(), ["a", "B"]);
    }

    #[test]
    fn names_are_replaced_and_words_taken_out() {
        let list = split("SELECT 1; ALTER TABLE t ADD a int");
        let name = list[1].own_name("ALTER TABLE").expect("a name");
        assert_eq!(list[1].replaced(&name.place, "\"x\".\"y\""), "ALTER TABLE \"x\".\"y\" ADD a int");
        assert_eq!(
            only("ALTER TABLE p DETACH PARTITION q CONCURRENTLY").without("CONCURRENTLY"),
            "ALTER TABLE p DETACH PARTITION q "
        );
    }
}
