//! Comparing two databases, table by table.

use crate::merge::merge;
use crate::pairing::{Pairing, TablePair, Tables, pair};
use crate::report::{Comparison, KeyValue, RowDifference, RowVerdict, TableComparison, TableVerdict};
use crate::selection::{Names, Selection};
use crate::stream::{Wanted, channel};
use crate::{Error, Side};
use change::TableName;
use database::compare::{BUCKETS_MAX, BucketSummary, ComparisonSide, Mending, RowMark};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::thread;

/// Rows that a bucket holds on average: a row that differs makes its whole bucket travel.
const BUCKET_ROWS: u64 = 1000;

/// What is wrong with a row, and its identity.
pub(crate) type NamedRow = (RowVerdict, Vec<u8>);

/// Rows of one table that a plan mends at most: it is made in memory, and somebody is to read it.
const REPAIR_ROWS_MAX: usize = 100_000;

/// What is compared and how much is told.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// Which tables.
    pub selection: Selection,
    /// How many rows are named in each table that differs; all are counted.
    pub rows_named_max: usize,
    /// Whether each table also tells the statements that make the target's rows those of the source.
    pub repair: bool,
}

/// Compares two databases, each as it stood when its side was opened, and tells `progress` of each table when it is done.
///
/// # Errors
/// Any [`Error`]; then there is no verdict, whatever `progress` has been told.
pub fn compare(
    source: &mut dyn ComparisonSide,
    target: &mut dyn ComparisonSide,
    options: &CompareOptions,
    progress: &mut dyn FnMut(&TableComparison),
) -> Result<Comparison, Error> {
    if source.notation() != target.notation() {
        return Err(Error::refused(
            format!(
                "the two databases do not hash rows alike: the source says {:?}, the target {:?}",
                source.notation(),
                target.notation()
            ),
            "compare databases of the same product and encoding",
        ));
    }
    let pairing = pair(&tables(source, Side::Source)?, &tables(target, Side::Target)?, &options.selection)?;
    let left_out = left_out(source, target)?;
    let computed: HashMap<TableName, Vec<String>> = match options.repair {
        true => computed_columns(target)?,
        false => HashMap::new(),
    };
    let mut found = Vec::with_capacity(pairing.pairs.len());
    let mut tell = |table: TableComparison| {
        progress(&table);
        found.push(table);
    };
    let Pairing { pairs, missing, extra } = pairing;
    for pair in &pairs {
        let mut sides = Sides { source: &mut *source, target: &mut *target };
        let rows_named_max = if options.repair { REPAIR_ROWS_MAX } else { options.rows_named_max };
        let (mut table, named) = sides.compare_table(pair, rows_named_max)?;
        if options.repair {
            table.repair = sides.repair(pair, &table, named, computed.get(&pair.target.name))?;
            table.rows.truncate(options.rows_named_max);
        }
        tell(table);
    }
    for (name, partner) in missing {
        tell(TableComparison::of_one_side(Side::Source, Some(name.to_string()), partner.to_string()));
    }
    for name in extra {
        tell(TableComparison::of_one_side(Side::Target, None, name.to_string()));
    }
    Ok(Comparison {
        source: source.name(),
        target: target.name(),
        equal: found.iter().all(|table| table.verdict == TableVerdict::Equal),
        tables: found,
        left_out,
    })
}

/// Compares two tables, and names at most so many rows that are not the same.
pub(crate) fn compare_pair(
    source: &mut dyn ComparisonSide,
    target: &mut dyn ComparisonSide,
    pair: &TablePair,
    rows_named_max: usize,
) -> Result<(TableComparison, Vec<NamedRow>), Error> {
    Sides { source, target }.compare_table(pair, rows_named_max)
}

fn tables(database: &mut dyn ComparisonSide, side: Side) -> Result<Tables, Error> {
    let definitions = database.tables().map_err(|cause| Error::Database { side, cause })?;
    let names = Names { case: database.case_rule(), default_schema: database.default_schema() };
    Ok(Tables { names, definitions })
}

