//! What Drover needs of any database, and nothing of any particular one.
//!
//! A product plugs in by implementing [`Database`], which opens a [`LogSource`] (read committed changes) and a
//! [`Session`] (write rows and the checkpoint row in one transaction). Trait objects stand at the seam on purpose: which
//! product a group talks to is chosen at run time by its parameter file, and a type parameter would spread through every
//! stage. Calls carry batches, so dynamic dispatch costs nothing that can be measured.
//!
//! Everything blocks. A stage runs on its own thread and passes the time it is willing to wait.
//!
//! Start reading at [`Database`].

mod checkpoint;
pub mod compare;
pub mod conformance;
mod definition;
mod engine;
mod error;
pub mod error_queue;
mod heartbeat;
mod layout;
mod log;
pub mod memory;
pub mod missing_rows;
mod open_work;
mod order;
mod selection;
mod session;
pub mod snapshot;
mod source;
mod uncommitted;

pub use checkpoint::{CheckpointRow, CheckpointSet};
pub use definition::DefinitionWrite;
pub use engine::{Database, Identity, Origin, Partition};
pub use error::{Error, ErrorClass};
pub use heartbeat::{
    HEARTBEAT_OBJECTS, HeartbeatColumn, HeartbeatJob, HeartbeatKind, HeartbeatOptions, HeartbeatState, HeartbeatTable,
    Heartbeats, JobState, LagExpression, SEED_COLUMNS, WAY_COLUMN, heartbeat_columns, history_columns,
    is_heartbeat_object, is_stamped_table, lag_columns, lag_history_columns,
};
pub use layout::{CheckpointTableState, Layout, LayoutColumn};
pub use log::{LogKept, LogState, RowIdentity, RowLogging};
pub use open_work::{OpenWork, OpenWorkView};
pub use order::{ForeignKey, OrderScope, TableOrder, UniqueKey};
pub use selection::{PatternRule, TablePattern, TableSelection};
pub use session::{
    ApplyError, ColumnPair, CommitFailure, CommitStep, ForeignKeyPolicy, OnDuplicate, Outcome, OwnRows, Rejection,
    Session, SessionRequest, TablePlan, TriggerPolicy, Write,
};
pub use source::{LogEvent, LogSource, SourceRequest};
pub use uncommitted::{OpenEvent, OpenLogSource, Replay};
