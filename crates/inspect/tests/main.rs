//! Logdump and the trail tools against the published text of real trails, and against what the tests put in.

mod commands;
mod damage;
mod published;
mod reference;
mod stage;
mod tools;
mod written;
