//! Rows that do not fit: what each table's MAP says about them, ready for use.
//!
//! The rules are brains: [`convert`] turns operations into others, [`collision`](collision::collision) says what takes the
//! place of a write that was refused, `parameter::ErrorRules` answers errors, and [`conflict`](crate::conflict) settles
//! conflicts. The Replicat carries out what they say.

mod collision;
mod convert;
mod discard;
mod exceptions;
mod row_writer;
mod rules;

pub(crate) use collision::{Collision, collision};
pub(crate) use convert::{Converted, completed, convert};
pub use discard::Discard;
pub(crate) use discard::{LastError, discard_text};
pub(crate) use exceptions::ExceptionsPlan;
pub(crate) use row_writer::{CallFailed, Refused, RowWriter, Tried, Verdict};
pub use rules::HandlingError;
use rules::{engine_table, row_rules};

use crate::conflict::ConflictRules;
use change::TableDefinition;
use parameter::{ErrorKind, Handling};
use std::sync::Arc;

/// What is done with the rows of one target table that do not fit.
pub(crate) struct Misfit {
    pub(crate) handling: Arc<Handling>,
    /// Whether nothing is: every error stops the group, and every change is written as it is.
    pub(crate) is_plain: bool,
    /// Whether operations may have to be turned into others.
    pub(crate) converts: bool,
    /// COMPARECOLS and RESOLVECONFLICT, with the shape that the engine works with.
    pub(crate) conflicts: Option<(TableDefinition, ConflictRules)>,
    /// MAPEXCEPTION.
    pub(crate) exceptions: Option<ExceptionsPlan>,
}

impl Misfit {
    /// The rules of a MAP for one target table.
    ///
    /// # Errors
    /// [`HandlingError`] for options that do not fit the tables.
    pub(crate) fn new(
        plan: &database::TablePlan,
        handling: Arc<Handling>,
        exceptions: Option<ExceptionsPlan>,
    ) -> Result<Misfit, HandlingError> {
        let rules = row_rules(plan, &handling)?;
        Ok(Misfit {
            is_plain: handling.is_plain(),
            converts: handling.conversions.convert() || handling.conversions.allow_no_op_updates,
            conflicts: rules.map(|rules| (engine_table(plan), rules)),
            exceptions,
            handling,
        })
    }
}

impl Misfit {
    /// Whether the target table keeps a row for each operation.
    pub(crate) fn keeps_history(&self) -> bool {
        let conversions = &self.handling.conversions;
        conversions.insert_all_records || conversions.insert_updates || conversions.insert_deletes
    }

    /// Whether a rule may write another value into this column of the target than the change brings.
    pub(crate) fn makes_values_of(&self, plan: &database::TablePlan, target: usize) -> bool {
        let Some((_, rules)) = &self.conflicts else { return false };
        let source = plan.columns.iter().find(|pair| pair.target == target).map(|pair| pair.source);
        source.is_some_and(|source| rules.makes_values_of(source))
    }
}

/// The kind of a refusal, as REPERROR names it.
pub(crate) fn kind(outcome: database::Outcome) -> ErrorKind {
    match outcome {
        database::Outcome::Missing => ErrorKind::Missing,
        database::Outcome::Duplicate => ErrorKind::Duplicate,
        database::Outcome::ForeignKey => ErrorKind::ForeignKey,
        database::Outcome::Constraint => ErrorKind::Constraint,
        database::Outcome::Value => ErrorKind::Value,
    }
}
