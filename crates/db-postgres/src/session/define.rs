//! Statements that define objects, and sequences, at the target.

use super::{ApplySession, outcome};
use crate::catalog::OUR_COMMENT;
use crate::definition::{Form, form};
use crate::name;
use crate::wire::Error as WireError;
use change::{DefinitionStatement, FilledColumn, SequenceState, TableName};
use database::{ApplyError, DefinitionWrite, Error, ErrorClass, Outcome, Rejection, Session};

/// The value that rows have which were there before a column was added, and the column's type.
const FILLED: &str = "SELECT (a.attmissingval::text::text[])[1], format_type(a.atttypid, a.atttypmod) FROM pg_attribute a \
    WHERE a.attrelid = to_regclass($1) AND a.attname = $2 AND NOT a.attisdropped";

/// Whether an index is there, and whether it is whole.
const INDEX: &str = "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2";

/// The table of notes that belongs to a checkpoint table.
pub(crate) fn note_table(table: &TableName) -> TableName {
    TableName::new(&*table.schema, format!("{}_ddl", table.table))
}

fn rejection(detail: impl Into<String>, code: &str) -> ApplyError {
    ApplyError::Rejected(Rejection {
        index: 0,
        outcome: Outcome::Constraint,
        detail: detail.into(),
        code: code.to_owned(),
    })
}

/// What the server's refusal of a statement means: one that may pass is a failure, any other is told with its code.
fn refused(error: WireError, statement: &DefinitionStatement) -> ApplyError {
    let what = || format!("can't run {}", statement.title());
    match error.server() {
        Some(server)
            if matches!(
                server.class(),
                ErrorClass::Permanent | ErrorClass::Missing | ErrorClass::Denied | ErrorClass::Unsupported
            ) =>
        {
            let (detail, code) = (server.to_string(), server.code().to_owned());
            rejection(detail, &code)
        }
        _ => outcome::of(error, 0, what),
    }
}

impl ApplySession {
    /// See [`Session::define`].
    pub(super) fn define_in_transaction(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        let form = form_of(definition)?;
        self.verify()?;
        if !self.preamble().is_empty() {
            self.start()?;
        }
        self.connection.run("SAVEPOINT drover_define").map_err(|error| self.failed(error))?;
        let ran = self.run_and_fill(&form, definition);
        self.forget_known_tables();
        match ran {
            Ok(()) => {
                let released = self.connection.run("RELEASE drover_define");
                released.map(drop).map_err(|error| self.failed(error).into())
            }
            Err(error) => {
                let refused = refused(error, definition.statement);
                if matches!(refused, ApplyError::Rejected(_)) {
                    let back = self.connection.run("ROLLBACK TO drover_define; RELEASE drover_define");
                    back.map_err(|error| self.failed(error))?;
                }
                Err(refused)
            }
        }
    }

    fn run_and_fill(&mut self, form: &Form, definition: &DefinitionWrite<'_>) -> Result<(), WireError> {
        let statement = definition.statement;
        // Constraints that wait for the commit would keep ALTER TABLE from its table.
        self.connection.run("SET CONSTRAINTS ALL IMMEDIATE")?;
        self.in_path(statement, |session| session.connection.query(&form.text, &[]).map(drop))?;
        self.connection.run("SET CONSTRAINTS ALL DEFERRED")?;
        let own = TableName::new(&*statement.owner, &*statement.object);
        let table = definition.target.unwrap_or(&own);
        statement.filled.iter().try_for_each(|filled| self.fill(table, filled))
    }

    /// Runs something with the search path of the statement, and goes back to ours.
    fn in_path(
        &mut self,
        statement: &DefinitionStatement,
        run: impl FnOnce(&mut ApplySession) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if statement.search_path.is_empty() {
            return run(self);
        }
        let set = "SELECT set_config('search_path', $1, false)";
        self.connection.query(set, &[Some(&statement.search_path)])?;
        let ran = run(self);
        // After a refusal the savepoint puts it back.
        if ran.is_ok() {
            self.connection.run("SET search_path = 'pg_catalog'")?;
        }
        ran
    }

