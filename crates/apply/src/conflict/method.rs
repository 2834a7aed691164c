//! The update methods, each by the reference's rule.

use super::engine::{Engine, Meeting, Stamp};
use super::entry::{ConflictKind, Resolution};
use super::rules::{MissingMethod, Priorities, UniqueMethod, UpdateMethod, UserFunction};
use super::value::{number, order, order_moments};
use change::{LogicalType, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What a method needs of the world around it.
pub trait Surroundings {
    /// The name of the site that made the change, such as `eu.shop.example`.
    fn origin_site(&self) -> &str;

    /// The next number of this site's sequence, or `None` when there is none.
    fn next_sequence(&mut self) -> Option<u64>;

    /// Calls a function in the database.
    ///
    /// # Errors
    /// What the function raised: the conflict stays unresolved, and no other method is asked.
    fn call(&mut self, call: &FunctionCall<'_>) -> Result<FunctionAnswer, String>;
}

/// A call of a user function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall<'a> {
    /// The function.
    pub function: &'a str,
    /// What it is asked about.
    pub kind: ConflictKind,
    /// Its parameter columns in declared order.
    pub parameters: Vec<FunctionParameter>,
}

/// What a user function is told of one column; `None` is NULL or untold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionParameter {
    /// The column.
    pub column: usize,
    /// Before the change, at its site.
    pub old: Option<Vec<u8>>,
    /// After the change, at its site.
    pub new: Option<Vec<u8>>,
    /// In the row that was found.
    pub current: Option<Vec<u8>>,
}

/// What a user function says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionAnswer {
    /// Whether it has settled the conflict; else the next method is asked.
    pub resolved: bool,
    /// Whether the new values are not to be applied.
    pub discard: bool,
    /// The values, edited, one per parameter: new values of an update or an insert, old ones of a delete.
    pub values: Vec<Option<Vec<u8>>>,
}

/// What a method says.
pub(super) enum Verdict {
    Decided(Chosen),
    Undecided,
    Failed(String),
}

/// What becomes of a group.
pub(super) enum Chosen {
    Take,
    Keep,
    Discard,
    Edit {
        values: Vec<(usize, Option<Vec<u8>>)>,
        /// Whether the other columns of the group are taken from the change.
        take_rest: bool,
    },
}

impl Chosen {
    pub(super) fn resolution(&self) -> Resolution {
        match self {
            Chosen::Take => Resolution::Taken,
            Chosen::Keep => Resolution::Kept,
            Chosen::Discard => Resolution::Discarded,
            Chosen::Edit { .. } => Resolution::Merged,
        }
    }
}

impl UpdateMethod {
    /// The name that operators know.
    pub fn name(&self) -> &'static str {
        match self {
            UpdateMethod::LatestTimestamp(_) => "LATEST TIMESTAMP",
            UpdateMethod::EarliestTimestamp(_) => "EARLIEST TIMESTAMP",
            UpdateMethod::Maximum(_) => "MAXIMUM",
            UpdateMethod::Minimum(_) => "MINIMUM",
            UpdateMethod::Additive(_) => "ADDITIVE",
            UpdateMethod::Average(_) => "AVERAGE",
            UpdateMethod::PriorityGroup { .. } => "PRIORITY GROUP",
            UpdateMethod::SitePriority { .. } => "SITE PRIORITY",
            UpdateMethod::LatestStamp(_) => "LATEST",
            UpdateMethod::Overwrite => "OVERWRITE",
            UpdateMethod::Discard => "DISCARD",
            UpdateMethod::DiscardRecord => "DISCARD RECORD",
            UpdateMethod::UseMaximum { or_equal: false, .. } => "USEMAX",
            UpdateMethod::UseMaximum { or_equal: true, .. } => "USEMAXEQ",
            UpdateMethod::UseMinimum { or_equal: false, .. } => "USEMIN",
            UpdateMethod::UseMinimum { or_equal: true, .. } => "USEMINEQ",
            UpdateMethod::UseDelta => "USEDELTA",
            UpdateMethod::UserFunction(_) => "USER FUNCTION",
        }
    }
}

impl UniqueMethod {
    /// The name that operators know.
    pub fn name(&self) -> &'static str {
        match self {
            UniqueMethod::AppendSiteName(_) => "APPEND SITE NAME",
            UniqueMethod::AppendSequence(_) => "APPEND SEQUENCE",
            UniqueMethod::Discard => "DISCARD",
            UniqueMethod::UserFunction(_) => "USER FUNCTION",
        }
    }
}

