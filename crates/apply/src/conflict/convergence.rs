//! Which methods leave all sites equal, so that one that does not is announced when it is configured.
//!
//! A change that meets no conflict is applied as it is, whatever the method. So a method converges only when every change
//! raises the deciding value above what it overwrote, or when changes add up.

use super::rules::{Chain, ConflictRules, UniqueMethod, UpdateMethod};
use parameter::{ConflictClause, ConflictMethod, ConflictType};

/// For how many sites that write a method leaves all sites equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// For any number.
    Any,
    /// For any number, when every change raises the deciding value.
    AnyWhenRising,
    /// For any number, when every change lowers the deciding value.
    AnyWhenFalling,
    /// For any number, when each change of a row has a later moment than the one before; equal moments need a backup method.
    AnyWithTieBackup,
    /// For two.
    Two,
    /// For two that have no more than one change of a row on its way at a time.
    TwoWithoutBursts,
    /// For one: all others only read.
    One,
    /// Nobody but the function's author knows.
    Unknown,
}

/// A method that may leave sites different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The column group or constraint.
    pub reference: String,
    /// The method.
    pub method: &'static str,
    /// When it does leave all sites equal.
    pub convergence: Convergence,
    /// Sites of the configuration.
    pub sites: usize,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Divergence { reference, method, convergence, sites } = self;
        write!(formatter, "{method} of {reference} may leave {sites} sites different: ")?;
        formatter.write_str(match convergence {
            Convergence::Any => "it does not",
            Convergence::AnyWhenRising => "it leaves them equal only when every change raises the deciding value",
            Convergence::AnyWhenFalling => "it leaves them equal only when every change lowers the deciding value",
            Convergence::AnyWithTieBackup => {
                "each change of a row needs a later moment than the one before, and equal moments need a backup method"
            }
            Convergence::Two => "it leaves no more than two sites equal",
            Convergence::TwoWithoutBursts => {
                "it leaves two sites equal only when a row has at most one change on its way at a time"
            }
            Convergence::One => "it is for one site that writes",
            Convergence::Unknown => "only the author of the function knows",
        })
    }
}

impl UpdateMethod {
    /// For how many sites the method leaves all sites equal.
    pub fn convergence(&self) -> Convergence {
        match self {
            UpdateMethod::LatestStamp(_) | UpdateMethod::Additive(_) | UpdateMethod::UseDelta => Convergence::Any,
            UpdateMethod::LatestTimestamp(_) => Convergence::AnyWithTieBackup,
            UpdateMethod::Maximum(_) | UpdateMethod::UseMaximum { .. } | UpdateMethod::PriorityGroup { .. } => {
                Convergence::AnyWhenRising
            }
            UpdateMethod::Minimum(_) | UpdateMethod::UseMinimum { .. } => Convergence::AnyWhenFalling,
            UpdateMethod::SitePriority { .. } => Convergence::Two,
            UpdateMethod::EarliestTimestamp(_) => Convergence::TwoWithoutBursts,
            UpdateMethod::Average(_)
            | UpdateMethod::Overwrite
            | UpdateMethod::Discard
            | UpdateMethod::DiscardRecord => Convergence::One,
            UpdateMethod::UserFunction(_) => Convergence::Unknown,
        }
    }

    /// Whether the method may leave a conflict to the next one, so that it wants a backup.
    fn has_ties(&self) -> bool {
        matches!(
            self,
            UpdateMethod::LatestTimestamp(_)
                | UpdateMethod::EarliestTimestamp(_)
                | UpdateMethod::Maximum(_)
                | UpdateMethod::Minimum(_)
        )
    }
}

impl ConflictRules {
    /// Methods that may leave `sites` sites different, in the order of their definition. Empty for one site.
    pub fn divergences(&self, sites: usize) -> Vec<Divergence> {
        if sites < 2 {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut note = |reference: &str, method: &'static str, convergence| {
            found.push(Divergence { reference: reference.to_owned(), method, convergence, sites });
        };
        let named = self.update.groups.iter().map(|group| (group.name.as_str(), &group.chain));
        let of_insert = self.insert.iter().flat_map(|groups| {
            groups.groups.iter().map(|group| (group.name.as_str(), &group.chain)).chain([("DEFAULT", &groups.rest)])
        });
        for (name, chain) in named.chain([("DEFAULT", &self.update.rest)]).chain(of_insert) {
            divergent(chain, sites, |method, convergence| note(name, method, convergence));
        }
        for (constraint, chain) in &self.unique {
            for step in chain.steps() {
                let convergence = match step.method {
                    UniqueMethod::UserFunction(_) => Convergence::Unknown,
                    _ => Convergence::One,
                };
                note(constraint, step.method.name(), convergence);
            }
        }
        found
    }
}

/// Methods of RESOLVECONFLICT that may leave `sites` sites different, in the order of their clauses.
pub fn divergences_of(clauses: &[ConflictClause], sites: usize) -> Vec<Divergence> {
    let method = |method: &ConflictMethod| match *method {
        ConflictMethod::Overwrite => UpdateMethod::Overwrite,
        ConflictMethod::Ignore => UpdateMethod::Discard,
        ConflictMethod::Discard => UpdateMethod::DiscardRecord,
        ConflictMethod::UseMinimum { or_equal, .. } => UpdateMethod::UseMinimum { column: 0, or_equal },
        ConflictMethod::UseMaximum { or_equal, .. } => UpdateMethod::UseMaximum { column: 0, or_equal },
        ConflictMethod::UseDelta => UpdateMethod::UseDelta,
        ConflictMethod::Latest => UpdateMethod::LatestStamp(super::rules::StampColumns { time: 0, site: 0 }),
    };
    let of_rows =
        |clause: &&ConflictClause| matches!(clause.kind, ConflictType::InsertRowExists | ConflictType::UpdateRowExists);
    let mut found = Vec::new();
    for clause in clauses.iter().filter(of_rows) {
        for part in &clause.parts {
            let mut chain = Chain::default();
            // The first method of an empty chain.
            let _ = chain.add(1, method(&part.method));
            divergent(&chain, sites, |method, convergence| {
                let reference = format!("{} {}", clause.kind.word(), part.name);
                found.push(Divergence { reference, method, convergence, sites });
            });
        }
    }
    found
}

/// The first method of a chain decides but for ties, which go to its backup.
fn divergent(chain: &Chain<UpdateMethod>, sites: usize, mut note: impl FnMut(&'static str, Convergence)) {
    let steps = chain.steps();
    // A notification that never decides stands before the method that does.
    let Some(first) = steps.iter().position(|step| !matches!(step.method, UpdateMethod::UserFunction(_))) else {
        steps.iter().for_each(|step| note(step.method.name(), step.method.convergence()));
        return;
    };
    let method = &steps[first].method;
    let has_backup = !method.has_ties() || steps.len() > first + 1;
    match method.convergence() {
        Convergence::Any => {}
        Convergence::AnyWithTieBackup if has_backup => {}
        Convergence::Two if sites <= 2 => {}
        convergence => note(method.name(), convergence),
    }
}