    /// Gives the rows that were there before the column the value that the source gave them, unless they have it.
    fn fill(&mut self, table: &TableName, filled: &FilledColumn) -> Result<(), WireError> {
        let qualified = name::table(table);
        let row = self.connection.query_one(FILLED, &[Some(&qualified), Some(&filled.column)])?;
        let Some(row) = row else { return Ok(()) };
        if row.text(0) == Some(filled.value.as_str()) {
            return Ok(());
        }
        let kind = row.required(1)?.to_owned();
        let column = name::quote(&filled.column);
        let sql = format!("UPDATE {qualified} SET {column} = $1::{kind}");
        self.connection.query(&sql, &[Some(&filled.value)]).map(drop)
    }

    /// See [`Session::forget_tables`].
    pub(super) fn forget_known_tables(&mut self) {
        self.kinds = crate::catalog::Kinds::default();
        self.tables.clear();
        self.targets.clear();
        self.numbers.clear();
    }

    /// See [`Session::define_alone`].
    pub(super) fn define_outside(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        let statement = definition.statement;
        let form = form_of(definition)?;
        if self.mark.is_none() {
            // The origin marks what is committed without a transaction of ours, too.
            self.begin()?;
            self.rollback()?;
        }
        let is_noted = self.note(definition)?;
        let index =
            TableName::new(definition.target.map_or(&*statement.owner, |target| &*target.schema), &*statement.object);
        let wants_it = statement.verb == "CREATE";
        if is_noted && !change::sabotage::is_on("repeat-noted-statement") {
            let there = self.index_state(&index)?;
            match (wants_it, there) {
                (true, Some(true)) | (false, None) => return Ok(()),
                (true, Some(false)) => self.drop_index(&index)?,
                _ => {}
            }
        }
        let path = &statement.search_path;
        if !path.is_empty() {
            let set = "SELECT set_config('search_path', $1, false)";
            self.connection.query(set, &[Some(path)]).map_err(|error| self.failed(error))?;
        }
        let ran = self.connection.query(&form.text, &[]).map(drop);
        self.forget_known_tables();
        let Err(error) = ran else {
            return self
                .connection
                .run("SET search_path = 'pg_catalog'")
                .map(drop)
                .map_err(|error| self.failed(error).into());
        };
        let refused = refused(error, statement);
        if matches!(refused, ApplyError::Rejected(_)) {
            self.connection.run("SET search_path = 'pg_catalog'").map_err(|error| self.failed(error))?;
            // A failure leaves an index behind that is good for nothing; one that was there before is whole.
            if wants_it && self.index_state(&index)? == Some(false) {
                self.drop_index(&index)?;
            }
        }
        Err(refused)
    }

    fn index_state(&mut self, index: &TableName) -> Result<Option<bool>, Error> {
        let row = self.connection.query_one(INDEX, &[Some(&index.schema), Some(&index.table)]);
        Ok(row.map_err(|error| self.failed(error))?.map(|row| row.flag(0)))
    }

    fn drop_index(&mut self, index: &TableName) -> Result<(), Error> {
        let sql = format!("DROP INDEX CONCURRENTLY IF EXISTS {}", name::table(index));
        self.connection.run(&sql).map(drop).map_err(|error| self.failed(error))
    }

