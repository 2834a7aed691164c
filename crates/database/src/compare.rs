//! What comparing two databases needs of each: hashes that the database computes over its own rows.
//!
//! # How a table is compared
//! Every row falls into one of `buckets` buckets by a hash of its identity: the values of its key, or of the whole row
//! where there is no key. One pass over the table gives, per bucket, the number of rows and a sum of their digests; that
//! is all that travels while the two sides are equal. A second pass, over the rows of buckets that differ, gives each
//! row's identity and digest in the order of their bytes, so that both sides are merged in constant memory.
//!
//! Buckets rather than ranges of the key: ranges need an order that both sides share, and collations, versions of their
//! libraries and storage classes see to it that they do not. A bucket needs only equal bytes, and a table without a key is
//! no special case. The price is a scan of the whole table where an index could have led to a range.

use crate::missing_rows::{MissingRow, MissingTables};
use crate::{Error, ErrorClass};
use change::{CaseRule, Column, LogicalType, Row, TableDefinition, TableName, Value};
use std::hash::{DefaultHasher, Hasher};
use std::ops::ControlFlow;

/// Most buckets that a table is divided into: their summaries fit into a few MB on both sides.
pub const BUCKETS_MAX: u32 = 16_384;

/// A table as one side of a comparison is asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedTable {
    /// The table's name on this side.
    pub name: TableName,
    /// Columns that both sides have, by this side's names, in an order that both sides share.
    pub columns: Vec<String>,
    /// What tells rows apart, as indexes into `columns`; `None` compares whole rows, of which there may be several alike.
    pub key: Option<Vec<usize>>,
    /// What the values of each column are held against each other as. Only sides that are compared by values look at it; no
    /// entry is the form [`ValueForm::Own`].
    pub forms: Vec<ValueForm>,
}

/// What two databases' values of a column are held against each other as, where hashes of their own can't be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueForm {
    /// As they stand, class included: both columns are of one type.
    #[default]
    Own,
    /// As their characters or bytes.
    Text,
    /// As numbers: one side may have another notation, or keep fewer digits.
    Number,
}

impl ValueForm {
    /// The form for a column that the sides keep as these.
    pub fn of(columns: &[&Column]) -> ValueForm {
        let Some((first, rest)) = columns.split_first() else { return ValueForm::Own };
        if rest.iter().all(|other| (other.logical, &other.native) == (first.logical, &first.native)) {
            return ValueForm::Own;
        }
        let is_number = |column: &&Column| {
            matches!(column.logical, LogicalType::Integer | LogicalType::Float | LogicalType::Boolean)
        };
        let keeps_numbers = |column: &&Column| match column.logical {
            LogicalType::Decimal => true,
            LogicalType::Dynamic => has_numeric_affinity(&column.native),
            _ => is_number(column),
        };
        match columns.iter().any(is_number) || columns.iter().all(keeps_numbers) {
            true => ValueForm::Number,
            false => ValueForm::Text,
        }
    }
}

/// Whether a column without a strict type turns texts of numbers into numbers, by its declared type: section 3.1 of SQLite's page
/// on datatypes.
fn has_numeric_affinity(declared: &str) -> bool {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    has(&["INT"]) || !(declared.is_empty() || has(&["CHAR", "CLOB", "TEXT", "BLOB"]))
}

impl ComparedTable {
    /// Indexes of the columns whose values are a row's identity.
    pub fn identity(&self) -> Vec<usize> {
        self.key.clone().unwrap_or_else(|| (0..self.columns.len()).collect())
    }
}

/// A hash of a row's values, with the differences that the database makes between values.
pub type RowDigest = [u8; 16];

/// What one side says of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketSummary {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the rows' digests, so that rows which are alike do not cancel each other out. How it is added up is the
    /// side's business, the same for all sides of one notation.
    pub sum: u128,
}

/// Adds rows up, for sides that do it themselves.
#[derive(Clone, Debug)]
pub struct BucketSums {
    buckets: Vec<BucketSummary>,
}

impl BucketSums {
    /// Empty buckets.
    pub fn new(buckets: u32) -> BucketSums {
        BucketSums { buckets: vec![BucketSummary::default(); buckets as usize] }
    }

    /// Adds a row.
    pub fn add(&mut self, identity: &[u8], digest: RowDigest) {
        let bucket = bucket_of(identity, self.buckets.len() as u32);
        let summary = &mut self.buckets[bucket as usize];
        summary.rows += 1;
        summary.sum = summary.sum.wrapping_add(u128::from_be_bytes(digest));
    }

    /// The sums.
    pub fn finish(self) -> Vec<BucketSummary> {
        self.buckets
    }
}

/// The bucket of a row, for sides that sort rows into buckets themselves. The same for all of one process.
pub fn bucket_of(identity: &[u8], buckets: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(identity);
    (hasher.finish() % u64::from(buckets)) as u32
}

/// Digests values one after another, for sides that do it themselves. The same for all of one process.
///
/// Two hashes with different starts: nobody crafts rows that collide, and chance needs 128 bits to meet itself.
pub struct RowHasher {
    halves: [DefaultHasher; 2],
}

impl Default for RowHasher {
    fn default() -> RowHasher {
        let half = |start: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(start);
            hasher
        };
        RowHasher { halves: [half(1), half(2)] }
    }
}

impl RowHasher {
    /// Appends bytes. How they are cut into calls means nothing: values must carry their length themselves.
    pub fn write(&mut self, bytes: &[u8]) {
        self.halves.iter_mut().for_each(|half| half.write(bytes));
    }

    /// The digest.
    pub fn finish(self) -> RowDigest {
        let [high, low] = self.halves.map(|half| u128::from(half.finish()));
        (high << 64 | low).to_be_bytes()
    }
}

