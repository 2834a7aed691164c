//! What a Replicat does with rows that do not fit: the rules of REPERROR, collisions, conversions and conflicts.

use crate::pattern::{NamePattern, written};
use crate::table::ColumnName;
use change::{CaseRule, TableName};
use std::fmt;
use std::time::Duration;

/// Attempts of RETRYOP and TRANSABORT when MAXRETRIES is absent.
pub const RETRIES_DEFAULT: u32 = 10;

/// What kind of refusal an error is, whatever the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The row to update or delete is not there.
    Missing,
    /// A row with the same unique value is there.
    Duplicate,
    /// A foreign key is violated.
    ForeignKey,
    /// Another constraint is violated.
    Constraint,
    /// A value does not fit its column.
    Value,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [ErrorKind; 5] =
        [ErrorKind::Missing, ErrorKind::Duplicate, ErrorKind::ForeignKey, ErrorKind::Constraint, ErrorKind::Value];

    /// The word for it in REPERROR.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Missing => "MISSING",
            ErrorKind::Duplicate => "DUPLICATE",
            ErrorKind::ForeignKey => "FOREIGNKEY",
            ErrorKind::Constraint => "CONSTRAINT",
            ErrorKind::Value => "VALUE",
        }
    }
}

/// Which errors a rule of REPERROR is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorSelector {
    /// Errors that no other rule is for.
    Default,
    /// What holds in place of DEFAULT where that is EXCEPTION and the table has no exceptions mapping.
    Default2,
    /// Errors of a kind.
    Kind(ErrorKind),
    /// Errors with this code of the database.
    Code(String),
}

/// What becomes of a row, or of its transaction, that the target does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorResponse {
    /// The transaction is rolled back and the group stops.
    Abend,
    /// The row goes to the discard file.
    Discard,
    /// The row is dropped.
    Ignore,
    /// The row goes through the exceptions mapping.
    Exception,
    /// The row is tried again, then the group stops.
    RetryOp {
        /// How often.
        retries: u32,
    },
    /// The transaction is rolled back and tried again, then the group stops.
    TransAbort {
        /// How often.
        retries: u32,
        /// Wait before each.
        delay: Duration,
    },
    /// All rows of the source transaction go to the discard file.
    TransDiscard,
    /// All rows of the source transaction go through their exceptions mappings.
    TransException,
    /// The source transaction is parked whole in the error queue of the target.
    TransQueue {
        /// HOLD: later transactions that touch what it touches are parked behind it, else they are tried.
        hold: bool,
    },
}

/// The rules of REPERROR that are in force for one MAP, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRules(pub(crate) Vec<(ErrorSelector, ErrorResponse)>);

impl ErrorRules {
    /// What to do about an error of `kind` with the database's `code`. A rule for the code has the word before one for the
    /// kind, and that before DEFAULT; among equals the last one in the file has it. Without any rule the group stops.
    pub fn respond(&self, kind: ErrorKind, code: &str, has_exceptions: bool) -> ErrorResponse {
        let last = |wanted: &dyn Fn(&ErrorSelector) -> bool| {
            self.0.iter().rev().find(|(selector, _)| wanted(selector)).map(|(_, response)| *response)
        };
        let by_code =
            last(&|selector| matches!(selector, ErrorSelector::Code(known) if known.eq_ignore_ascii_case(code)));
        let by_kind = || last(&|selector| *selector == ErrorSelector::Kind(kind));
        let by_default = || {
            let response = last(&|selector| *selector == ErrorSelector::Default)?;
            let backup = last(&|selector| *selector == ErrorSelector::Default2);
            let is_exception = matches!(response, ErrorResponse::Exception | ErrorResponse::TransException);
            Some(if is_exception && !has_exceptions { backup.unwrap_or(response) } else { response })
        };
        by_code.or_else(by_kind).or_else(by_default).unwrap_or(ErrorResponse::Abend)
    }

    /// Whether a rule parks transactions in the error queue, and whether one holds later ones back behind them.
    pub fn queues(&self) -> (bool, bool) {
        self.0.iter().fold((false, false), |(queues, holds), (_, response)| match response {
            ErrorResponse::TransQueue { hold } => (true, holds || *hold),
            _ => (queues, holds),
        })
    }

    /// Whether a response concerns whole source transactions.
    pub fn judges_transactions(&self) -> bool {
        use ErrorResponse::{TransAbort, TransDiscard, TransException, TransQueue};
        let is_whole = |response: &ErrorResponse| {
            matches!(response, TransAbort { .. } | TransDiscard | TransException | TransQueue { .. })
        };
        self.0.iter().any(|(_, response)| is_whole(response))
    }