/// Per table the columns that the database computes itself.
fn computed_columns(database: &mut dyn ComparisonSide) -> Result<HashMap<TableName, Vec<String>>, Error> {
    let tables = database.tables().map_err(|cause| Error::Database { side: Side::Target, cause })?;
    let computed = tables.into_iter().map(|table| {
        let columns = table.columns.iter().filter(|column| column.generation.is_computed());
        (table.name, columns.map(|column| column.name.clone()).collect())
    });
    Ok(computed.collect())
}

fn left_out<'a>(source: &'a mut dyn ComparisonSide, target: &'a mut dyn ComparisonSide) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    for (database, side) in [(source, Side::Source), (target, Side::Target)] {
        let list = database.left_out().map_err(|cause| Error::Database { side, cause })?;
        lines.extend(list.into_iter().map(|left_out| format!("{side} {} ({})", left_out.name, left_out.kind)));
    }
    Ok(lines)
}

/// Rows in the chosen buckets.
fn rows_of(chosen: &[u32], summaries: &[BucketSummary]) -> u64 {
    chosen.iter().map(|bucket| summaries[*bucket as usize].rows).sum()
}

/// Both databases, each used by one thread at a time.
struct Sides<'a> {
    source: &'a mut dyn ComparisonSide,
    target: &'a mut dyn ComparisonSide,
}

/// Rows that are not the same, counted, and the first of them by their identity.
#[derive(Default)]
struct Differences {
    missing: u64,
    extra: u64,
    different: u64,
    named: Vec<(RowVerdict, Vec<u8>)>,
}

impl Differences {
    fn count(&mut self, verdict: RowVerdict, times: u64) {
        *match verdict {
            RowVerdict::MissingAtTarget => &mut self.missing,
            RowVerdict::ExtraAtTarget => &mut self.extra,
            RowVerdict::Different => &mut self.different,
        } += times;
    }

    fn is_empty(&self) -> bool {
        self.missing + self.extra + self.different == 0
    }
}

