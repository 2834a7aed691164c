//! Writing rows, with the checkpoint row in the same transaction.
//!
//! # How it works
//! Operations are sent as arrays per table, operation and column set ([`batch`]), large inserts by COPY. When such a
//! statement fails or finds another number of rows than it should, everything since the call began is taken back, and the
//! operations are sent one by one in their own order: that names the row that does not fit. Where nothing is gained by
//! looking at the outcome of each step, a transaction goes out [whole].
//!
//! # Triggers and foreign keys
//! With `session_replication_role = replica` neither fires. That takes a right; without it, and for policies that the
//! server can't follow, tables that have triggers or foreign keys are refused by name.

mod batch;
mod define;
mod element;
mod encode;
mod exclusion;
mod left;
pub(crate) mod origin;
mod outcome;
mod target;
mod whole;

pub(crate) use define::note_table;
pub(crate) use whole::must_find;

use crate::catalog::{CatalogTable, Kinds, Scope, read_order, read_tables};
use crate::checkpoint::{self, CheckpointWriter};
use crate::error_queue;
use crate::name;
use crate::wire::{Config, Connection, Error as WireError, Statement};
use batch::{Batch, Batches};
use bytes::BytesMut;
use change::{
    DefinitionStatement, Operation, OperationKind, Row, SequenceState, TableDefinition, TableName, TruncateOptions,
};
use database::error_queue::ErrorQueueTables;
use database::snapshot::{CopyRequest, CopyRow};
use database::{
    ApplyError, CheckpointRow, CheckpointSet, CommitFailure, DefinitionWrite, Error, ErrorClass, ForeignKeyPolicy,
    Outcome, OwnRows, Rejection, Session, SessionRequest, TableOrder, TablePlan, TriggerPolicy, Write,
};
use left::Left;
use origin::Mark;
use std::collections::HashMap;
use std::sync::Arc;
use target::{Form, Shaped, Target};

/// Operations that are worth an array: fewer are as fast one by one.
const ARRAY_ROWS_MIN: usize = 8;
/// What stands before operations that are sent together.
const SAVEPOINT: &str = "SAVEPOINT drover_rows";
/// Settings of sessions whose statements are only ours: no trigger of the user's runs in them. Each row is found by an index,
/// whatever the server believes of the sizes of tables and arrays; a plan is made once, and stays good when a table grows.
const PLANS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
                     SET enable_mergejoin = off";
/// Statements of a repair that are sent at once.
const MENDED_AT_ONCE: usize = 100;
/// What a copy in the binary format starts with: its signature, no flags, no extension.
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with, in the place of a number of columns.
const COPY_END: &[u8] = b"\xff\xff";
/// Inserts, or their bytes, that are worth a copy.
const COPY_ROWS_MIN: usize = 1000;
const COPY_BYTES_MIN: usize = 1 << 20;
/// Bytes of rows that are handed on at once.
const COPY_BYTES: usize = 32 * 1024;
/// Plans that are kept prepared; made anew when there are more.
const PLANS_MAX: usize = 5000;

/// A session of a Replicat.
pub(crate) struct ApplySession {
    connection: Connection,
    config: Config,
    request: SessionRequest,
    /// Whether neither triggers nor foreign keys run.
    is_replica: bool,
    mark: Option<Mark>,
    kinds: Kinds,
    tables: HashMap<TableName, CatalogTable>,
    targets: Vec<Target>,
    numbers: HashMap<usize, usize>,
    checkpoint: CheckpointWriter,
    left: Left,
    open: Option<Open>,
    begin: Vec<Statement>,
    commit: Statement,
}

/// The sequences that belong to columns of a table or of its partitions.
const SEQUENCES: &str = "
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
    WHERE c.relkind = 'S' AND d.refobjid IN
      (SELECT $1::regclass::oid UNION SELECT relid::oid FROM pg_partition_tree($1::regclass))";

/// The open transaction.
#[derive(Default)]
struct Open {
    /// Whether the checkpoint row was found as it was left.
    is_verified: bool,
    /// Whether the server knows of it.
    is_started: bool,
    /// Writes so far.
    writes: usize,
}

