//! Which records are shown and counted (FILTER).

mod criterion;
mod parse;

pub(crate) use criterion::compare_numbers;
pub use criterion::{Comparison, Criterion, Wanted};
pub use parse::{Clock, comparison, criterion, operations, wildcard_matches};

use crate::environment::RecordEnvironment;
use std::fmt::Write;

/// Whether one criterion is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// One is.
    Any,
    /// All must hold.
    All,
}

impl Match {
    fn name(self) -> &'static str {
        match self {
            Match::Any => "ANY",
            Match::All => "ALL",
        }
    }
}

/// A list of criteria.
#[derive(Clone, Debug)]
struct List {
    criteria: Vec<Criterion>,
    how: Match,
}

impl List {
    fn holds(&self, record: &RecordEnvironment<'_>) -> bool {
        match self.how {
            Match::Any => self.criteria.iter().any(|criterion| criterion.holds(record)),
            Match::All => self.criteria.iter().all(|criterion| criterion.holds(record)),
        }
    }
}

/// All filters of a session.
#[derive(Clone, Debug)]
pub struct Filters {
    is_on: bool,
    include: List,
    exclude: List,
}

impl Default for Filters {
    fn default() -> Filters {
        let list = |how| List { criteria: Vec::new(), how };
        Filters { is_on: true, include: list(Match::All), exclude: list(Match::Any) }
    }
}

impl Filters {
    /// Whether records are compared with anything.
    pub fn are_active(&self) -> bool {
        self.is_on && !(self.include.criteria.is_empty() && self.exclude.criteria.is_empty())
    }

    /// Whether the filters are switched on.
    pub fn are_on(&self) -> bool {
        self.is_on
    }

    /// FILTER ON and OFF.
    pub fn switch(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Adds a criterion to those that a record must fulfil, or must not.
    pub fn add(&mut self, excludes: bool, criterion: Criterion) {
        self.list(excludes).criteria.push(criterion);
    }

    /// FILTER MATCH.
    pub fn set_match(&mut self, excludes: bool, how: Match) {
        self.list(excludes).how = how;
    }

    /// Removes the criterion with a number, counted from 0 over both lists as [`text`](Filters::text) shows them; all without
    /// one. Returns whether there was one.
    pub fn clear(&mut self, number: Option<usize>) -> bool {
        let Some(number) = number else {
            self.include.criteria.clear();
            self.exclude.criteria.clear();
            return true;
        };
        let included = self.include.criteria.len();
        let (list, place) =
            if number < included { (&mut self.include, number) } else { (&mut self.exclude, number - included) };
        let exists = place < list.criteria.len();
        if exists {
            list.criteria.remove(place);
        }
        exists
    }

    fn list(&mut self, excludes: bool) -> &mut List {
        if excludes { &mut self.exclude } else { &mut self.include }
    }

    /// Whether a record passes.
    pub fn pass(&self, record: &RecordEnvironment<'_>) -> bool {
        if !self.is_on {
            return true;
        }
        let is_included = self.include.criteria.is_empty() || self.include.holds(record);
        is_included && (self.exclude.criteria.is_empty() || !self.exclude.holds(record))
    }

    /// What SHOW FILTER prints.
    pub fn text(&self) -> String {
        let state = if self.is_on { "ENABLED" } else { "DISABLED" };
        let mut text = format!("Data filters are {state}\n");
        let mut number = 0;
        for (title, list) in [("Include", &self.include), ("Exclude", &self.exclude)] {
            // Writing to a string can't fail.
            _ = writeln!(text, "{title}  Match {}", list.how.name());
            for criterion in &list.criteria {
                criterion.show(&mut text, number);
                number += 1;
            }
        }
        text
    }
}
