//! Order in the house, checked like any other promise: crate arrows, drivers in their rooms, documents that name what
//! exists, one page per message code, no file that nothing reads.

mod arrows;
mod documents;
mod forgotten;
mod machine;
mod messages;
mod sabotage;
mod tree;