    /// Whether every error stops the group.
    pub fn always_abend(&self) -> bool {
        self.0.iter().all(|(_, response)| *response == ErrorResponse::Abend)
    }
}

/// A value of an exceptions table that does not come from the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExceptionValue {
    /// `@DATENOW()`.
    Now,
    /// `@GETENV('LASTERR', 'DBERRNUM')`: the database's code, or the kind of error where it has none.
    ErrorCode,
    /// `@GETENV('LASTERR', 'DBERRMSG')`.
    ErrorText,
    /// `@GETENV('LASTERR', 'OPTYPE')`.
    OperationType,
    /// `@GETENV('LASTERR', 'ERRTYPE')`.
    ErrorType,
    /// `@GETENV('TRANSACTION', 'CSN')`.
    Csn,
    /// `@GETENV('TRANSACTION', 'XID')`.
    TransactionId,
    /// A literal.
    Literal(String),
}

/// Columns, as written or as a database reads them.
pub(crate) type Written = ColumnName;

/// An exceptions mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExceptionsRule {
    pub(crate) target: NamePattern,
    pub(crate) columns: Vec<(Written, ExceptionValue)>,
}

/// Where rows go that the target does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceptions {
    /// The exceptions table.
    pub target: TableName,
    /// Its columns that do not come from the row.
    pub columns: Vec<(String, ExceptionValue)>,
}

/// Which old values join the key when a row is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare<C = String> {
    /// None.
    Key,
    /// All.
    All,
    /// These.
    Including(Vec<C>),
    /// All but these.
    Excluding(Vec<C>),
}

impl Compare<Written> {
    fn plan(&self, case: CaseRule) -> Compare {
        match self {
            Compare::Key => Compare::Key,
            Compare::All => Compare::All,
            Compare::Including(columns) => Compare::Including(names(columns, case)),
            Compare::Excluding(columns) => Compare::Excluding(names(columns, case)),
        }
    }
}

/// The conflicts of RESOLVECONFLICT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictType {
    /// An insert finds a row with its key.
    InsertRowExists,
    /// An update finds a row with other old values.
    UpdateRowExists,
    /// An update finds no row.
    UpdateRowMissing,
    /// A delete finds a row with other old values.
    DeleteRowExists,
    /// A delete finds no row.
    DeleteRowMissing,
    /// A truncation would remove rows that nobody has told of.
    Truncate,
}

impl ConflictType {
    /// All types.
    pub const ALL: [ConflictType; 6] = [
        ConflictType::InsertRowExists,
        ConflictType::UpdateRowExists,
        ConflictType::UpdateRowMissing,
        ConflictType::DeleteRowExists,
        ConflictType::DeleteRowMissing,
        ConflictType::Truncate,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            ConflictType::InsertRowExists => "INSERTROWEXISTS",
            ConflictType::UpdateRowExists => "UPDATEROWEXISTS",
            ConflictType::UpdateRowMissing => "UPDATEROWMISSING",
            ConflictType::DeleteRowExists => "DELETEROWEXISTS",
            ConflictType::DeleteRowMissing => "DELETEROWMISSING",
            ConflictType::Truncate => "TRUNCATE",
        }
    }

    /// The methods that may settle it.
    pub(crate) fn methods(self) -> &'static [&'static str] {
        match self {
            ConflictType::InsertRowExists => {
                &["OVERWRITE", "IGNORE", "DISCARD", "LATEST", "USEMIN", "USEMINEQ", "USEMAX", "USEMAXEQ"]
            }
            ConflictType::UpdateRowExists => {
                &["OVERWRITE", "IGNORE", "DISCARD", "LATEST", "USEMIN", "USEMINEQ", "USEMAX", "USEMAXEQ", "USEDELTA"]
            }
            ConflictType::UpdateRowMissing | ConflictType::DeleteRowExists => {
                &["OVERWRITE", "IGNORE", "DISCARD", "LATEST"]
            }
            ConflictType::DeleteRowMissing => &["IGNORE", "DISCARD", "LATEST"],
            ConflictType::Truncate => &["OVERWRITE", "IGNORE", "DISCARD"],
        }
    }
}