/// A row of a bucket that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowMark {
    /// The values that identify the row, in the side's own notation.
    pub identity: Vec<u8>,
    /// Hash of all compared values.
    pub digest: RowDigest,
}

/// A row's identity, and the compared columns as literals of the product's SQL.
pub type LiteralRow = (Vec<u8>, Vec<String>);

/// What mends a row; all take the literals of the whole row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// The row is missing.
    Insert,
    /// The row has other values.
    Update,
    /// The row is extra.
    Delete,
}

/// Takes row marks as they come; breaking ends the reading.
pub type TakeMark<'a> = dyn FnMut(RowMark) -> ControlFlow<()> + 'a;

/// Takes rows as they come; breaking ends the reading.
pub type TakeRow<'a> = dyn FnMut(&Row) -> ControlFlow<()> + 'a;

/// Writes a value of a column of this type, of whatever source, as a literal of a product's SQL; `None` where the product can't
/// hold it.
pub type LiteralWriter = fn(LogicalType, Value<'_>) -> Option<String>;

/// Something that users may take for a table and that is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: TableName,
    /// What it is, such as `a virtual table`.
    pub kind: String,
}

/// One side of a comparison: a database as it stands at one moment, seen through one read transaction.
///
/// # Guarantees
/// - All calls see the same moment.
/// - Two sides of the same [`notation`](ComparisonSide::notation) give equal identities, buckets and digests for rows
///   that hold equal values; rows that hold different values have different digests, but for a chance of about 2⁻⁶⁴.
/// - Equal means equal to the database's own eye for storage: `1` and `1.0`, `0.0` and `-0.0`, text and blob of the same
///   bytes, NULL and the empty text are different.
/// - Memory does not grow with the table.
pub trait ComparisonSide: Send {
    /// The database, for the report; without a password.
    fn name(&self) -> String;

    /// How rows become bytes and hashes. Only sides of the same notation can be compared.
    fn notation(&self) -> &str;

    /// How names without quotes are compared.
    fn case_rule(&self) -> CaseRule;

    /// The schema of a table name that was written without one.
    fn default_schema(&self) -> String;

    /// Definitions of all tables that belong to users, in name order, partitions by their root. Tables that Drover installs
    /// are not among them.
    fn tables(&mut self) -> Result<Vec<TableDefinition>, Error>;

    /// What users may take for a table and [`tables`](ComparisonSide::tables) does not list, because its rows can't be
    /// compared or belong to somebody else.
    fn left_out(&mut self) -> Result<Vec<LeftOut>, Error>;

    /// About how many rows the table has; cheap, and never the base of a verdict.
    fn estimate_rows(&mut self, table: &TableName) -> Result<u64, Error>;

    /// One summary per bucket, in bucket order.
    ///
    /// # Errors
    /// Any [`Error`], a value too large to be hashed among them.
    fn summarize(&mut self, table: &ComparedTable, buckets: u32) -> Result<Vec<BucketSummary>, Error>;

    /// Gives the rows of the `chosen` buckets, which stand in ascending order, to `take`, in the order of their marks, at
    /// most `rows_max` of them.
    ///
    /// # Errors
    /// Any [`Error`].
    fn rows(
        &mut self,
        table: &ComparedTable,
        buckets: u32,
        chosen: &[u32],
        rows_max: Option<u64>,
        take: &mut TakeMark<'_>,
    ) -> Result<(), Error>;

    /// The compared columns of the rows with these identities as literals of the product's SQL, each row with its identity.
    /// Rows that are gone are left out.
    ///
    /// # Errors
    /// Any [`Error`]; [`ErrorClass::Unsupported`] where the side can't.
    fn literals(&mut self, table: &ComparedTable, identities: &[Vec<u8>]) -> Result<Vec<LiteralRow>, Error> {
        let _ = identities;
        Err(Error::new(ErrorClass::Unsupported, format!("could not read rows of {} as literals", table.name)))
    }

    /// The statement that mends one row of this side's table. Columns with an index in `computed` are left to the database.
    fn mending(&self, table: &ComparedTable, mending: Mending, row: &[String], computed: &[usize]) -> String {
        let _ = (mending, row, computed);
        format!("-- a row of {} can't be mended here", table.name)
    }

    /// Gives the compared columns of all rows that meet `filter`, a condition in the product's SQL, to `take`, in any order, in the
    /// notation in which changes of the table carry them.
    ///
    /// # Errors
    /// Any [`Error`]; [`ErrorClass::Unsupported`] where the side can't.
    fn scan(&mut self, table: &ComparedTable, filter: Option<&str>, take: &mut TakeRow<'_>) -> Result<(), Error> {
        let _ = (filter, take);
        Err(Error::new(ErrorClass::Unsupported, format!("could not read the values of {}", table.name)))
    }

    /// How values become literals of this product's SQL; `None` where it has no such thing.
    fn literal_writer(&self) -> Option<LiteralWriter> {
        None
    }

    /// The statement that adds a row, told by literals of its columns, to the tables of missing rows.
    fn missing_row(&self, tables: &MissingTables, row: &[String], present: &str, absent: &str) -> Option<String> {
        let _ = (tables, row, present, absent);
        None
    }

    /// Gives what the tables of missing rows hold to `take`, in any order.
    ///
    /// # Errors
    /// As [`scan`](ComparisonSide::scan).
    fn missing_rows(
        &mut self,
        tables: &MissingTables,
        take: &mut dyn FnMut(MissingRow) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let _ = take;
        Err(Error::new(ErrorClass::Unsupported, format!("could not read {}", tables.location)))
    }

    /// The values in an identity, in the order of [`ComparedTable::identity`], as people read them; `None` is NULL.
    fn identity_values(&self, table: &ComparedTable, identity: &[u8]) -> Vec<Option<String>>;
}
