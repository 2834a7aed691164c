//! Which changes a tool is about.

use super::value::{Plain, plain};
use crate::definitions::Definitions;
use crate::environment::{CarriedCommit, Item, RecordEnvironment, operation_type};
use crate::error::Error;
use crate::filter::{Comparison, compare_numbers, comparison, wildcard_matches};
use crate::hex;
use crate::words::Words;
use change::{Change, Commit, Operation, OperationKind, Row, Timestamp, Value};
use memchr::memmem::Finder;
use trail::Record;
use trail::format::bytes::{Order, from_julian_micros};
use trail::format::fragment::Fragment;
use trail::format::header::FileHeader;
use trail::format::record::{RecordView, operation, transaction};

/// A test of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueTest {
    /// Some value of the row holds this text.
    Anywhere(String),
    /// The column has this value, before or after.
    Column {
        /// Its name; case does not count.
        name: String,
        /// The value, as it is shown without quotes; `NULL` for none.
        value: String,
    },
    /// The key has these values, before or after.
    Key(Vec<String>),
}

/// What the operator asked for. Everything must hold; of tables and operations one is enough.
#[derive(Clone, Debug, Default)]
pub struct SelectionWish {
    /// Tables, with wildcards.
    pub tables: Vec<String>,
    /// `insert`, `update`, `delete`, `truncate`, `ddl` or `sequence`.
    pub operations: Vec<String>,
    /// A transaction by its identifier or its CSN.
    pub transaction: Option<String>,
    /// Commits from here on.
    pub from: Option<Timestamp>,
    /// Commits up to here.
    pub to: Option<Timestamp>,
    /// Values.
    pub values: Vec<ValueTest>,
    /// Tests such as `@GETENV ("GGHEADER", "OPTYPE") = INSERT`.
    pub environment: Vec<String>,
}

/// A selection, ready to be asked.
pub struct Selection {
    wish: SelectionWish,
    environment: Vec<(Item, Comparison, String)>,
    /// Runs of bytes of which one must stand in the data of a record, for each text of the tests of values.
    needles: Vec<Vec<Finder<'static>>>,
    definitions: Definitions,
    header: Option<FileHeader>,
    carried: CarriedCommit,
    /// What the environment's tests said of the record that was looked at last.
    environment_holds: bool,
    /// Whether that record is a part that does not tell its operation in clear.
    awaits_operation: bool,
    /// Whether it leaves a transaction open.
    is_inside: bool,
}

