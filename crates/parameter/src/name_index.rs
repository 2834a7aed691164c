//! Finding, among thousands of patterns, those that a table name matches.

use crate::pattern::NameMatcher;
use change::TableName;
use std::collections::HashMap;

/// The patterns of a parameter file by what they name. A file of 20,000 TABLE statements is asked for each of 20,000 tables:
/// those without a wildcard must be found without looking at the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    /// Places of patterns without a wildcard, by schema and table.
    named: HashMap<(String, String), Vec<usize>>,
    /// Places of the others.
    wild: Vec<usize>,
    /// Letters of either case are alike.
    fold: bool,
}

impl NameIndex {
    pub(crate) fn new<'a>(matchers: impl Iterator<Item = &'a NameMatcher>) -> NameIndex {
        let mut index = NameIndex::default();
        for (place, matcher) in matchers.enumerate() {
            index.fold |= matcher.is_folding();
            match matcher.plain_name() {
                Some(name) => index.named.entry(name).or_default().push(place),
                None => index.wild.push(place),
            }
        }
        index
    }

    /// Places of the patterns that may match `table`: those that name it, then all with a wildcard.
    pub(crate) fn candidates(&self, table: &TableName) -> impl Iterator<Item = usize> + '_ {
        let named = match (self.named.is_empty(), self.fold) {
            (true, _) => None,
            (_, true) => self.named.get(&(table.schema.to_ascii_lowercase(), table.table.to_ascii_lowercase())),
            (_, false) => self.named.get(&(table.schema.clone(), table.table.clone())),
        };
        named.into_iter().flatten().chain(&self.wild).copied()
    }
}
