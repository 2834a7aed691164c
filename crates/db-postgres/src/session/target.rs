//! A plan with everything that its statements need, and the statements.

use super::element::Element;
use super::encode;
use super::whole::must_find;
use crate::catalog::{CatalogColumn, CatalogTable};
use crate::name;
use crate::wire::{Parameter, Statement, TextRow};
use bytes::{BufMut, BytesMut};
use change::{Generation, LogicalType, Operation, OperationKind, Row, RowBuilder, Value};
use database::{ColumnPair, Error, ErrorClass, OnDuplicate, TablePlan};
use std::collections::HashMap;
use std::sync::Arc;

/// A target column in statements.
struct TargetColumn {
    source: usize,
    name: String,
    logical: LogicalType,
    cast: String,
    equality: Option<String>,
    /// Whether values that the key finds equal also read the same.
    is_exact: bool,
    is_bytea: bool,
    /// How its values are sent in arrays.
    element: Element,
    /// How its values are sent in a binary copy, where it may have one.
    copied: Option<Element>,
    is_identity: bool,
    /// Place in the plan's key.
    key: Option<usize>,
}

impl TargetColumn {
    fn value<'r>(&self, row: &'r Row) -> Option<&'r [u8]> {
        encode::plain(row.value(self.source), self.logical)
    }

    /// How values are sent in the arrays of `form`. Without an operator, texts are compared.
    fn element(&self, form: &Form, is_found_by: bool) -> Element {
        if form.is_text || (is_found_by && self.equality.is_none()) { self.element.as_text() } else { self.element }
    }

    /// Whether row values equal `$number`; `is_cast` says that the parameter is text and must be cast.
    fn equals(&self, left: &str, right: &str, is_cast: bool) -> String {
        match &self.equality {
            Some(operator) if is_cast => format!("{left} {operator} {right}::{}", self.cast),
            Some(operator) => format!("{left} {operator} {right}"),
            None => format!("{left}::text = {right}"),
        }
    }
}

/// A plan, prepared for a session.
pub(super) struct Target {
    /// Keeps the plan's address from being used for another one.
    pub(super) plan: Arc<TablePlan>,
    /// The same for all plans of one table.
    pub(super) table_number: usize,
    table: String,
    /// With ONLY, where that keeps children by inheritance out.
    only: String,
    columns: Vec<TargetColumn>,
    key: Vec<TargetColumn>,
    /// Whether the key finds at most one row.
    key_is_unique: bool,
    statements: HashMap<Form, Statement>,
    /// Whether copies hold texts, because a value was not in the notation that its type's binary form needs.
    copies_text: bool,
}

/// What tells statements of one target apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) kind: OperationKind,
    pub(super) is_array: bool,
    /// Whether the arrays hold texts, because a value is not in the notation that its type's binary form needs.
    pub(super) is_text: bool,
    /// Whether the statement fails when it does not find what it must find: one row, or as many as its arrays are long.
    pub(super) must_find: bool,
    /// Columns that are written, as indexes into the plan's columns.
    pub(super) columns: Vec<u16>,
    /// Columns of the key that are NULL.
    pub(super) nulls: Vec<u16>,
    /// Columns whose old values tell rows apart that have the same key, as indexes into the plan's columns. For a key that
    /// is not unique these are the columns outside of it, and those of it whose values may be equal and yet read
    /// differently. Among rows with this key, the one that is most like the old row is meant.
    pub(super) alike: Vec<u16>,
}

/// What one operation is, before it becomes a statement.
#[derive(Debug)]
pub(super) struct Shaped {
    pub(super) form: Form,
    /// Whether it may be sent together with others.
    pub(super) joins: bool,
    /// Bytes that tell keys apart; empty for inserts.
    pub(super) key: Vec<u8>,
}

impl Default for Shaped {
    fn default() -> Shaped {
        let (columns, nulls, alike) = (Vec::new(), Vec::new(), Vec::new());
        let kind = OperationKind::Insert;
        let form = Form { kind, is_array: false, is_text: false, must_find: false, columns, nulls, alike };
        Shaped { form, joins: false, key: Vec::new() }
    }
}

