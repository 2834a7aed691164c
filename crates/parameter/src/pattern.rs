//! Names of tables as operators write them: one or two parts, wildcards, quotes.
//!
//! `*` stands for any run of characters, the empty run included. Everything else stands for itself, `?`, `_` and `%`
//! too. What stands in double quotes is literal, so a part may mix both: `"Order"*`.

use change::{CaseRule, TableName};

/// A stretch of a name part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Characters that stand for themselves.
    Text {
        /// The characters, quotes removed.
        text: String,
        /// Whether they stood in double quotes and so keep their case.
        quoted: bool,
    },
    /// `*`.
    Wildcard,
}

/// One part of a name, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) pieces: Vec<Piece>,
}

impl Part {
    pub(crate) fn has_wildcard(&self) -> bool {
        self.wildcards() > 0
    }

    pub(crate) fn wildcards(&self) -> usize {
        self.pieces.iter().filter(|piece| **piece == Piece::Wildcard).count()
    }

    /// The texts before, between and after the wildcards, as the case rule reads them.
    fn segments(&self, case: CaseRule) -> Vec<String> {
        let mut segments = vec![String::new()];
        for piece in &self.pieces {
            match piece {
                Piece::Wildcard => segments.push(String::new()),
                Piece::Text { text, quoted } => {
                    let text = written(text, *quoted, case);
                    if let Some(last) = segments.last_mut() {
                        last.push_str(&text);
                    }
                }
            }
        }
        segments
    }

    /// The name that this part stands for when each wildcard is replaced by the text in the same place of `taken`.
    pub(crate) fn fill(&self, case: CaseRule, taken: &[String]) -> String {
        let mut taken = taken.iter();
        let mut name = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted } => name.push_str(&written(text, *quoted, case)),
                Piece::Wildcard => name.push_str(taken.next().map_or("", String::as_str)),
            }
        }
        name
    }
}

/// A name as a database with this case rule takes it. Only ASCII letters are folded: so do PostgreSQL in UTF-8 and
/// SQLite, and elsewhere a name that is not found stops the start rather than catching another table.
pub(crate) fn written(text: &str, quoted: bool, case: CaseRule) -> String {
    if case == CaseRule::FoldToLower && !quoted { text.to_ascii_lowercase() } else { text.to_owned() }
}

/// A table name with wildcards, as written: `table` or `schema.table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePattern {
    pub(crate) schema: Option<Part>,
    pub(crate) table: Part,
}

impl NamePattern {
    pub(crate) fn has_wildcard(&self) -> bool {
        self.table.has_wildcard() || self.schema.as_ref().is_some_and(Part::has_wildcard)
    }

    /// The pattern as a database reads it; a bare name belongs to `default_schema`.
    pub(crate) fn matcher(&self, case: CaseRule, default_schema: &str) -> NameMatcher {
        let schema = match &self.schema {
            Some(part) => Matcher::new(part.segments(case), case),
            None => Matcher::new(vec![default_schema.to_owned()], case),
        };
        NameMatcher { schema, table: Matcher::new(self.table.segments(case), case) }
    }

    /// The pattern as a database reads it; a bare name belongs to any schema.
    pub(crate) fn matcher_in_any_schema(&self, case: CaseRule) -> NameMatcher {
        let segments = self.schema.as_ref().map_or_else(|| vec![String::new(); 2], |part| part.segments(case));
        NameMatcher { schema: Matcher::new(segments, case), table: Matcher::new(self.table.segments(case), case) }
    }

    /// The one table that a pattern without wildcards names.
    pub(crate) fn name(&self, case: CaseRule, default_schema: &str) -> Option<TableName> {
        (!self.has_wildcard()).then(|| self.fill(case, default_schema, &Taken::default()))
    }

    /// The table that this name, as a target, stands for.
    pub(crate) fn fill(&self, case: CaseRule, default_schema: &str, taken: &Taken) -> TableName {
        let schema = match &self.schema {
            Some(part) => part.fill(case, &taken.schema),
            None => default_schema.to_owned(),
        };
        TableName { schema, table: self.table.fill(case, &taken.table) }
    }
}

/// What the wildcards of a pattern stood for, part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) schema: Vec<String>,
    pub(crate) table: Vec<String>,
}

/// A [`NamePattern`] under a case rule.
#[derive(Clone, Debug)]
pub(crate) struct NameMatcher {
    schema: Matcher,
    table: Matcher,
}

impl NameMatcher {
    pub(crate) fn matches(&self, name: &TableName) -> bool {
        self.take(name).is_some()
    }

