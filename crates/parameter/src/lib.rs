//! What the operator asked for: parameter files become plans.
//!
//! A parameter file is read in two steps. [`parse_extract`] and [`parse_replicat`] turn its text into parameters that
//! are complete and free of contradictions, or into [`Diagnostics`] that point at the words. What still depends on a
//! database (how it compares names, which schema a bare name belongs to) is settled by [`TableRules::plan`] and
//! [`MapRules::plan`], and loops see only the plans.
//!
//! Everything that can be written stands in one table, `define`: the parser, the suggestions for misspelt names and the
//! [`reference()`] page all come from it.
//!
//! Nothing here reads files, the environment or a database. Start reading at [`parse_extract`].

mod cover;
mod cursor;
mod define;
mod definition;
mod diagnostic;
mod file;
mod globals;
mod handling;
mod handling_grammar;
mod log_kept;
mod map;
mod name_index;
mod open;
mod partition;
mod pattern;
mod pump;
mod purge;
mod reference;
mod remote;
mod secret;
mod suggestion;
mod table;
mod thread;
mod trail_format;
mod tran_log;

pub use cover::EncryptParameter;
pub use definition::{DefinitionPlan, DefinitionRules};
pub use diagnostic::{Diagnostic, Diagnostics};
pub use file::{
    ApplyParameters, DefinitionsParameters, ExtractParameters, ReplicatParameters, parse_definitions, parse_extract,
    parse_replicat,
};
pub use globals::{Globals, parse_globals};
pub use handling::{
    Compare, ConflictClause, ConflictMethod, ConflictPart, ConflictType, Conversions, DiscardFile, ErrorKind,
    ErrorResponse, ErrorRules, ErrorSelector, ExceptionValue, Exceptions, Handling, RETRIES_DEFAULT,
};
pub use log_kept::LogKeptLevels;
pub use map::{MapPlan, MapRules, MapTarget};
pub use open::{BoundedParameters, CacheParameters, LongParameters};
pub use partition::{PartitionChoice, PartitionPlan, PartitionRules};
pub use pump::{PumpOutput, PumpParameters, parse_pump};
pub use purge::{KeepParameter, PurgeParameters};
pub use reference::reference;
pub use remote::{PORT_DEFAULT, RemoteHost, bracketed, bytes, host_and_port};
pub use secret::{DatabaseUrl, mask_secrets};
pub use suggestion::nearest;
pub use table::{PlannedPattern, PlannedRule, TablePlan, TableRules, tables_named};
pub use thread::{MapThreads, THREADS_MAX};
pub use trail_format::{TrailByteOrder, TrailFormat, UpdateRecordFormat};