impl Selection {
    /// Makes sense of a wish.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn new(wish: SelectionWish) -> Result<Selection, Error> {
        const OPERATIONS: [&str; 6] = ["insert", "update", "delete", "truncate", "ddl", "sequence"];
        for operation in &wish.operations {
            if !OPERATIONS.contains(&operation.as_str()) {
                let hint = parameter::nearest(operation, OPERATIONS).map(|name| format!(", did you mean {name}?"));
                return Err(Error::refused(format!("{operation} is no operation{}", hint.unwrap_or_default())));
            }
        }
        let mut environment = Vec::new();
        for test in &wish.environment {
            let (item, rest) = Item::parse_call(test).map_err(Error::Refused)?;
            let mut words = Words::new(rest);
            let comparison = comparison(&mut words).unwrap_or_default();
            let value = words.next_word().filter(|_| words.is_empty());
            let value = value.ok_or_else(|| Error::refused(format!("{test:?} needs a comparison and one value")))?;
            environment.push((item, comparison, value));
        }
        let mut needles = Vec::new();
        for test in &wish.values {
            let texts = match test {
                ValueTest::Anywhere(text) => vec![text],
                ValueTest::Column { value, .. } => vec![value],
                ValueTest::Key(values) => values.iter().collect(),
            };
            needles.extend(texts.into_iter().map(|text| needles_of(text)).filter(|needles| !needles.is_empty()));
        }
        Ok(Selection {
            wish,
            environment,
            needles,
            definitions: Definitions::default(),
            header: None,
            carried: CarriedCommit::default(),
            environment_holds: true,
            awaits_operation: false,
            is_inside: false,
        })
    }

    /// Whether it has tests of `@GETENV`, which only [`may_hold`](Selection::may_hold) makes.
    pub fn asks_environment(&self) -> bool {
        !self.environment.is_empty()
    }

    /// Another file begins.
    pub fn start_file(&mut self, header: &FileHeader) {
        self.definitions = Definitions::default();
        self.header = Some(header.clone());
        self.carried.forget();
    }

    /// Whether a record may be one that is asked for, as far as its bytes tell. Wrong only where it says yes.
    pub fn may_hold(&mut self, view: &RecordView<'_>, order: Order, rba: u64) -> bool {
        self.carried.see(view);
        if Definitions::concern(view) {
            let data = if view.is_covered() { None } else { Some(view.data) };
            self.definitions.take(view, data, order);
            return true;
        }
        self.is_inside = matches!(view.header.transaction, transaction::FIRST | transaction::MIDDLE);
        let time = from_julian_micros(view.header.time);
        if self.wish.from.is_some_and(|from| time < from) || self.wish.to.is_some_and(|to| time > to) {
            return false;
        }
        let is_part = view.header.operation == operation::FRAGMENT;
        if !self.wish.operations.is_empty() && !is_part && !self.may_be_operation(view.header.operation) {
            return false;
        }
        let (csn, transaction_id) = self.carried.of(view);
        if let Some(wanted) = &self.wish.transaction
            && csn != Some(wanted.as_bytes())
            && transaction_id != Some(wanted.as_bytes())
        {
            return false;
        }
        let is_readable = !is_part && !view.is_covered();
        if is_readable
            && !self.needles.iter().all(|needles| needles.iter().any(|needle| needle.find(view.data).is_some()))
        {
            return false;
        }
        if !self.wish.tables.is_empty() && view.header.operation != operation::DDL {
            let name = self.definitions.name_of(&view.object);
            if !self.wish.tables.iter().any(|table| wildcard_matches(table, &name)) {
                return false;
            }
        }
        self.environment_holds = self.environment.is_empty() || self.holds_environment(view, order, rba);
        self.environment_holds
    }

    fn holds_environment(&mut self, view: &RecordView<'_>, order: Order, rba: u64) -> bool {
        let (csn, transaction_id) = self.carried.of(view);
        let mut view = view.clone();
        // A part is of the operation of the whole, which it tells in its data.
        let part = Fragment::read(view.data, order).ok().filter(|_| !view.is_covered());
        let is_part = view.header.operation == operation::FRAGMENT;
        if let Some(part) = part.filter(|_| is_part) {
            view.header.operation = part.operation;
        }
        self.awaits_operation = view.header.operation == operation::FRAGMENT;
        let record = RecordEnvironment {
            view: &view,
            rba,
            order,
            data: None,
            user: &[],
            csn,
            transaction_id,
            header: self.header.as_ref(),
            definitions: &self.definitions,
        };
        self.environment.iter().all(|(item, comparison, value)| {
            if self.awaits_operation && item.is_operation() {
                return true;
            }
            record.value(item).is_some_and(|known| comparison.fits(compare_numbers(known.as_bytes(), value.as_bytes())))
        })
    }

    fn may_be_operation(&self, number: u8) -> bool {
        let name = match number {
            operation::INSERT => "insert",
            operation::DELETE => "delete",
            operation::TRUNCATE => "truncate",
            operation::DDL => "ddl",
            operation::SEQUENCE => "sequence",
            _ => "update",
        };
        self.wish.operations.iter().any(|wanted| wanted == name)
    }

    /// Whether what was looked at so far ends inside of a transaction.
    pub fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// Whether what a record says is asked for. `None` for records that are none of a transaction.
    pub fn holds(&self, record: &Record) -> Option<bool> {
        let (commit, operation, table) = match record {
            Record::Change { commit, change, .. } => {
                let operation = match change.operation.kind() {
                    OperationKind::Insert => "insert",
                    OperationKind::Update => "update",
                    OperationKind::Delete => "delete",
                    OperationKind::Truncate => "truncate",
                };
                (commit, operation, change.table.name.to_string())
            }
            Record::Statement { commit, statement, .. } => {
                (commit, "ddl", format!("{}.{}", statement.owner, statement.object))
            }
            Record::Sequence { commit, sequence, .. } => (commit, "sequence", sequence.name.to_string()),
            _ => return None,
        };
        let wish = &self.wish;
        let holds = self.environment_holds
            && (!self.awaits_operation || self.holds_operation(operation))
            && (wish.operations.is_empty() || wish.operations.iter().any(|wanted| wanted == operation))
            && (wish.tables.is_empty() || wish.tables.iter().any(|wanted| wildcard_matches(wanted, &table)))
            && self.holds_commit(commit)
            && wish.values.iter().all(|test| match record {
                Record::Change { change, .. } => holds_value(change, test),
                Record::Statement { statement, .. } => {
                    matches!(test, ValueTest::Anywhere(text) if statement.text.contains(text))
                }
                _ => false,
            });
        Some(holds)
    }

    /// Whether the environment's tests of the operation hold for a record whose parts did not tell it in clear. An update may have
    /// been any of its forms.
    fn holds_operation(&self, name: &str) -> bool {
        let numbers: &[u8] = match name {
            "insert" => &[operation::INSERT],
            "delete" => &[operation::DELETE],
            "ddl" => &[operation::DDL],
            _ => &[operation::UPDATE, operation::KEY_UPDATE, operation::UNIFIED_UPDATE, operation::UNIFIED_KEY_UPDATE],
        };
        self.environment.iter().filter(|(item, ..)| item.is_operation()).all(|(_, comparison, value)| {
            numbers.iter().any(|number| comparison.fits(operation_type(*number).cmp(value.as_str())))
        })
    }

    fn holds_commit(&self, commit: &Commit) -> bool {
        let SelectionWish { transaction, from, to, .. } = &self.wish;
        let is_it = |wanted: &String| commit.csn.as_str() == wanted || commit.transaction.as_str() == wanted;
        transaction.as_ref().is_none_or(is_it)
            && from.is_none_or(|from| commit.time >= from)
            && to.is_none_or(|to| commit.time <= to)
    }
}