impl MissingMethod {
    /// The name that operators know.
    pub fn name(&self) -> &'static str {
        match self {
            MissingMethod::Overwrite => "OVERWRITE",
            MissingMethod::Ignore => "IGNORE",
            MissingMethod::DiscardRecord => "DISCARD",
            MissingMethod::LatestStamp => "LATEST",
            MissingMethod::DeleteWins => "DELETE WINS",
            MissingMethod::UserFunction(_) => "USER FUNCTION",
        }
    }
}

/// Which of the two wins: the change when it is on the `wanted` side, the row when it is on the other.
fn by_order(order: Option<Ordering>, wanted: Ordering) -> Verdict {
    match order {
        Some(Ordering::Equal) | None => Verdict::Undecided,
        Some(order) if order == wanted => Verdict::Decided(Chosen::Take),
        Some(_) => Verdict::Decided(Chosen::Keep),
    }
}

/// As [`by_order`], where equal values decide too.
fn by_order_or_equal(order: Option<Ordering>, wanted: Ordering, or_equal: bool) -> Verdict {
    match order {
        Some(Ordering::Equal) if or_equal => Verdict::Decided(Chosen::Take),
        Some(Ordering::Equal) => Verdict::Decided(Chosen::Keep),
        order => by_order(order, wanted),
    }
}