impl Shaped {
    /// Becomes that of an operation of `kind` of which nothing is known yet.
    fn clear(&mut self, kind: OperationKind) {
        let Form { columns, nulls, alike, .. } = &mut self.form;
        [columns, nulls, alike].into_iter().for_each(Vec::clear);
        self.form.kind = kind;
        self.joins = false;
        self.key.clear();
    }
}

impl Target {
    pub(super) fn new(plan: &Arc<TablePlan>, table: &CatalogTable, table_number: usize) -> Result<Target, Error> {
        let column = |pair: &ColumnPair, key: Option<usize>| {
            let column = &plan.target.columns[pair.target];
            let known = table.definition.column(&column.name).map(|place| &table.columns[place]);
            let Some(CatalogColumn { kind, is_exact }) = known else {
                let what = format!("column {} of table {} is gone", column.name, plan.target.name);
                return Err(Error::new(ErrorClass::Missing, what).with_next_step("restart the group after the change"));
            };
            Ok(TargetColumn {
                source: pair.source,
                name: name::quote(&column.name),
                logical: plan.source.columns[pair.source].logical,
                cast: kind.cast.clone(),
                equality: kind.equality.clone(),
                is_exact: *is_exact || kind.equality.is_none(),
                is_bytea: kind.base == 17,
                element: Element::of(kind.base),
                copied: Element::in_copy(kind.base),
                is_identity: column.generation == Generation::IdentityAlways,
                key,
            })
        };
        let place = |pair: &ColumnPair| plan.key.iter().position(|key| key.target == pair.target);
        let columns = plan.columns.iter().map(|pair| column(pair, place(pair))).collect::<Result<_, _>>()?;
        // Without a key, a row is found by all that was told of it.
        let by = if plan.key.is_empty() { &plan.columns } else { &plan.key };
        let key = by.iter().enumerate().map(|(at, pair)| column(pair, Some(at))).collect::<Result<_, _>>()?;
        let names = |columns: &[usize]| {
            columns.iter().all(|column| {
                let name = &table.definition.columns[*column].name;
                plan.key.iter().any(|pair| plan.target.columns[pair.target].name == *name)
            })
        };
        let qualified = name::table(&plan.target.name);
        Ok(Target {
            plan: Arc::clone(plan),
            table_number,
            only: if table.is_partitioned { qualified.clone() } else { format!("ONLY {qualified}") },
            table: qualified,
            columns,
            key,
            key_is_unique: table.unique.iter().any(|columns| !columns.is_empty() && names(columns)),
            statements: HashMap::new(),
            copies_text: false,
        })
    }

    /// The table's name where TRUNCATE wants it.
    pub(super) fn truncated(&self) -> &str {
        &self.only
    }

    /// The table's name without ONLY.
    pub(super) fn qualified(&self) -> &str {
        &self.table
    }