impl Sides<'_> {
    /// The statements that make the target's rows those of the source: rows that are extra go first, so that their unique
    /// values are free.
    fn repair(
        &mut self,
        pair: &TablePair,
        table: &TableComparison,
        named: Vec<NamedRow>,
        computed: Option<&Vec<String>>,
    ) -> Result<Vec<String>, Error> {
        let differing = table.missing + table.extra + table.different;
        let refuse = |what: &str, next_step: &str| {
            Err(Error::refused(format!("can't write a plan for table {}: {what}", pair.target.name), next_step))
        };
        if differing == 0 {
            return Ok(Vec::new());
        } else if differing > REPAIR_ROWS_MAX as u64 {
            return refuse("too many rows differ", "copy the table anew, or leave it out with --exclude");
        } else if pair.target.key.is_none() {
            return refuse("it has no key", "give it a key, or leave it out with --exclude");
        }
        let is_computed = |name: &String| computed.is_some_and(|list| list.contains(name));
        let columns = pair.target.columns.iter().enumerate();
        let computed: Vec<usize> = columns.filter(|(_, name)| is_computed(name)).map(|(index, _)| index).collect();
        let mut statements = Vec::new();
        for (verdict, mending) in [
            (RowVerdict::ExtraAtTarget, Mending::Delete),
            (RowVerdict::Different, Mending::Update),
            (RowVerdict::MissingAtTarget, Mending::Insert),
        ] {
            let wanted = named.iter().filter(|(told, _)| *told == verdict);
            let wanted: Vec<Vec<u8>> = wanted.map(|(_, identity)| identity.clone()).collect();
            if wanted.is_empty() {
                continue;
            }
            let rows = match verdict {
                RowVerdict::ExtraAtTarget => self
                    .target
                    .literals(&pair.target, &wanted)
                    .map_err(|cause| Error::Database { side: Side::Target, cause })?,
                _ => self
                    .source
                    .literals(&pair.source, &wanted)
                    .map_err(|cause| Error::Database { side: Side::Source, cause })?,
            };
            if rows.len() != wanted.len() {
                let what =
                    format!("{} rows of {} were to be read, {} were", wanted.len(), pair.target.name, rows.len());
                return Err(Error::Contradiction { side: Side::Source, what });
            }
            statements.extend(rows.iter().map(|(_, row)| self.target.mending(&pair.target, mending, row, &computed)));
        }
        Ok(statements)
    }

    fn compare_table(
        &mut self,
        pair: &TablePair,
        rows_named_max: usize,
    ) -> Result<(TableComparison, Vec<NamedRow>), Error> {
        let (source, target) = self
            .both(|source| source.estimate_rows(&pair.source.name), |target| target.estimate_rows(&pair.target.name))?;
        let buckets = u32::try_from(source.max(target) / BUCKET_ROWS).unwrap_or(BUCKETS_MAX);
        let buckets = buckets.clamp(1, BUCKETS_MAX).next_power_of_two();
        let (source, target) = self
            .both(|source| source.summarize(&pair.source, buckets), |target| target.summarize(&pair.target, buckets))?;
        for (summaries, side) in [(&source, Side::Source), (&target, Side::Target)] {
            if summaries.len() != buckets as usize {
                return Err(Error::Contradiction { side, what: "it gave another number of buckets".to_owned() });
            }
        }
        let differences = self.differences(pair, &source, &target, rows_named_max)?;
        let columns_alike = pair.columns_missing.is_empty() && pair.columns_extra.is_empty();
        let equal = columns_alike && differences.is_empty();
        let rows = |summaries: &[BucketSummary]| Some(summaries.iter().map(|summary| summary.rows).sum());
        let column = |index: &usize| pair.source.columns[*index].clone();
        let named = differences.named.clone();
        let table = TableComparison {
            source: Some(pair.source.name.to_string()),
            target: pair.target.name.to_string(),
            verdict: if equal { TableVerdict::Equal } else { TableVerdict::Different },
            source_rows: rows(&source),
            target_rows: rows(&target),
            columns_missing: pair.columns_missing.clone(),
            columns_extra: pair.columns_extra.clone(),
            key: pair.source.key.as_ref().map(|key| key.iter().map(column).collect()),
            missing: differences.missing,
            extra: differences.extra,
            different: differences.different,
            rows: differences
                .named
                .into_iter()
                .map(|(verdict, identity)| self.named(pair, verdict, &identity))
                .collect(),
            repair: Vec::new(),
        };
        Ok((table, named))
    }

    fn differences(
        &mut self,
        pair: &TablePair,
        source: &[BucketSummary],
        target: &[BucketSummary],
        rows_named_max: usize,
    ) -> Result<Differences, Error> {
        let buckets = source.len() as u32;
        let pick = |wanted: fn(&BucketSummary, &BucketSummary) -> bool| -> Vec<u32> {
            let pairs = (0_u32..).zip(source.iter().zip(target));
            pairs.filter(|(_, (source, target))| wanted(source, target)).map(|(bucket, _)| bucket).collect()
        };
        let mut differences = Differences::default();
        let both = pick(|source, target| source != target && source.rows > 0 && target.rows > 0);
        if !both.is_empty() {
            let wanted = Wanted { buckets, chosen: &both, rows_max: None };
            let counted = self.merge_rows(pair, wanted, rows_named_max, &mut differences)?;
            for (counted, expected, side) in
                [(counted.0, rows_of(&both, source), Side::Source), (counted.1, rows_of(&both, target), Side::Target)]
            {
                if counted != expected {
                    let what = format!("{} had {expected} rows, then {counted}", pair.source.name);
                    return Err(Error::Contradiction { side, what });
                }
            }
            if differences.is_empty() {
                let what = format!("sums of {} differ, rows do not", pair.source.name);
                return Err(Error::Contradiction { side: Side::Target, what });
            }
        }
        // Of buckets that one side has no row of, all rows are known to be missing or extra: none is read but to be named.
        let only_source = pick(|source, target| source.rows > 0 && target.rows == 0);
        let only_target = pick(|source, target| source.rows == 0 && target.rows > 0);
        for (chosen, rows, verdict, side) in [
            (&only_source, rows_of(&only_source, source), RowVerdict::MissingAtTarget, Side::Source),
            (&only_target, rows_of(&only_target, target), RowVerdict::ExtraAtTarget, Side::Target),
        ] {
            differences.count(verdict, rows);
            let left = rows_named_max.saturating_sub(differences.named.len()) as u64;
            if rows > 0 && left > 0 {
                let wanted = Wanted { buckets, chosen, rows_max: Some(left) };
                let named = self.name_rows(pair, side, wanted)?;
                differences.named.extend(named.into_iter().map(|identity| (verdict, identity)));
            }
        }
        Ok(differences)
    }

    /// Merges the rows of buckets that differ; returns how many each side had.
    fn merge_rows(
        &mut self,
        pair: &TablePair,
        wanted: Wanted<'_>,
        rows_named_max: usize,
        differences: &mut Differences,
    ) -> Result<(u64, u64), Error> {
        let (source_sender, mut source_stream) = channel(Side::Source);
        let (target_sender, mut target_stream) = channel(Side::Target);
        let Sides { source, target } = self;
        thread::scope(|scope| {
            scope.spawn(|| source_sender.send_all(*source, &pair.source, wanted));
            scope.spawn(|| target_sender.send_all(*target, &pair.target, wanted));
            let outcome = merge(&mut source_stream, &mut target_stream, &mut |verdict, identity| {
                differences.count(verdict, 1);
                if differences.named.len() < rows_named_max {
                    differences.named.push((verdict, identity.to_vec()));
                }
            });
            // Whoever is still sending finds nobody there, and the scope can end.
            drop((source_stream, target_stream));
            outcome
        })
    }

    /// Identities of the first of the wanted rows.
    fn name_rows(&mut self, pair: &TablePair, side: Side, wanted: Wanted<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let (database, table) = match side {
            Side::Source => (&mut *self.source, &pair.source),
            Side::Target | Side::Missing => (&mut *self.target, &pair.target),
        };
        let mut identities = Vec::new();
        let mut take = |mark: RowMark| {
            identities.push(mark.identity);
            ControlFlow::Continue(())
        };
        let outcome = database.rows(table, wanted.buckets, wanted.chosen, wanted.rows_max, &mut take);
        outcome.map(|()| identities).map_err(|cause| Error::Database { side, cause })
    }

    fn named(&self, pair: &TablePair, verdict: RowVerdict, identity: &[u8]) -> RowDifference {
        let values = self.source.identity_values(&pair.source, identity);
        let columns = pair.source.identity().into_iter().map(|index| pair.source.columns[index].clone());
        let key = columns.zip(values).map(|(column, value)| KeyValue { column, value }).collect();
        RowDifference { verdict, key }
    }

    /// Asks both sides at once.
    fn both<T: Send>(
        &mut self,
        ask_source: impl FnOnce(&mut dyn ComparisonSide) -> Result<T, database::Error>,
        ask_target: impl FnOnce(&mut dyn ComparisonSide) -> Result<T, database::Error> + Send,
    ) -> Result<(T, T), Error> {
        let Sides { source, target } = self;
        let (source, target) = thread::scope(|scope| {
            let target = scope.spawn(|| ask_target(&mut **target));
            let source = ask_source(&mut **source);
            (source, target.join())
        });
        // A panic of the other thread is ours.
        let target = target.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let failed = |side| move |cause| Error::Database { side, cause };
        Ok((source.map_err(failed(Side::Source))?, target.map_err(failed(Side::Target))?))
    }
}