/// The bytes by which a value that is shown as this text may stand in a record: its own, or those that it names in hexadecimal.
/// None for NULL and truth values, which stand there otherwise.
fn needles_of(text: &str) -> Vec<Finder<'static>> {
    if text.is_empty() || ["NULL", "true", "false"].contains(&text) {
        return Vec::new();
    }
    let raw = hex::parse(text).filter(|_| !text.contains(char::is_whitespace));
    let needles = std::iter::once(text.as_bytes().to_vec()).chain(raw);
    needles.map(|needle| Finder::new(&needle).into_owned()).collect()
}

fn images(operation: &Operation) -> [Option<&Row>; 2] {
    match operation {
        Operation::Insert { new } => [None, Some(new)],
        Operation::Update { old, new } => [old.as_ref(), Some(new)],
        Operation::Delete { old } => [Some(old), None],
        Operation::Truncate(_) => [None, None],
    }
}

fn holds_value(change: &Change, test: &ValueTest) -> bool {
    let columns = &change.table.columns;
    let bare = |row: &Row, index: usize| plain(columns.get(index), row.value(index)).bare();
    let is_present = |row: &Row, index: usize| row.value(index) != Value::Unchanged;
    images(&change.operation).into_iter().flatten().any(|row| match test {
        ValueTest::Anywhere(text) => (0..row.len()).any(|index| match plain(columns.get(index), row.value(index)) {
            Plain::Unchanged => false,
            Plain::Bytes(bytes) => needles_of(text).iter().any(|needle| needle.find(bytes).is_some()),
            other => other.bare().contains(text.as_str()),
        }),
        ValueTest::Column { name, value } => {
            let index = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
            index.is_some_and(|index| is_present(row, index) && bare(row, index) == *value)
        }
        ValueTest::Key(values) => {
            let key = change.table.key();
            key.len() == values.len()
                && key.iter().zip(values).all(|(index, value)| is_present(row, *index) && bare(row, *index) == *value)
        }
    })
}