/// A method of RESOLVECONFLICT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictMethod<C = String> {
    /// OVERWRITE.
    Overwrite,
    /// IGNORE.
    Ignore,
    /// DISCARD.
    Discard,
    /// USEMIN, USEMINEQ.
    UseMinimum {
        /// The column that decides.
        column: C,
        /// Whether equal values take the change.
        or_equal: bool,
    },
    /// USEMAX, USEMAXEQ.
    UseMaximum {
        /// The column that decides.
        column: C,
        /// Whether equal values take the change.
        or_equal: bool,
    },
    /// USEDELTA.
    UseDelta,
    /// LATEST: the later version stays.
    Latest,
}

/// One part of a RESOLVECONFLICT clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictPart<C = String> {
    /// The column group; DEFAULT for the rest.
    pub name: String,
    /// How it is settled.
    pub method: ConflictMethod<C>,
    /// Its columns; empty for DEFAULT.
    pub columns: Vec<C>,
}

/// A RESOLVECONFLICT clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictClause<C = String> {
    /// What it settles.
    pub kind: ConflictType,
    /// Column groups, each settled by itself.
    pub parts: Vec<ConflictPart<C>>,
}

impl ConflictClause<Written> {
    fn plan(&self, case: CaseRule) -> ConflictClause {
        let name = |column: &Written| written(&column.name, column.quoted, case);
        let method = |method: &ConflictMethod<Written>| match method {
            ConflictMethod::Overwrite => ConflictMethod::Overwrite,
            ConflictMethod::Ignore => ConflictMethod::Ignore,
            ConflictMethod::Discard => ConflictMethod::Discard,
            ConflictMethod::UseDelta => ConflictMethod::UseDelta,
            ConflictMethod::Latest => ConflictMethod::Latest,
            ConflictMethod::UseMinimum { column, or_equal } => {
                ConflictMethod::UseMinimum { column: name(column), or_equal: *or_equal }
            }
            ConflictMethod::UseMaximum { column, or_equal } => {
                ConflictMethod::UseMaximum { column: name(column), or_equal: *or_equal }
            }
        };
        let parts = self.parts.iter().map(|part| ConflictPart {
            name: part.name.clone(),
            method: method(&part.method),
            columns: names(&part.columns, case),
        });
        ConflictClause { kind: self.kind, parts: parts.collect() }
    }
}

fn names(columns: &[Written], case: CaseRule) -> Vec<String> {
    crate::table::column_names(columns, case)
}

/// Settings that stand on a line of their own and hold for the MAP statements that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// HANDLECOLLISIONS.
    pub handle_collisions: bool,
    /// INSERTALLRECORDS: every operation becomes an insert.
    pub insert_all_records: bool,
    /// INSERTUPDATES: updates become inserts.
    pub insert_updates: bool,
    /// INSERTDELETES: deletes become inserts.
    pub insert_deletes: bool,
    /// UPDATEINSERTS: inserts become updates.
    pub update_inserts: bool,
    /// UPDATEDELETES: deletes become updates with the values that the row had.
    pub update_deletes: bool,
    /// INSERTMISSINGUPDATES: an update whose row is missing becomes an insert.
    pub insert_missing_updates: bool,
    /// OVERRIDEDUPS: an insert whose key exists overwrites the row.
    pub override_duplicates: bool,
    /// ALLOWNOOPUPDATES: an update that sets nothing is passed over.
    pub allow_no_op_updates: bool,
}

impl Conversions {
    /// Whether any of them turns an operation into another one.
    pub fn convert(&self) -> bool {
        self.insert_all_records
            || self.insert_updates
            || self.insert_deletes
            || self.update_inserts
            || self.update_deletes
    }
}

/// What is done for one MAP, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandlingRule {
    pub(crate) errors: ErrorRules,
    pub(crate) conversions: Conversions,
    pub(crate) exceptions: Option<ExceptionsRule>,
    pub(crate) compare_update: Option<Compare<Written>>,
    pub(crate) compare_delete: Option<Compare<Written>>,
    pub(crate) conflicts: Vec<ConflictClause<Written>>,
    pub(crate) version: Option<Vec<Written>>,
}

/// What is done with rows of one target table that do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    /// REPERROR.
    pub errors: ErrorRules,
    /// Collisions and conversions.
    pub conversions: Conversions,
    /// MAPEXCEPTION or EXCEPTIONSONLY.
    pub exceptions: Option<Exceptions>,
    /// COMPARECOLS ON UPDATE.
    pub compare_update: Option<Compare>,
    /// COMPARECOLS ON DELETE.
    pub compare_delete: Option<Compare>,
    /// RESOLVECONFLICT.
    pub conflicts: Vec<ConflictClause>,
    /// VERSIONCOLS: the column with the row's version, and the one with its site where that is another.
    pub version: Option<Vec<String>>,
}