    /// The row that holds the values of the key, and for a key column that it does not tell, another one that does.
    fn key_row<'w>(&self, operation: &'w Operation, column: &TargetColumn) -> Result<&'w Row, Error> {
        let (first, second) = match operation {
            Operation::Update { old, new } => (old.as_ref(), Some(new)),
            Operation::Delete { old } => (Some(old), None),
            Operation::Insert { .. } | Operation::Truncate(_) => (None, None),
        };
        let told = [first, second].into_iter().flatten().find(|row| row.value(column.source).is_present());
        told.ok_or_else(|| {
            let what = format!(
                "can't find rows of table {}: the change does not tell column {} of the key",
                self.plan.target.name, column.name
            );
            Error::new(ErrorClass::Unsupported, what)
                .with_next_step("let the source log the columns of KEYCOLS, for PostgreSQL by REPLICA IDENTITY FULL")
        })
    }

    /// Says what kind of statement an operation needs.
    pub(super) fn shape(&self, operation: &Operation) -> Result<Shaped, Error> {
        let mut shaped = Shaped::default();
        self.shape_into(operation, &mut shaped)?;
        Ok(shaped)
    }

    /// The same, in the place of what `shaped` was: one is enough for any number of operations.
    pub(super) fn shape_into(&self, operation: &Operation, shaped: &mut Shaped) -> Result<(), Error> {
        let number = |place: usize| u16::try_from(place).expect("a table has few columns");
        shaped.clear(operation.kind());
        let Shaped { form, joins, key } = shaped;
        let mut moves = false;
        if matches!(operation, Operation::Update { .. } | Operation::Delete { .. }) {
            for (place, column) in self.key.iter().enumerate() {
                match column.value(self.key_row(operation, column)?) {
                    None => form.nulls.push(number(place)),
                    Some(bytes) => {
                        key.extend_from_slice(&bytes.len().to_le_bytes());
                        key.extend_from_slice(bytes);
                    }
                }
            }
        }
        if let Operation::Update { old: Some(old), .. } | Operation::Delete { old } = operation
            && !self.key_is_unique
        {
            let told = |column: &TargetColumn| {
                (column.key.is_none() || !column.is_exact) && old.value(column.source).is_present()
            };
            let told = self.columns.iter().enumerate().filter(|(_, column)| told(column));
            form.alike.extend(told.map(|(place, _)| number(place)));
        }
        match operation {
            Operation::Insert { new } => {
                let told = |column: &TargetColumn| new.value(column.source).is_present();
                let told = self.columns.iter().enumerate().filter(|(_, column)| told(column));
                form.columns.extend(told.map(|(place, _)| number(place)));
            }
            Operation::Update { old, new } => {
                for (place, column) in self.columns.iter().enumerate() {
                    let value = new.value(column.source);
                    // A key column that keeps its value need not be written, and identity columns could not be.
                    let before = old.as_ref().map(|old| old.value(column.source));
                    let kept = match (column.key.is_some() || column.is_identity, before) {
                        (false, _) => false,
                        (true, None) => true,
                        (true, Some(before)) => before == value || before == Value::Unchanged,
                    };
                    if !value.is_present() || kept {
                        continue;
                    }
                    if column.is_identity {
                        let what = format!(
                            "can't change column {} of table {}: the target makes its values (GENERATED ALWAYS)",
                            column.name, self.plan.target.name
                        );
                        return Err(Error::new(ErrorClass::Unsupported, what)
                            .with_next_step("ALTER the target's column to GENERATED BY DEFAULT AS IDENTITY"));
                    }
                    moves |= column.key.is_some();
                    form.columns.push(number(place));
                }
            }
            Operation::Delete { .. } | Operation::Truncate(_) => {}
        }
        *joins = match form.kind {
            // A statement may replace a row only once.
            OperationKind::Insert => !form.columns.is_empty() && self.plan.on_duplicate == OnDuplicate::Refuse,
            OperationKind::Update => self.key_is_unique && form.nulls.is_empty() && !moves && !form.columns.is_empty(),
            OperationKind::Delete => self.key_is_unique && form.nulls.is_empty(),
            OperationKind::Truncate => false,
        };
        Ok(())
    }

    /// The statement that reads and locks the row with the key of `image`, and its parameters as text.
    pub(super) fn lookup(&self, image: &Row) -> (String, Vec<Option<String>>) {
        let mut key = Vec::new();
        let mut wanted = Vec::new();
        for column in &self.key {
            let left = format!("t.{}", column.name);
            match column.value(image) {
                None => wanted.push(format!("{left} IS NULL")),
                Some(bytes) => {
                    key.push(Some(if column.is_bytea {
                        bytes.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
                    } else {
                        String::from_utf8_lossy(bytes).into_owned()
                    }));
                    wanted.push(column.equals(&left, &format!("${}", key.len()), false));
                }
            }
        }
        let wanted = if wanted.is_empty() { "true".to_owned() } else { wanted.join(" AND ") };
        // Without a cast: `true::text`, that of a padded text and that of an address are not what the stream has.
        let names = self.columns.iter().map(|column| format!("t.{}", column.name)).collect::<Vec<_>>().join(", ");
        (format!("SELECT {names} FROM {} AS t WHERE {wanted} LIMIT 1 FOR UPDATE", self.only), key)
    }

    /// What [`lookup`](Target::lookup) gave, in the shape and notation of the plan's source.
    pub(super) fn found(&self, row: &TextRow) -> Row {
        let mut builder = RowBuilder::new();
        for source in 0..self.plan.source.columns.len() {
            let Some(place) = self.columns.iter().position(|column| column.source == source) else {
                builder.push(Value::Unchanged);
                continue;
            };
            let (column, pair) = (&self.columns[place], self.plan.columns[place]);
            let Some(text) = row.bytes(place) else {
                builder.push(Value::Null);
                continue;
            };
            let kind = self.plan.target.columns[pair.target].logical;
            builder.push_with(|buffer| {
                if column.logical == LogicalType::Dynamic {
                    buffer.extend_from_slice(match kind {
                        LogicalType::Integer | LogicalType::Boolean => b"i",
                        LogicalType::Float | LogicalType::Decimal => b"r",
                        LogicalType::Binary => b"b",
                        _ => b"t",
                    });
                }
                if column.is_bytea {
                    let digits = text.strip_prefix(b"\\x").unwrap_or(text);
                    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
                    buffer.extend(digits.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])));
                } else if column.logical == LogicalType::Dynamic && kind == LogicalType::Boolean {
                    buffer.extend_from_slice(if text == b"t" { b"1" } else { b"0" });
                } else {
                    buffer.extend_from_slice(text);
                }
            });
        }
        builder.finish()
    }

    /// The statement of a form; parameters are the written columns, then the columns of the key that are not NULL, then
    /// those that make rows alike.
    pub(super) fn statement(&mut self, form: &Form) -> Statement {
        if let Some(statement) = self.statements.get(form) {
            return statement.clone();
        }
        let statement = if form.is_array { self.array_statement(form) } else { self.single_statement(form) };
        self.statements.insert(form.clone(), statement.clone());
        statement
    }

    fn written<'a>(&'a self, form: &'a Form) -> impl Iterator<Item = &'a TargetColumn> + Clone {
        form.columns.iter().map(|place| &self.columns[usize::from(*place)])
    }

    fn found_by<'a>(&'a self, form: &'a Form) -> impl Iterator<Item = &'a TargetColumn> + Clone {
        let wanted = form.kind != OperationKind::Insert;
        let key = self.key.iter().enumerate();
        key.filter(move |(place, _)| wanted && !form.nulls.iter().any(|null| usize::from(*null) == *place))
            .map(|(_, column)| column)
    }

    fn insert_head(&self, form: &Form) -> String {
        let names = self.written(form).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let overriding =
            if self.written(form).any(|column| column.is_identity) { " OVERRIDING SYSTEM VALUE" } else { "" };
        format!("INSERT INTO {} ({names}){overriding}", self.table)
    }

    /// What an insert says of a row that has the same key.
    fn replacement(&self, form: &Form) -> String {
        let key = self.key.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let rest = self.written(form).filter(|column| column.key.is_none());
        let set: Vec<String> = rest.map(|column| format!("{0} = excluded.{0}", column.name)).collect();
        let action = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        format!(" ON CONFLICT ({key}) DO {action}")
    }

    fn single_statement(&self, form: &Form) -> Statement {
        let mut number = 0;
        let mut next = || {
            number += 1;
            format!("${number}")
        };
        if form.kind == OperationKind::Insert {
            if form.columns.is_empty() {
                return Statement::new(format!("INSERT INTO {} DEFAULT VALUES", self.table), []);
            }
            let values = self.written(form).map(|_| next()).collect::<Vec<_>>().join(", ");
            let replace = match self.plan.on_duplicate {
                OnDuplicate::Refuse => String::new(),
                OnDuplicate::Replace => self.replacement(form),
            };
            return Statement::new(format!("{} VALUES ({values}){replace}", self.insert_head(form)), []);
        }
        let set =
            self.written(form).map(|column| format!("{} = {}", column.name, next())).collect::<Vec<_>>().join(", ");
        let is_null = |place: usize| form.nulls.iter().any(|null| usize::from(*null) == place);
        let wanted = self
            .key
            .iter()
            .enumerate()
            .map(|(place, column)| {
                let left = format!("t.{}", column.name);
                if is_null(place) { format!("{left} IS NULL") } else { column.equals(&left, &next(), false) }
            })
            .collect::<Vec<_>>()
            .join(" AND ");
        let wanted = if wanted.is_empty() { "true".to_owned() } else { wanted };
        let only = &self.only;
        let alike = form.alike.iter().map(|place| {
            let (column, number) = (&self.columns[usize::from(*place)], next());
            let text = if column.is_bytea { "" } else { "::text COLLATE \"C\"" };
            format!("(t.{}{text} IS NOT DISTINCT FROM {number})::int", column.name)
        });
        let alike = alike.collect::<Vec<_>>().join(" + ");
        let order = if alike.is_empty() { String::new() } else { format!(" ORDER BY {alike} DESC") };
        let found =
            format!("SELECT t.tableoid AS o, t.ctid AS c FROM {only} AS t WHERE {wanted}{order} LIMIT 1 FOR UPDATE");
        let is_one = self.key_is_unique && form.nulls.is_empty();
        let sql = match (form.kind, is_one) {
            // Nothing is to be written, but the row must be there.
            (OperationKind::Update, _) if set.is_empty() => found,
            (OperationKind::Update, true) => format!("UPDATE {only} AS t SET {set} WHERE {wanted}"),
            (OperationKind::Update, false) => {
                format!("UPDATE {only} AS t SET {set} FROM ({found}) AS d WHERE t.ctid = d.c AND t.tableoid = d.o")
            }
            (_, true) => format!("DELETE FROM {only} AS t WHERE {wanted}"),
            (_, false) => {
                format!("DELETE FROM {only} AS t USING ({found}) AS d WHERE t.ctid = d.c AND t.tableoid = d.o")
            }
        };
        Statement::new(if form.must_find { must_find(&sql, None) } else { sql }, [])
    }

    fn array_statement(&self, form: &Form) -> Statement {
        let written = self.written(form).map(|column| (column, column.element(form, false)));
        let found_by = self.found_by(form).map(|column| (column, column.element(form, true)));
        let all = written.clone().chain(found_by.clone());
        // In a list of results arrays are taken apart element by element; as a table each would be stored once more first.
        let lists = all.clone().enumerate().map(|(place, (_, element))| {
            let number = place + 1;
            format!("unnest(${number}::{}) AS v{number}", element.array_type().0)
        });
        let from = format!("(SELECT {}) AS d", lists.collect::<Vec<_>>().join(", "));
        let types: Vec<u32> = all.map(|(_, element)| element.array_type().1).collect();
        let cast = |(column, element): (&TargetColumn, Element), place: usize| match element {
            Element::Cast => format!("d.v{place}::{}", column.cast),
            _ => format!("d.v{place}"),
        };
        let written = written.enumerate().map(|(place, column)| (column, place + 1));
        let only = &self.only;
        let wanted = found_by
            .enumerate()
            .map(|(place, (column, element))| {
                let right = format!("d.v{}", place + 1 + form.columns.len());
                column.equals(&format!("t.{}", column.name), &right, element == Element::Cast)
            })
            .collect::<Vec<_>>()
            .join(" AND ");
        let sql = match form.kind {
            OperationKind::Insert => {
                let values = written.map(|(column, place)| cast(column, place)).collect::<Vec<_>>().join(", ");
                format!("{} SELECT {values} FROM {from}", self.insert_head(form))
            }
            OperationKind::Update => {
                let set = written.map(|(column, place)| format!("{} = {}", column.0.name, cast(column, place)));
                let set = set.collect::<Vec<_>>().join(", ");
                format!("UPDATE {only} AS t SET {set} FROM {from} WHERE {wanted}")
            }
            OperationKind::Delete | OperationKind::Truncate => {
                format!("DELETE FROM {only} AS t USING {from} WHERE {wanted}")
            }
        };
        // Each array is as long as the batch has rows.
        Statement::new(if form.must_find { must_find(&sql, Some("cardinality($1)")) } else { sql }, types)
    }

    /// Whether an operation is an insert of a form.
    pub(super) fn is_insert_of(&self, form: &Form, operation: &Operation) -> bool {
        let Operation::Insert { new } = operation else { return false };
        let mut written = form.columns.iter().peekable();
        let is_alike = self.columns.iter().enumerate().all(|(place, column)| {
            written.next_if(|next| usize::from(**next) == place).is_some() == new.value(column.source).is_present()
        });
        form.kind == OperationKind::Insert && is_alike
    }

    /// Whether rows of a form are copied in the binary format.
    pub(super) fn copies_binary(&self, form: &Form) -> bool {
        !self.copies_text && self.written(form).all(|column| column.copied.is_some())
    }

    /// Rows are copied as text from now on.
    pub(super) fn copy_text(&mut self) {
        self.copies_text = true;
    }

    /// The statement that copies rows of a form in.
    pub(super) fn copy_statement(&self, form: &Form) -> String {
        let names = self.written(form).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let format = if self.copies_binary(form) { " (FORMAT binary)" } else { "" };
        format!("COPY {} ({names}) FROM STDIN{format}", self.table)
    }

    /// Appends a row for [`copy_statement`](Target::copy_statement) in the text format.
    pub(super) fn copy_row(&self, form: &Form, operation: &Operation, out: &mut BytesMut) {
        let Operation::Insert { new } = operation else { return };
        for (place, column) in self.written(form).enumerate() {
            if place > 0 {
                out.extend_from_slice(b"\t");
            }
            encode::copy_field(out, column.value(new), column.is_bytea);
        }
        out.extend_from_slice(b"\n");
    }

    /// Appends a row for [`copy_statement`](Target::copy_statement) in the binary format; `None` when a value has to be text.
    pub(super) fn copy_row_binary(&self, form: &Form, operation: &Operation, out: &mut BytesMut) -> Option<()> {
        let Operation::Insert { new } = operation else { return Some(()) };
        out.put_u16(u16::try_from(form.columns.len()).ok()?);
        for column in self.written(form) {
            match column.value(new) {
                None => out.put_i32(-1),
                Some(bytes) => column.copied?.put(bytes, out)?,
            }
        }
        Some(())
    }

    /// Values for the single statement of a form.
    pub(super) fn parameters<'w>(&self, form: &Form, operation: &'w Operation) -> Result<Vec<Parameter<'w>>, Error> {
        let parameter = |value: Option<&'w [u8]>, is_binary: bool| match value {
            None => Parameter::Null,
            Some(bytes) if is_binary => Parameter::Binary(bytes),
            Some(bytes) => Parameter::Text(bytes),
        };
        let mut values = Vec::with_capacity(form.columns.len() + self.key.len());
        if let Operation::Insert { new } | Operation::Update { new, .. } = operation {
            values.extend(self.written(form).map(|column| parameter(column.value(new), column.is_bytea)));
        }
        for column in self.found_by(form) {
            let value = column.value(self.key_row(operation, column)?);
            values.push(parameter(value, column.is_bytea && column.equality.is_some()));
        }
        if let Operation::Update { old: Some(old), .. } | Operation::Delete { old } = operation {
            let alike = form.alike.iter().map(|place| &self.columns[usize::from(*place)]);
            values
                .extend(alike.map(|column| parameter(column.value(old), column.is_bytea && column.equality.is_some())));
        }
        Ok(values)
    }

    /// Encodes the arrays for the array statement of a form, one after another; returns where each ends, or `None` when they
    /// must hold texts.
    pub(super) fn arrays<'w>(
        &self,
        form: &Form,
        operations: &[&'w Operation],
        out: &mut BytesMut,
    ) -> Result<Option<Vec<usize>>, Error> {
        let mut ends = Vec::with_capacity(form.columns.len() + self.key.len());
        for column in self.written(form) {
            let values = operations.iter().map(|operation| match operation {
                Operation::Insert { new } | Operation::Update { new, .. } => column.value(new),
                Operation::Delete { .. } | Operation::Truncate(_) => None,
            });
            if encode::array(out, column.element(form, false), values).is_none() {
                return Ok(None);
            }
            ends.push(out.len());
        }
        for column in self.found_by(form) {
            let rows = operations
                .iter()
                .map(|operation| self.key_row(operation, column))
                .collect::<Result<Vec<&'w Row>, _>>()?;
            let values = rows.iter().map(|row| column.value(row));
            if encode::array(out, column.element(form, true), values).is_none() {
                return Ok(None);
            }
            ends.push(out.len());
        }
        Ok(Some(ends))
    }
}