impl Engine<'_> {
    /// Asks one update method about a group.
    pub(super) fn ask(
        &mut self,
        kind: ConflictKind,
        method: &UpdateMethod,
        meeting: &Meeting<'_>,
        columns: &BTreeSet<usize>,
    ) -> Verdict {
        use Ordering::{Greater, Less};
        let table = self.table;
        let compare = |column: usize, order: fn(LogicalType, &[u8], &[u8]) -> Option<Ordering>| {
            let (new, current) = (meeting.incoming(column).bytes()?, meeting.current(column).bytes()?);
            order(table.columns[column].logical, new, current)
        };
        match method {
            UpdateMethod::LatestTimestamp(column) => by_order(compare(*column, order_moments), Greater),
            UpdateMethod::EarliestTimestamp(column) => by_order(compare(*column, order_moments), Less),
            UpdateMethod::Maximum(column) => by_order(compare(*column, order), Greater),
            UpdateMethod::Minimum(column) => by_order(compare(*column, order), Less),
            UpdateMethod::UseMaximum { column, or_equal } => {
                by_order_or_equal(compare(*column, order_moments), Greater, *or_equal)
            }
            UpdateMethod::UseMinimum { column, or_equal } => {
                by_order_or_equal(compare(*column, order_moments), Less, *or_equal)
            }
            UpdateMethod::PriorityGroup { column, priorities } | UpdateMethod::SitePriority { column, priorities } => {
                let of = |value: Value<'_>| priority(priorities, table.columns[*column].logical, value);
                let (new, current) = (of(meeting.incoming(*column)), of(meeting.current(*column)));
                by_order(new.zip(current).map(|(new, current)| new.cmp(&current)), Greater)
            }
            UpdateMethod::LatestStamp(stamp) => {
                let order = compare(stamp.time, order).and_then(|times| Some(times.then(compare(stamp.site, order)?)));
                // One stamp is one version: the row holds it already.
                by_order_or_equal(order, Greater, false)
            }
            UpdateMethod::Overwrite => Verdict::Decided(Chosen::Take),
            UpdateMethod::Discard => Verdict::Decided(Chosen::Keep),
            UpdateMethod::DiscardRecord => Verdict::Decided(Chosen::Discard),
            UpdateMethod::Additive(column) => self.add(meeting, [column], None),
            UpdateMethod::UseDelta => self.add(meeting, columns, Some(())),
            UpdateMethod::Average(column) => self.average(meeting, *column),
            UpdateMethod::UserFunction(function) => self.ask_function(kind, function, meeting),
        }
    }

    /// Adds to each column what the change added to it. Columns that the change does not speak of stay where `lenient`.
    fn add<'c>(
        &self,
        meeting: &Meeting<'_>,
        columns: impl IntoIterator<Item = &'c usize>,
        lenient: Option<()>,
    ) -> Verdict {
        let mut values = Vec::new();
        for column in columns {
            let kind = self.table.columns[*column].logical;
            if lenient.is_some() && !meeting.incoming(*column).is_present() {
                continue;
            }
            let of = |value| number(kind, value);
            let (old, new) = (of(meeting.old(*column)), of(meeting.incoming(*column)));
            let (Some(old), Some(new), Some(current)) = (old, new, of(meeting.current(*column))) else {
                return Verdict::Undecided;
            };
            let text = current.plus(&new.minus(&old)).text();
            values.push((*column, Some(self.written(*column, meeting, text))));
        }
        Verdict::Decided(Chosen::Edit { values, take_rest: false })
    }

    fn average(&self, meeting: &Meeting<'_>, column: usize) -> Verdict {
        let definition = &self.table.columns[column];
        let of = |value| number(definition.logical, value);
        let (Some(new), Some(current)) = (of(meeting.incoming(column)), of(meeting.current(column))) else {
            return Verdict::Undecided;
        };
        let mut mean = current.plus(&new).half();
        let places = match definition.logical {
            LogicalType::Integer => Some(0),
            _ => definition.scale.and_then(|scale| usize::try_from(scale).ok()),
        };
        if let Some(places) = places {
            mean = mean.rounded(places);
        }
        let values = vec![(column, Some(self.written(column, meeting, mean.text())))];
        Verdict::Decided(Chosen::Edit { values, take_rest: false })
    }

    /// A number in the notation of its column.
    fn written(&self, column: usize, meeting: &Meeting<'_>, text: String) -> Vec<u8> {
        match self.table.columns[column].logical {
            LogicalType::Float => {
                // The nearest binary number, as every writer of such a column has it.
                text.parse::<f64>().map_or(text.clone(), |number| format!("{number}")).into_bytes()
            }
            LogicalType::Dynamic => {
                let is_real = [meeting.incoming(column), meeting.current(column)]
                    .iter()
                    .any(|value| value.bytes().is_some_and(|bytes| bytes.first() == Some(&b'r')));
                let mark = if is_real || text.contains('.') { 'r' } else { 'i' };
                format!("{mark}{text}").into_bytes()
            }
            _ => text.into_bytes(),
        }
    }

    fn ask_function(&mut self, kind: ConflictKind, function: &UserFunction, meeting: &Meeting<'_>) -> Verdict {
        let answer = match self.answer(kind, function, meeting) {
            Ok(answer) => answer,
            Err(failure) => return Verdict::Failed(failure),
        };
        match answer {
            FunctionAnswer { resolved: false, .. } => Verdict::Undecided,
            FunctionAnswer { discard: true, .. } => Verdict::Decided(Chosen::Keep),
            FunctionAnswer { values, .. } => {
                let values = function.columns.iter().copied().zip(values).collect();
                Verdict::Decided(Chosen::Edit { values, take_rest: true })
            }
        }
    }

    pub(super) fn answer(
        &mut self,
        kind: ConflictKind,
        function: &UserFunction,
        meeting: &Meeting<'_>,
    ) -> Result<FunctionAnswer, String> {
        let owned = |value: Value<'_>| value.bytes().map(<[u8]>::to_vec);
        let parameters = function
            .columns
            .iter()
            .map(|column| FunctionParameter {
                column: *column,
                old: owned(meeting.old(*column)),
                new: owned(meeting.new.map_or(Value::Unchanged, |_| meeting.incoming(*column))),
                current: owned(meeting.current(*column)),
            })
            .collect();
        let answer = self.surroundings.call(&FunctionCall { function: &function.name, kind, parameters })?;
        if answer.resolved && !answer.discard && answer.values.len() != function.columns.len() {
            return Err(format!("function {} gave back another number of values than it was given", function.name));
        }
        Ok(answer)
    }

    /// Which of two stamps is later.
    pub(super) fn order_stamps(&self, left: &Stamp, right: &Stamp) -> Option<Ordering> {
        let super::rules::Detection::Stamps(columns) = &self.rules.detection else { return None };
        let kind = |column: usize| self.table.columns[column].logical;
        let times = order(kind(columns.time), &left.time, &right.time)?;
        Some(times.then(order(kind(columns.site), &left.site, &right.site)?))
    }
}

/// The priority of a value; values with a class of their own are listed without it.
fn priority(priorities: &Priorities, kind: LogicalType, value: Value<'_>) -> Option<i64> {
    let bytes = value.bytes()?;
    let bytes = if kind == LogicalType::Dynamic { bytes.get(1..)? } else { bytes };
    priorities.of(bytes)
}
