//! Conflicts: when a row is not as the change left it, and what is done then.
//!
//! A brain without hands: it is given the change and the row that stands in the target, and says what to write and what to
//! tell. The same engine serves COMPARECOLS and RESOLVECONFLICT of a MAP, and the column groups and resolution methods of
//! masters; [`ConflictRules`] says which of its parts are in force.
//!
//! # Order of a call
//! An update or a delete looks its row up by the old key and locks it, asks [`Engine::update`] or [`Engine::delete`], and
//! writes what the settlement says. An insert is tried first; a row with its key leads to [`Engine::insert_exists`]. When a
//! write violates another unique constraint, [`Engine::unique`] may edit it, and it is tried again. A call that stays
//! unresolved fails its whole transaction.

mod convergence;
mod decimal;
mod engine;
mod entry;
mod method;
mod missing;
mod rules;
mod unique;
mod value;

pub use convergence::{Convergence, Divergence, divergences_of};
pub use engine::{Engine, Ruling, Settlement, Stamp};
pub use entry::{ConflictEntry, ConflictKind, Resolution};
pub use method::{FunctionAnswer, FunctionCall, FunctionParameter, Surroundings};
pub use rules::{
    Chain, ColumnGroup, ConflictRules, DefinitionError, Detection, Groups, MissingMethod, Priorities, Scope,
    StampColumns, Step, UniqueMethod, UpdateMethod, UserFunction,
};