    /// Schema and table of a pattern without a wildcard, folded where letters of either case are alike.
    pub(crate) fn plain_name(&self) -> Option<(String, String)> {
        match (self.schema.segments.as_slice(), self.table.segments.as_slice()) {
            ([schema], [table]) => Some((schema.clone(), table.clone())),
            _ => None,
        }
    }

    /// Whether letters of either case are alike.
    pub(crate) fn is_folding(&self) -> bool {
        self.schema.fold || self.table.fold
    }

    /// Texts around the wildcards of schema and table; `None` where letters of either case are alike.
    pub(crate) fn texts(&self) -> Option<(Vec<String>, Vec<String>)> {
        (!self.schema.fold && !self.table.fold).then(|| (self.schema.segments.clone(), self.table.segments.clone()))
    }

    /// What the wildcards stand for in `name`, or `None` when it does not match.
    pub(crate) fn take(&self, name: &TableName) -> Option<Taken> {
        Some(Taken { schema: self.schema.take(&name.schema)?, table: self.table.take(&name.table)? })
    }
}

#[derive(Clone, Debug)]
struct Matcher {
    /// Texts before, between and after the wildcards; never empty. Folded when `fold` is set.
    segments: Vec<String>,
    fold: bool,
}

impl Matcher {
    fn new(segments: Vec<String>, case: CaseRule) -> Matcher {
        let fold = case == CaseRule::Insensitive;
        let segments =
            if fold { segments.iter().map(|segment| segment.to_ascii_lowercase()).collect() } else { segments };
        Matcher { segments, fold }
    }

    /// Texts that the wildcards stand for, each as short as it can be, from the left.
    fn take(&self, name: &str) -> Option<Vec<String>> {
        // Folding ASCII letters keeps every byte where it is, so places in the one are places in the other.
        let compared = if self.fold { name.to_ascii_lowercase() } else { name.to_owned() };
        let (first, rest) = self.segments.split_first()?;
        let Some((last, middle)) = rest.split_last() else {
            return (compared == *first).then(Vec::new);
        };
        let mut start = compared.starts_with(first.as_str()).then_some(first.len())?;
        let end = compared.ends_with(last.as_str()).then(|| compared.len() - last.len())?;
        if end < start {
            return None;
        }
        let mut taken = Vec::with_capacity(rest.len());
        for segment in middle {
            let found = start + compared[start..end].find(segment.as_str())?;
            taken.push(name[start..found].to_owned());
            start = found + segment.len();
        }
        taken.push(name[start..end].to_owned());
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition of a wildcard, tried out character by character.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|length| naive(rest, &name[length..])),
            Some((character, rest)) => {
                name.split_first().is_some_and(|(first, others)| first == character && naive(rest, others))
            }
        }
    }

    fn part(pattern: &str) -> Part {
        let pieces = pattern
            .chars()
            .map(|character| match character {
                '*' => Piece::Wildcard,
                other => Piece::Text { text: other.to_string(), quoted: false },
            })
            .collect();
        Part { pieces }
    }

    proptest! {
        #[test]
        fn a_wildcard_matches_what_its_definition_says(pattern in "[ab_%?*\u{e9}]{0,8}", name in "[ab_%?\u{e9}]{0,10}") {
            let matcher = Matcher::new(part(&pattern).segments(CaseRule::Sensitive), CaseRule::Sensitive);
            let expected = naive(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>());
            prop_assert_eq!(matcher.take(&name).is_some(), expected);
        }

        #[test]
        fn what_a_wildcard_took_gives_the_name_back(pattern in "[ab*]{0,6}", name in "[ab]{0,10}") {
            let part = part(&pattern);
            let matcher = Matcher::new(part.segments(CaseRule::Sensitive), CaseRule::Sensitive);
            if let Some(taken) = matcher.take(&name) {
                prop_assert_eq!(part.fill(CaseRule::Sensitive, &taken), name);
            }
        }

        #[test]
        fn without_case_a_match_does_not_depend_on_case(pattern in "[aAbB*]{0,6}", name in "[aAbB]{0,10}") {
            let matcher = Matcher::new(part(&pattern).segments(CaseRule::Insensitive), CaseRule::Insensitive);
            let lower = |text: &str| text.to_ascii_lowercase().chars().collect::<Vec<_>>();
            prop_assert_eq!(matcher.take(&name).is_some(), naive(&lower(&pattern), &lower(&name)));
        }
    }

    #[test]
    fn underscore_percent_and_question_mark_are_plain_characters() {
        let matcher = |pattern: &str| Matcher::new(part(pattern).segments(CaseRule::Sensitive), CaseRule::Sensitive);
        assert!(matcher("t_1").take("ta1").is_none());
        assert!(matcher("t%").take("tab").is_none());
        assert!(matcher("t?").take("ta").is_none());
        assert!(matcher("t_%?").take("t_%?").is_some());
    }
}
