//! What a column is, in terms that all databases share.

/// The kind of a column's values, the same for every database product.
///
/// The numbers are written into trails (table definition records) and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LogicalType {
    /// `t` or `f`.
    Boolean = 1,
    /// Decimal text of a whole number of any width.
    Integer = 2,
    /// Decimal text, exact; also `NaN`, `Infinity`, `-Infinity`.
    Decimal = 3,
    /// Shortest decimal text that reads back to the same binary value; also `NaN`, `Infinity`, `-Infinity`.
    Float = 4,
    /// Characters, as UTF-8 (bytes that are not UTF-8 pass unchanged where the source allows them).
    Text = 5,
    /// Raw bytes.
    Binary = 6,
    /// Calendar date.
    Date = 7,
    /// Time of day, with or without offset.
    Time = 8,
    /// Date and time without zone.
    Timestamp = 9,
    /// Date and time with zone.
    TimestampWithZone = 10,
    /// Span of time.
    Interval = 11,
    /// UUID text.
    Uuid = 12,
    /// JSON text.
    Json = 13,
    /// Text of `0` and `1`.
    Bits = 14,
    /// One label of a fixed set.
    Enumeration = 15,
    /// A value whose class is its own: the first byte is `i` (whole number text), `r` (float text), `t` (characters) or
    /// `b` (raw bytes), the rest is the value. SQLite columns outside STRICT tables are of this type.
    Dynamic = 16,
    /// Anything else, as the source's own text.
    Other = 17,
}

impl LogicalType {
    /// The type with number `code`, if this version knows it.
    pub fn from_code(code: u8) -> Option<LogicalType> {
        use LogicalType::*;
        const ALL: [LogicalType; 17] = [
            Boolean,
            Integer,
            Decimal,
            Float,
            Text,
            Binary,
            Date,
            Time,
            Timestamp,
            TimestampWithZone,
            Interval,
            Uuid,
            Json,
            Bits,
            Enumeration,
            Dynamic,
            Other,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// Whether and how the database itself makes a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Generation {
    /// An ordinary column.
    #[default]
    None = 0,
    /// Identity or auto-increment that accepts explicit values.
    IdentityByDefault = 1,
    /// Identity that takes an explicit value only when overridden.
    IdentityAlways = 2,
    /// Computed and stored; can't be written.
    Stored = 3,
    /// Computed when read; can't be written.
    Virtual = 4,
}

impl Generation {
    /// The generation with number `code`, if this version knows it.
    pub fn from_code(code: u8) -> Option<Generation> {
        use Generation::*;
        [None, IdentityByDefault, IdentityAlways, Stored, Virtual].into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether a write must leave this column to the database.
    pub fn is_computed(self) -> bool {
        matches!(self, Generation::Stored | Generation::Virtual)
    }
}

/// One column of a table definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name exactly as the database stores it.
    pub name: String,
    /// The kind of its values.
    pub logical: LogicalType,
    /// The type's name in the source database, for people and for like engines.
    pub native: String,
    /// Declared length in characters or bytes, where there is one.
    pub length: Option<u32>,
    /// Declared precision, where there is one.
    pub precision: Option<u16>,
    /// Declared scale, where there is one.
    pub scale: Option<i16>,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Place in the row's key, from 0; `None` for a column outside the key.
    pub key: Option<u16>,
    /// Whether the database makes the values.
    pub generation: Generation,
}

impl Column {
    /// A nullable column outside the key, of the given type.
    pub fn new(name: impl Into<String>, logical: LogicalType, native: impl Into<String>) -> Column {
        Column {
            name: name.into(),
            logical,
            native: native.into(),
            length: None,
            precision: None,
            scale: None,
            nullable: true,
            key: None,
            generation: Generation::None,
        }
    }

    /// The same column as part `place` of the key.
    pub fn with_key(self, place: u16) -> Column {
        Column { key: Some(place), ..self }
    }
}