    /// Notes durably which statement is about to run; returns whether it was noted before.
    fn note(&mut self, definition: &DefinitionWrite<'_>) -> Result<bool, Error> {
        let table = note_table(&self.request.checkpoint_table);
        let quoted = name::table(&table);
        let (group, key) = (self.request.group.clone(), self.request.group_key.to_string());
        let failed =
            |error: WireError| error.during(format!("can't write to table {table} of statements that run alone"));
        let exists =
            self.connection.query_one("SELECT to_regclass($1) IS NOT NULL", &[Some(&quoted)]).map_err(failed)?;
        if !exists.is_some_and(|row| row.flag(0)) {
            let sql = format!(
                "BEGIN; CREATE TABLE IF NOT EXISTS {quoted} (group_name text NOT NULL, group_key bigint NOT NULL, csn text NOT NULL, \
                 transaction text NOT NULL, statement text NOT NULL, PRIMARY KEY (group_name, group_key)); \
                 COMMENT ON TABLE {quoted} IS '{OUR_COMMENT}table of statements that run alone'; COMMIT"
            );
            let made = self.connection.run(&sql);
            if made.is_err() && self.connection.is_in_transaction() {
                self.connection.run("ROLLBACK").map_err(failed)?;
            }
            made.map_err(failed)?;
        }
        let (csn, transaction) = (definition.csn.as_str(), definition.transaction.as_str());
        // Another applier of the group may have noted it.
        let find = format!(
            "UPDATE {quoted} SET group_key = $2::bigint WHERE group_name = $1 AND csn = $3 AND transaction = $4 RETURNING true"
        );
        let known = [Some(group.as_str()), Some(&key), Some(csn), Some(transaction)];
        if self.connection.query_one(&find, &known).map_err(failed)?.is_some() {
            return Ok(true);
        }
        let sql = format!(
            "INSERT INTO {quoted} VALUES ($1, $2::bigint, $3, $4, $5) ON CONFLICT (group_name, group_key) \
             DO UPDATE SET csn = excluded.csn, transaction = excluded.transaction, statement = excluded.statement"
        );
        let text = definition.statement.title();
        let values = [Some(group.as_str()), Some(&key), Some(csn), Some(transaction), Some(&*text)];
        self.connection.query(&sql, &values).map(|_| false).map_err(failed)
    }

    /// See [`Session::settle_definition`].
    pub(super) fn settle_note(&mut self) -> Result<(), Error> {
        self.verify()?;
        if !self.preamble().is_empty() {
            self.start()?;
        }
        let table = note_table(&self.request.checkpoint_table);
        let sql = format!("DELETE FROM {} WHERE group_name = $1 AND group_key = $2::bigint", name::table(&table));
        let (group, key) = (self.request.group.clone(), self.request.group_key.to_string());
        self.connection.query(&sql, &[Some(&group), Some(&key)]).map(drop).map_err(|error| self.failed(error))
    }

    /// See [`Session::advance_sequence`].
    pub(super) fn advance(&mut self, sequence: &SequenceState, target: &TableName) -> Result<(), Error> {
        let failed = |error: WireError| error.during(format!("can't move sequence {target} forward"));
        let quoted = name::table(target);
        let row = self.connection.query_one(
            "SELECT s.seqincrement > 0, s.seqcycle FROM pg_sequence s WHERE s.seqrelid = to_regclass($1)",
            &[Some(&quoted)],
        );
        let Some(row) = row.map_err(failed)? else {
            let what = format!("the target has no sequence {target}, to which {} is mapped", sequence.name);
            return Err(Error::new(ErrorClass::Missing, what).with_next_step(format!(
                "create it, or take {} out of the Extract's SEQUENCE statement or out with MAPEXCLUDE",
                sequence.name
            )));
        };
        let behind = match (row.flag(1), row.flag(0)) {
            (true, _) => "true",
            (false, true) => "(last_value, is_called) < ($2::bigint, $3::boolean)",
            (false, false) => "(-last_value, is_called) < (-$2::bigint, $3::boolean)",
        };
        let sql = format!("SELECT setval($1::regclass, $2::bigint, $3::boolean) FROM {quoted} WHERE {behind}");
        let (value, is_called) = (sequence.value.to_string(), if sequence.is_called { "true" } else { "false" });
        self.connection.query(&sql, &[Some(&quoted), Some(&value), Some(is_called)]).map(drop).map_err(failed)
    }
}

fn form_of(definition: &DefinitionWrite<'_>) -> Result<Form, ApplyError> {
    form(definition.statement, definition.target).map_err(|reason| rejection(reason, ""))
}
