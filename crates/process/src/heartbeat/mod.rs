//! What becomes of a heartbeat on its way, as a brain without hands.
//!
//! A database stamps rows of its own, the *seed* and what has arrived from others, every so often. Each stamp travels as a
//! record through Extract, Pumps and Replicat, and each of them notes when it had it in hand. The other end turns what came
//! in into what goes out and the reverse, so that both ends of a two-way link know both lags.
//!
//! # Who passes a record on
//! | who | looks at | NULL | its own name | another name |
//! |---|---|---|---|---|
//! | Extract | OUTGOING_EXTRACT | puts its name there, passes it on | passes it on | drops it |
//! | Pump, path | OUTGOING_ROUTING_PATH | begins the list | a `*` in the list: adds its item before it; no `*`, its item in it: passes it on | drops it |
//! | Replicat | OUTGOING_REPLICAT | applies it | applies it | drops it |
//!
//! A record that was born from a seed names nobody and fans out over all paths. One that comes back carries a complete list
//! and follows it. So each pair of paths, one in and one out, makes one row, and none goes round for ever.
//!
//! Nothing here reads a clock or touches a database. Start reading at [`Heartbeat`] and [`pass_extract`].

mod alarm;
mod instant;
mod lag;
mod record;
mod rules;

pub use alarm::{Alert, Arrived, HeartbeatWatch};
pub use instant::parse_instant;
pub use lag::{ClockSkew, DayOfLags, Hop, Lags, days_of};
pub use record::{
    COLUMNS, Direction, Heartbeat, HeartbeatError, ROUTING_PATH_MAX, SEED_TABLE, TABLE, definition, is_heartbeat,
};
pub use rules::{Arrival, ExtractNotes, ReplicatNotes, Router, Routing, arrive, pass_extract};
