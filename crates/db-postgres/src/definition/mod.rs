//! Statements that define objects: what an event trigger tells of them, and how they are run somewhere else.
//!
//! A trigger function can't see the text of the statement that fired it, only that of the string which the client has sent, or
//! of the query that a PL/pgSQL function runs. [`message`] makes of what it tells statements with their own texts; where an object
//! is all that is needed (DROP), or the catalog knows better (indexes, tables made of queries), the text is made anew.

mod choose;
mod lex;
mod message;
mod rename;
mod text;

pub(crate) use message::{PREFIX, read};
pub(crate) use rename::{Form, form};
