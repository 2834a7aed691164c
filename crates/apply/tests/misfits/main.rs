//! Rows that do not fit: what each rule of a parameter file does to the target, to the counters and to the discard file, by one
//! session and by several.

#[path = "../../../apply/tests/misfits/cases.rs"]
mod by_one_session;

#[allow(clippy::duplicate_mod)]
#[path = "../../../apply/tests/misfits/cases.rs"]
mod by_several_sessions;

mod side_by_side;