impl Default for Handling {
    fn default() -> Handling {
        HandlingRule::default().plan(CaseRule::Sensitive, |pattern| {
            pattern.fill(CaseRule::Sensitive, "", &crate::pattern::Taken::default())
        })
    }
}

impl Handling {
    /// Whether every error stops the group and every change is applied as it is.
    pub fn is_plain(&self) -> bool {
        *self == Handling::default() || (self.errors.always_abend() && self.without_errors() == Handling::default())
    }

    /// Whether each row must be looked at before it is written.
    pub fn looks_first(&self) -> bool {
        self.compare_update.is_some()
            || self.compare_delete.is_some()
            || !self.conflicts.is_empty()
            || self.version.is_some()
    }

    fn without_errors(&self) -> Handling {
        Handling { errors: ErrorRules::default(), ..self.clone() }
    }
}

impl HandlingRule {
    /// The rule as the target database reads it; `target` gives the name of the exceptions table.
    pub(crate) fn plan(&self, case: CaseRule, target: impl Fn(&NamePattern) -> TableName) -> Handling {
        let exceptions = self.exceptions.as_ref().map(|rule| Exceptions {
            target: target(&rule.target),
            columns: rule
                .columns
                .iter()
                .map(|(column, value)| (written(&column.name, column.quoted, case), value.clone()))
                .collect(),
        });
        Handling {
            errors: self.errors.clone(),
            conversions: self.conversions,
            exceptions,
            compare_update: self.compare_update.as_ref().map(|compare| compare.plan(case)),
            compare_delete: self.compare_delete.as_ref().map(|compare| compare.plan(case)),
            conflicts: self.conflicts.iter().map(|clause| clause.plan(case)).collect(),
            version: self.version.as_ref().map(|columns| names(columns, case)),
        }
    }
}

/// DISCARDFILE, or what holds without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardFile {
    /// The file, relative to the home; `None` for the group's own in the report directory.
    pub path: Option<String>,
    /// PURGE: the file starts empty with each run.
    pub purge: bool,
    /// MEGABYTES: a larger file stops the group.
    pub megabytes: u32,
}

impl Default for DiscardFile {
    fn default() -> DiscardFile {
        DiscardFile { path: None, purge: false, megabytes: 50 }
    }
}

/// Writes the response as REPERROR has it.
impl fmt::Display for ErrorResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            ErrorResponse::Abend => "ABEND",
            ErrorResponse::Discard => "DISCARD",
            ErrorResponse::Ignore => "IGNORE",
            ErrorResponse::Exception => "EXCEPTION",
            ErrorResponse::RetryOp { .. } => "RETRYOP",
            ErrorResponse::TransAbort { .. } => "TRANSABORT",
            ErrorResponse::TransDiscard => "TRANSDISCARD",
            ErrorResponse::TransException => "TRANSEXCEPTION",
            ErrorResponse::TransQueue { .. } => "TRANSQUEUE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_answers_an_error() {
        let code = |code: &str| ErrorSelector::Code(code.to_owned());
        let rules = ErrorRules(vec![
            (ErrorSelector::Default, ErrorResponse::Discard),
            (ErrorSelector::Kind(ErrorKind::Duplicate), ErrorResponse::Ignore),
            (code("23505"), ErrorResponse::TransDiscard),
            (code("23505"), ErrorResponse::Exception),
        ]);
        assert_eq!(rules.respond(ErrorKind::Duplicate, "23505", true), ErrorResponse::Exception, "the last of equals");
        assert_eq!(rules.respond(ErrorKind::Duplicate, "2067", true), ErrorResponse::Ignore);
        assert_eq!(rules.respond(ErrorKind::Missing, "", true), ErrorResponse::Discard);
        assert_eq!(ErrorRules::default().respond(ErrorKind::Missing, "", true), ErrorResponse::Abend);
    }

    #[test]
    fn default2_stands_in_where_there_is_no_exceptions_mapping() {
        let rules = ErrorRules(vec![
            (ErrorSelector::Default, ErrorResponse::Exception),
            (ErrorSelector::Default2, ErrorResponse::Discard),
        ]);
        assert_eq!(rules.respond(ErrorKind::Value, "22001", true), ErrorResponse::Exception);
        assert_eq!(rules.respond(ErrorKind::Value, "22001", false), ErrorResponse::Discard);
    }
}