/// The savepoint around operations that are sent together. It is set and released on the way with them, where that can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Savepoint {
    /// There is none: the transaction holds nothing else.
    None,
    /// It is to be set before the next statement.
    Owed,
    Set,
    Released,
}

impl Savepoint {
    /// Whether it is to be set now.
    fn is_taken(&mut self) -> bool {
        let is_owed = *self == Savepoint::Owed;
        if is_owed {
            *self = Savepoint::Set;
        }
        is_owed
    }

    /// Whether it is to be released now.
    fn is_released(&mut self) -> bool {
        let is_set = *self == Savepoint::Set;
        if is_set {
            *self = Savepoint::Released;
        }
        is_set
    }
}

/// Why operations that were sent together did not go in.
enum Setback {
    /// They must be sent one by one.
    OneByOne,
    /// There is no use in that.
    Failed(Error),
}

impl ApplySession {
    /// Connects and takes on what `request` asks for.
    pub(crate) fn open(config: &Config, request: SessionRequest) -> Result<ApplySession, Error> {
        let failed = |error: WireError| error.during(format!("can't open a session of group {}", request.group));
        let mut connection = Connection::connect(config)?;
        exclusion::take(&mut connection, &request)?;
        let quiet = (request.triggers, request.foreign_keys) == (TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore);
        let is_replica = quiet
            && match connection.run("SET session_replication_role = replica") {
                Ok(_) => true,
                Err(error) if error.class() == ErrorClass::Denied => false,
                Err(error) => return Err(failed(error)),
            };
        if is_replica {
            connection.run(PLANS).map_err(failed)?;
        }
        connection.run(crate::remote::ENTER).map_err(failed)?;
        // A commit that is acknowledged before it is durable would let trails be purged too early.
        connection
            .run("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
            .map_err(failed)?;
        let checkpoint = CheckpointWriter::new(&request.checkpoint_table);
        let left = Left::new(&request);
        Ok(ApplySession {
            connection,
            config: config.clone(),
            request,
            is_replica,
            mark: None,
            kinds: Kinds::default(),
            tables: HashMap::new(),
            targets: Vec::new(),
            numbers: HashMap::new(),
            checkpoint,
            left,
            open: None,
            begin: Vec::new(),
            commit: Statement::new("COMMIT", []),
        })
    }

    fn failed(&self, error: WireError) -> Error {
        error.during(format!("can't apply to {} for group {}", self.config, self.request.group))
    }

    /// Looks a table up and refuses it where the policies can't be followed.
    fn look_up(&mut self, name: &TableName) -> Result<Option<&CatalogTable>, Error> {
        let found = read_tables(&mut self.connection, &mut self.kinds, Scope::Named(name));
        let found = found.map_err(|error| error.during(format!("can't look at table {name}")))?.into_iter().next();
        let Some(table) = found else {
            self.tables.remove(name);
            return Ok(None);
        };
        if !self.is_replica {
            self.check_policy(&table)?;
        }
        self.tables.insert(name.clone(), table);
        Ok(self.tables.get(name))
    }

    fn check_policy(&self, table: &CatalogTable) -> Result<(), Error> {
        let name = &table.definition.name;
        let quiet = (self.request.triggers, self.request.foreign_keys);
        let right = format!("GRANT SET ON PARAMETER session_replication_role TO {}", self.config.user);
        let (obstacle, step) = match (quiet, &table.trigger, &table.reference) {
            ((TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore), Some(trigger), _) => {
                (format!("trigger {trigger}"), right)
            }
            ((TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore), None, Some(reference)) => {
                (format!("foreign key {reference}"), right)
            }
            ((TriggerPolicy::Suppress, ForeignKeyPolicy::Check), Some(trigger), _) => (
                format!("trigger {trigger}"),
                format!("ALTER TABLE {name} DISABLE TRIGGER {trigger}, or let triggers fire"),
            ),
            ((TriggerPolicy::Fire, ForeignKeyPolicy::Ignore), _, Some(reference)) => {
                (format!("foreign key {reference}"), "let foreign keys be checked too".to_owned())
            }
            _ => return Ok(()),
        };
        let what = format!("can't apply to table {name}: {obstacle} would run, against what is asked for");
        Err(Error::new(ErrorClass::Unsupported, what).with_next_step(step))
    }

    /// Number of the prepared form of `plan`.
    fn target(&mut self, plan: &Arc<TablePlan>) -> Result<usize, Error> {
        let address = Arc::as_ptr(plan).addr();
        if let Some(number) = self.numbers.get(&address) {
            return Ok(*number);
        }
        let name = &plan.target.name;
        if !self.tables.contains_key(name) {
            self.look_up(name)?;
        }
        let table = self.tables.get(name).ok_or_else(|| {
            Error::new(ErrorClass::Missing, format!("table {name} is gone")).with_next_step("restart the group")
        })?;
        let table_number = self.targets.iter().find(|target| target.plan.target.name == *name);
        let table_number = table_number.map_or(self.targets.len(), |target| target.table_number);
        let target = Target::new(plan, table, table_number)?;
        self.numbers.insert(address, self.targets.len());
        self.targets.push(target);
        Ok(self.targets.len() - 1)
    }

    fn targets_of(&mut self, writes: &[Write<'_>]) -> Result<Vec<usize>, Error> {
        // Not later: numbers that were handed out must stay good.
        if self.targets.len() >= PLANS_MAX {
            self.targets.clear();
            self.numbers.clear();
        }
        let mut targets = Vec::with_capacity(writes.len());
        let mut last: Option<(&Arc<TablePlan>, usize)> = None;
        for write in writes {
            let number = match last {
                Some((plan, number)) if Arc::ptr_eq(plan, write.plan) => number,
                _ => self.target(write.plan)?,
            };
            last = Some((write.plan, number));
            targets.push(number);
        }
        Ok(targets)
    }

    /// The statements that start a transaction; none when the server knows of it already.
    fn preamble(&self) -> &[Statement] {
        if self.open.as_ref().is_some_and(|open| open.is_started) { &[] } else { &self.begin }
    }

    /// Runs the preamble by itself.
    fn start(&mut self) -> Result<(), Error> {
        let begin = self.preamble().to_vec();
        let mut pipeline = self.connection.pipeline();
        begin.iter().for_each(|statement| pipeline.execute(statement, []));
        let result = pipeline.run();
        result.map_err(|failed| self.failed(failed.error))?;
        self.started();
        Ok(())
    }

    fn started(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_started = true;
        }
    }

    /// Makes sure, before the first statement of a transaction, that the target is as it was left.
    fn verify(&mut self) -> Result<(), Error> {
        if self.require_open()?.is_verified {
            return Ok(());
        }
        self.left.verify(&mut self.connection, &self.request)?;
        if let Some(open) = &mut self.open {
            open.is_verified = true;
        }
        Ok(())
    }

    fn require_open(&self) -> Result<&Open, Error> {
        self.open.as_ref().ok_or_else(|| Error::new(ErrorClass::Permanent, "no transaction is open in this session"))
    }

    /// Sends `writes` by copies and in batches; in a savepoint of their own, if the transaction holds more.
    fn together(&mut self, writes: &[Write<'_>], targets: &[usize], savepoint: &mut Savepoint) -> Result<(), Setback> {
        let mut at = 0;
        while at < writes.len() {
            let run = like_inserts(&writes[at..], &targets[at..]);
            if !is_copied(&writes[at..at + run]) {
                break;
            }
            let shaped = self.targets[targets[at]].shape(writes[at].operation).map_err(Setback::Failed)?;
            if !shaped.joins {
                break;
            }
            let operations = writes[at..at + run].iter().map(|write| write.operation);
            let is_last = at + run == writes.len();
            let copied = self.copy(targets[at], &shaped.form, operations, is_last, savepoint)?;
            at += copied;
            if copied < run {
                // Where forms take turns, batches put those of a kind together.
                break;
            }
        }
        let (writes, targets) = (&writes[at..], &targets[at..]);
        let batches = self.batches(writes, targets).map_err(Setback::Failed)?;
        let mut waiting: &[Batch] = &batches;
        while !waiting.is_empty() {
            let plain = waiting.iter().take_while(|batch| !batch.is_copied()).count();
            let (now, later) = waiting.split_at(plain);
            self.send(now, writes, savepoint)?;
            let Some((copy, later)) = later.split_first() else { break };
            let operations = copy.writes.iter().map(|write| writes[*write].operation);
            self.copy(copy.target, &copy.form, operations, later.is_empty(), savepoint)?;
            waiting = later;
        }
        match savepoint {
            Savepoint::Set => self.connection.run("RELEASE drover_rows").map(drop).map_err(|error| self.setback(error)),
            Savepoint::None | Savepoint::Owed | Savepoint::Released => Ok(()),
        }
    }

    fn batches(&self, writes: &[Write<'_>], targets: &[usize]) -> Result<Vec<Batch>, Error> {
        let mut batches = Batches::default();
        let mut shaped = Shaped::default();
        for (number, (write, target)) in writes.iter().zip(targets).enumerate() {
            self.targets[*target].shape_into(write.operation, &mut shaped)?;
            let table = self.targets[*target].table_number;
            batches.add(number, (table, *target), write.operation.value_bytes(), &shaped);
        }
        Ok(batches.finish())
    }

    /// Sends batches as one pipeline.
    fn send(&mut self, batches: &[Batch], writes: &[Write<'_>], savepoint: &mut Savepoint) -> Result<(), Setback> {
        if batches.is_empty() {
            return Ok(());
        }
        let mut begin = self.preamble().to_vec();
        if savepoint.is_taken() {
            begin.push(Statement::new(SAVEPOINT, []));
        }
        // How many rows each statement must find; an insert's may be sent elsewhere by a rule.
        let mut wanted: Vec<Option<usize>> = vec![None; begin.len()];
        let mut pipeline = self.connection.pipeline();
        begin.iter().for_each(|statement| pipeline.execute(statement, []));
        whole::queue_batches(&mut pipeline, &mut self.targets, batches, writes, false, |kind, rows| {
            wanted.push((kind != OperationKind::Insert).then_some(rows));
        })
        .map_err(Setback::Failed)?;
        let result = pipeline.run();
        match result {
            Ok(counts) => {
                self.started();
                let found =
                    |(count, wanted): (&u64, &Option<usize>)| wanted.is_none_or(|wanted| *count == wanted as u64);
                if counts.iter().zip(&wanted).all(found) { Ok(()) } else { Err(Setback::OneByOne) }
            }
            Err(failed) => Err(self.setback(failed.error)),
        }
    }

    /// Copies inserts of one form in, up to the first one of another form. Returns how many were copied. With the last of a
    /// call the savepoint is released.
    fn copy<'w>(
        &mut self,
        target: usize,
        form: &Form,
        operations: impl Iterator<Item = &'w Operation>,
        is_last: bool,
        savepoint: &mut Savepoint,
    ) -> Result<usize, Setback> {
        if !self.preamble().is_empty() {
            self.start().map_err(Setback::Failed)?;
        }
        let target = &mut self.targets[target];
        let is_binary = target.copies_binary(form);
        let before = *savepoint;
        let statement = target.copy_statement(form);
        let statement = if savepoint.is_taken() { format!("{SAVEPOINT}; {statement}") } else { statement };
        let mut rows = BytesMut::new();
        let mut copied = 0;
        let result = (|| {
            let mut copy = self.connection.copy_in(&statement)?;
            if is_binary {
                rows.extend_from_slice(COPY_HEADER);
            }
            let mut ends = is_last;
            for operation in operations {
                if !target.is_insert_of(form, operation) {
                    ends = false;
                    break;
                }
                copied += 1;
                if !is_binary {
                    target.copy_row(form, operation, &mut rows);
                } else if target.copy_row_binary(form, operation, &mut rows).is_none() {
                    // What was sent is given up with the copy.
                    target.copy_text();
                    if !copy.is_sent() {
                        *savepoint = before;
                    }
                    return Ok(false);
                }
                if rows.len() >= COPY_BYTES {
                    copy.write(&rows)?;
                    rows.clear();
                }
            }
            if is_binary {
                rows.extend_from_slice(COPY_END);
            }
            copy.write(&rows)?;
            let release = (ends && savepoint.is_released()).then_some("RELEASE drover_rows");
            copy.finish_and(release).map(|_| true)
        })();
        match result {
            Ok(true) => Ok(copied),
            Ok(false) => Err(Setback::OneByOne),
            Err(error) => Err(self.setback(error)),
        }
    }

    fn setback(&self, error: WireError) -> Setback {
        match error.class() {
            ErrorClass::Transient | ErrorClass::ConnectionLost | ErrorClass::Full | ErrorClass::Corrupt => {
                Setback::Failed(self.failed(error))
            }
            _ => Setback::OneByOne,
        }
    }

    /// Sends `writes`, none of them a truncation, one by one in their own order. The first of them is number `first` of
    /// the call.
    fn one_by_one(&mut self, writes: &[Write<'_>], targets: &[usize], first: usize) -> Result<(), ApplyError> {
        let begin = self.preamble().to_vec();
        let mut pipeline = self.connection.pipeline();
        begin.iter().for_each(|statement| pipeline.execute(statement, []));
        for (write, target) in writes.iter().zip(targets) {
            let target = &mut self.targets[*target];
            let form = target.shape(write.operation)?.form;
            let values = target.parameters(&form, write.operation)?;
            pipeline.execute(&target.statement(&form), values);
        }
        let result = pipeline.run();
        let (counts, failure) = match result {
            Ok(counts) => {
                self.started();
                (counts, None)
            }
            Err(failed) => (failed.counts, Some(failed.error)),
        };
        let done = counts.iter().skip(begin.len());
        let missing = done.zip(writes).position(|(count, write)| *count == 0 && finds(write.operation));
        if let Some(place) = missing {
            let target = &writes[place].plan.target.name;
            let detail = format!("no row of table {target} has this key");
            return Err(ApplyError::Rejected(Rejection {
                index: first + place,
                outcome: Outcome::Missing,
                detail,
                code: String::new(),
            }));
        }
        match failure {
            None => Ok(()),
            Some(error) => match counts.len().checked_sub(begin.len()) {
                Some(place) if place < writes.len() => {
                    let what = || self.failed_write(&writes[place]);
                    Err(outcome::of(error, first + place, what))
                }
                _ => Err(self.failed(error).into()),
            },
        }
    }

    fn failed_write(&self, write: &Write<'_>) -> String {
        format!("can't {} a row of table {}", write.operation.kind(), write.plan.target.name)
    }

    /// Empties tables with one statement, so that they may refer to each other.
    ///
    /// CASCADE reaches what the source does not have only where foreign keys are checked: it is a foreign key's action,
    /// as that of ON DELETE CASCADE.
    fn truncate(&mut self, targets: &[usize], first: usize, options: TruncateOptions) -> Result<(), ApplyError> {
        if !self.preamble().is_empty() {
            self.start()?;
        }
        let mut names: Vec<&str> = targets.iter().map(|target| self.targets[*target].truncated()).collect();
        names.sort_unstable();
        names.dedup();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let restart = options.restart_identity && !change::sabotage::is_on("keep-identity");
        let identity = if restart { " RESTART IDENTITY" } else { "" };
        let are_checked = self.request.foreign_keys == ForeignKeyPolicy::Check;
        let cascade = if options.cascade && are_checked { " CASCADE" } else { "" };
        let sql = format!("SAVEPOINT drover_truncate; TRUNCATE {}{identity}{cascade}", names.join(", "));
        let result = self.connection.run(&sql);
        let error = match result {
            Ok(_) => {
                return self
                    .connection
                    .run("RELEASE drover_truncate")
                    .map(drop)
                    .map_err(|error| self.failed(error).into());
            }
            Err(error) => error,
        };
        // A table that others refer to can't be truncated, even where foreign keys are not checked.
        if error.code() == Some("0A000") && !are_checked {
            let deletes: String = names.iter().map(|name| format!("DELETE FROM {name};")).collect();
            self.connection
                .run(&format!("ROLLBACK TO drover_truncate; {deletes}"))
                .map_err(|error| self.failed(error))?;
            let tables: Vec<String> =
                targets.iter().map(|target| self.targets[*target].qualified().to_owned()).collect();
            let restarted = if restart { self.restart_identity(&tables) } else { Ok(()) };
            return restarted
                .and_then(|()| self.connection.run("RELEASE drover_truncate").map(drop))
                .map_err(|error| self.failed(error).into());
        }
        Err(outcome::of(error, first, || format!("can't truncate {}", names.join(", "))))
    }

    /// Lets the sequences of these tables' columns start anew, as TRUNCATE would.
    fn restart_identity(&mut self, tables: &[String]) -> Result<(), WireError> {
        let mut sequences = Vec::new();
        for table in tables {
            let rows = self.connection.query(SEQUENCES, &[Some(table)])?;
            for row in rows {
                sequences.push(format!("{}.{}", name::quote(row.required(0)?), name::quote(row.required(1)?)));
            }
        }
        sequences.sort_unstable();
        sequences.dedup();
        let sql: Vec<String> = sequences.iter().map(|sequence| format!("ALTER SEQUENCE {sequence} RESTART")).collect();
        if sql.is_empty() { Ok(()) } else { self.connection.run(&sql.join(";")).map(drop) }
    }

    /// Applies rows between truncations: together, or one by one when that meets an obstacle.
    fn rows(&mut self, writes: &[Write<'_>], targets: &[usize], first: usize) -> Result<(), ApplyError> {
        // Batches change the order of rows of different tables, which triggers and checks could see.
        if !self.is_replica || writes.len() < ARRAY_ROWS_MIN {
            return self.one_by_one(writes, targets, first);
        }
        let is_first = !self.open.as_ref().is_some_and(|open| open.is_started);
        let mut savepoint = if is_first { Savepoint::None } else { Savepoint::Owed };
        match self.together(writes, targets, &mut savepoint) {
            Ok(()) => Ok(()),
            Err(Setback::Failed(error)) => Err(error.into()),
            Err(Setback::OneByOne) => {
                if is_first {
                    if self.connection.is_in_transaction() {
                        self.connection.run("ROLLBACK").map_err(|error| self.failed(error))?;
                    }
                    if let Some(open) = &mut self.open {
                        open.is_started = false;
                    }
                } else if savepoint != Savepoint::Owed {
                    self.connection.run("ROLLBACK TO drover_rows").map_err(|error| self.failed(error))?;
                }
                self.one_by_one(writes, targets, first)
            }
        }
    }
}

/// How many of the first `writes` are inserts by one plan.
fn like_inserts(writes: &[Write<'_>], targets: &[usize]) -> usize {
    let is_like = |(write, target): &(&Write<'_>, &usize)| {
        matches!(write.operation, Operation::Insert { .. }) && **target == targets[0]
    };
    writes.iter().zip(targets).take_while(is_like).count()
}

/// Whether inserts by one plan go by copy.
fn is_copied(writes: &[Write<'_>]) -> bool {
    // The bytes are counted only where they decide.
    writes.len() >= COPY_ROWS_MIN || is_worth_a_copy(0, writes.iter().map(|write| write.operation.value_bytes()).sum())
}

/// Whether so many inserts with so many bytes are worth a copy, which takes round trips of its own and spares the server
/// to hold all rows at once.
fn is_worth_a_copy(rows: usize, bytes: usize) -> bool {
    rows >= COPY_ROWS_MIN || bytes >= COPY_BYTES_MIN
}

/// Whether an operation must find a row.
fn finds(operation: &Operation) -> bool {
    matches!(operation, Operation::Update { .. } | Operation::Delete { .. })
}

impl Session for ApplySession {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error> {
        Ok(self.look_up(name)?.map(|table| table.definition.clone()))
    }

    fn order(&mut self, name: &TableName) -> Result<TableOrder, Error> {
        // Triggers and the actions of foreign keys write what no change tells of.
        if (self.request.triggers, self.request.foreign_keys) != (TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore) {
            return Ok(TableOrder::strict());
        }
        let Some(table) = self.tables.get(name) else { return Ok(TableOrder::strict()) };
        read_order(&mut self.connection, table, self.is_replica)
            .map_err(|error| error.during(format!("can't read the keys of table {name}")))
    }

    fn begin(&mut self) -> Result<(), Error> {
        if self.open.is_some() {
            return Err(Error::new(ErrorClass::Permanent, "a transaction is open already in this session"));
        }
        if self.mark.is_none() {
            let mark = origin::take(&mut self.connection, &self.request.group, self.request.group_key)?;
            // Constraints that may wait do, because the source had them wait: keys that are swapped, circles of references.
            self.begin = vec![Statement::new("BEGIN", []), Statement::new("SET CONSTRAINTS ALL DEFERRED", [])];
            self.begin.extend(mark.statement(&self.request.group));
            self.mark = Some(mark);
        }
        self.open = Some(Open::default());
        Ok(())
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        self.require_open()?;
        if writes.is_empty() {
            return Ok(());
        }
        self.verify()?;
        let targets = self.targets_of(writes)?;
        let mut at = 0;
        while at < writes.len() {
            let truncation = |write: &Write<'_>| match write.operation {
                Operation::Truncate(options) => Some(*options),
                _ => None,
            };
            let kind = truncation(&writes[at]);
            let end = writes[at..].iter().position(|write| truncation(write) != kind).map_or(writes.len(), |n| at + n);
            match kind {
                Some(options) => self.truncate(&targets[at..end], at, options)?,
                None => self.rows(&writes[at..end], &targets[at..end], at)?,
            }
            at = end;
        }
        if let Some(open) = &mut self.open {
            open.writes += writes.len();
        }
        Ok(())
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        self.verify()?;
        if !self.preamble().is_empty() {
            self.start()?;
        }
        self.connection.run("SAVEPOINT drover_attempt").map_err(|error| self.failed(error))?;
        match self.apply(std::slice::from_ref(write)) {
            Ok(()) => {
                let released = self.connection.run("RELEASE drover_attempt");
                released.map(drop).map_err(|error| self.failed(error).into())
            }
            Err(ApplyError::Rejected(rejection)) => {
                let back = self.connection.run("ROLLBACK TO drover_attempt; RELEASE drover_attempt");
                back.map_err(|error| self.failed(error))?;
                Err(ApplyError::Rejected(rejection))
            }
            failed => failed,
        }
    }

    fn define(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        self.require_open()?;
        self.define_in_transaction(definition)
    }

    fn runs_alone(&self, statement: &DefinitionStatement) -> bool {
        crate::definition::form(statement, None).is_ok_and(|form| form.is_alone)
    }

    fn define_alone(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        self.define_outside(definition)
    }

    fn settle_definition(&mut self) -> Result<(), Error> {
        self.settle_note()
    }

    fn forget_tables(&mut self) {
        self.forget_known_tables();
    }

    fn advance_sequence(&mut self, sequence: &SequenceState, target: &TableName) -> Result<(), Error> {
        self.advance(sequence, target)
    }

    fn find(&mut self, plan: &Arc<TablePlan>, image: &Row) -> Result<Option<Row>, Error> {
        self.verify()?;
        if !self.preamble().is_empty() {
            self.start()?;
        }
        let number = self.target(plan)?;
        let (sql, key) = self.targets[number].lookup(image);
        let key = key.iter().map(Option::as_deref).collect::<Vec<_>>();
        let found = self.connection.query_one(&sql, &key);
        let what = || format!("can't read a row of table {}", plan.target.name);
        let found = found.map_err(|error| error.during(what()))?;
        Ok(found.map(|found| self.targets[number].found(&found)))
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        let table = self.request.checkpoint_table.clone();
        let rows = checkpoint::rows(&mut self.connection, &table, Some(&self.request.group))
            .map_err(|error| error.during(format!("can't read checkpoint table {table}")))?;
        let row = rows.into_iter().find(|row| row.group_key == self.request.group_key);
        self.left.read(row.as_ref());
        Ok(row)
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        let SessionRequest { group, group_key, checkpoint_table: table, .. } = &self.request;
        let set = checkpoint::load_set(&mut self.connection, table, group, *group_key)
            .map_err(|error| error.during(format!("can't read checkpoint table {table}")))?;
        self.left.read(set.as_ref().map(|set| &set.group));
        Ok(set)
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.verify()?;
        if !self.preamble().is_empty() {
            self.start()?;
        }
        let table = &self.request.checkpoint_table;
        match self.checkpoint.replace(&mut self.connection, set) {
            Ok(true) => {
                self.left.saved(&set.group);
                Ok(())
            }
            Ok(false) => Err(checkpoint::no_row(table, &set.group.group_name)),
            Err(error) => Err(checkpoint::failed_replace(table, error)),
        }
    }

    fn error_queue(&mut self) -> Result<Option<ErrorQueueTables>, Error> {
        error_queue::find(&mut self.connection, &mut self.kinds)
    }

    fn own_rows(&mut self, query: &OwnRows<'_>) -> Result<Vec<Row>, Error> {
        if self.open.is_some() && !self.preamble().is_empty() {
            self.start()?;
        }
        error_queue::rows(&mut self.connection, query)
    }

    fn mend(&mut self, statements: &[String]) -> Result<(), Error> {
        if !self.preamble().is_empty() {
            self.start()?;
        }
        for some in statements.chunks(MENDED_AT_ONCE) {
            self.connection.run(&some.join("\n")).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn notify(&mut self, payload: &str) -> Result<(), Error> {
        if !self.preamble().is_empty() {
            self.start()?;
        }
        error_queue::notify(&mut self.connection, payload).map_err(|error| self.failed(error))
    }

    fn load_copies(&mut self) -> Result<Vec<CopyRow>, Error> {
        let SessionRequest { group, group_key, checkpoint_table, .. } = &self.request;
        let (group, checkpoint_table) = (group.clone(), checkpoint_table.clone());
        let request = CopyRequest { group, group_key: *group_key, checkpoint_table };
        crate::snapshot::load(&mut self.connection, &request)
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        self.verify()?;
        let table = self.request.checkpoint_table.clone();
        let failed = |error: WireError| error.during(format!("can't write to checkpoint table {table}"));
        let is_there = if change::sabotage::is_on("checkpoint-in-another-transaction") {
            let mut other = Connection::connect(&self.config)?;
            self.checkpoint.save(&mut other, row).map_err(failed)?
        } else {
            if !self.preamble().is_empty() {
                self.start()?;
            }
            self.checkpoint.save(&mut self.connection, row).map_err(failed)?
        };
        if is_there {
            self.left.saved(row);
            return Ok(());
        }
        Err(checkpoint::no_row(&table, &row.group_name))
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        let Open { is_started, writes, .. } = *self.require_open()?;
        if !is_started {
            self.open = None;
            return Ok(());
        }
        if self.connection.is_transaction_failed() {
            return Err(Error::new(ErrorClass::Permanent, "the transaction has failed and can't be committed").into());
        }
        let mut pipeline = self.connection.pipeline();
        pipeline.execute(&self.commit, []);
        let result = pipeline.run();
        self.open = None;
        if result.is_ok() {
            self.left.committed();
        }
        result.map(drop).map_err(|failed| {
            self.checkpoint.rolled_back();
            self.left.rolled_back();
            let what = || format!("can't commit to {} for group {}", self.config, self.request.group);
            outcome::of(failed.error, writes, what)
        })
    }

    fn commit_with(&mut self, writes: &[Write<'_>], row: &CheckpointRow) -> Result<(), CommitFailure> {
        self.hand_over(writes, row)
    }

    fn rollback(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.checkpoint.rolled_back();
        self.left.rolled_back();
        // A call that failed may have started the transaction without saying so.
        if open.is_started || self.connection.is_in_transaction() {
            self.connection.run("ROLLBACK").map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}
