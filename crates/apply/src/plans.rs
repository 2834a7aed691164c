//! The plans by which changes of each source table are written, made at first use.

use crate::copies::Copies;
use crate::handling::{self, Converted, Misfit};
use crate::heartbeat::{Heartbeats, PlanFailure};
use crate::schedule::{Footprint, Lane, ThreadPlan, WriteSet};
use crate::{Error, mapping};
use change::{Change, Commit, Csn, Operation, TableDefinition, TableName};
use database::{OrderScope, Session, TablePlan, UniqueKey};
use parameter::MapPlan;
use process::{FilterReason, Statistics, TableIndex};
use std::collections::HashMap;
use std::sync::Arc;
use trail::Position;

/// Where the changes of one table definition go.
#[derive(Clone)]
pub(crate) struct Written {
    /// One plan per target table.
    pub(crate) targets: Arc<[Arc<TablePlan>]>,
    /// What is done with rows that do not fit, per target table.
    pub(crate) misfits: Arc<[Arc<Misfit>]>,
    /// The keys of rows that they touch, per target table; empty where nothing can be parked.
    pub(crate) keys: Arc<[Footprint]>,
}

impl Written {
    /// Whether nothing is said about rows that do not fit.
    pub(crate) fn is_plain(&self) -> bool {
        self.misfits.iter().all(|misfit| misfit.is_plain)
    }

    /// Whether rows must be looked at before they are written.
    pub(crate) fn looks_first(&self) -> bool {
        self.misfits.iter().any(|misfit| misfit.conflicts.is_some())
    }

    /// Adds what a change touches that becomes `converted`, by the keys of rows.
    pub(crate) fn touch(&self, operation: &Operation, converted: &[Converted], touched: &mut WriteSet) {
        touch(&self.keys, operation, converted, touched);
    }
}

/// What is written for an operation that becomes `converted` at the target with number `place`, if anything is.
pub(crate) fn written_for<'o>(
    operation: &'o Operation,
    converted: &'o [Converted],
    place: usize,
) -> Option<&'o Operation> {
    match converted.get(place) {
        None | Some(Converted::Same) => Some(operation),
        Some(Converted::Other(other)) => Some(other),
        Some(Converted::Nothing) => None,
    }
}

/// Adds what an operation touches that becomes `converted`.
pub(crate) fn touch(footprints: &[Footprint], operation: &Operation, converted: &[Converted], touched: &mut WriteSet) {
    for (place, footprint) in footprints.iter().enumerate() {
        if let Some(operation) = written_for(operation, converted, place) {
            footprint.touch(operation, touched);
        }
    }
}

/// How the changes of one table definition are written.
pub(crate) struct Mapped {
    /// The definition as it last came from the trail; equal definitions of several files lead to one entry.
    definition: Arc<TableDefinition>,
    /// Where they go.
    pub(crate) written: Written,
    /// What its changes touch, per target table; empty where nobody asks.
    pub(crate) footprints: Vec<Footprint>,
    /// Which thread applies its changes, per target table; empty where nobody asks.
    threads: Vec<ThreadPlan>,
    /// Why there is no target.
    filtered: Option<FilterReason>,
    /// The last CSN that the table's initial copy holds.
    copied: Option<Csn>,
    /// Where its changes are counted.
    pub(crate) counted_as: TableIndex,
}

impl Mapped {
    /// What a change becomes per target; empty where it is written as it is.
    pub(crate) fn convert(&self, change: &Change) -> Vec<Converted> {
        let Written { targets, misfits, .. } = &self.written;
        if !misfits.iter().any(|misfit| misfit.converts) {
            return Vec::new();
        }
        let converted = |(plan, misfit): (&Arc<TablePlan>, &Arc<Misfit>)| {
            handling::convert(&misfit.handling.conversions, plan, &change.operation)
        };
        targets.iter().zip(misfits.iter()).map(converted).collect()
    }

    /// Adds what the schedule must know of a change that becomes `converted`.
    pub(crate) fn touch(&self, change: &Change, converted: &[Converted], touched: &mut WriteSet) {
        touch(&self.footprints, &change.operation, converted, touched);
        if self.written.is_plain() {
            return;
        }
        // A rule may make an insert of it, which refers to parents that the update leaves alone.
        if let Operation::Update { old, new } = &change.operation {
            let insert = Operation::Insert { new: handling::completed(new, old.as_ref()) };
            touch(&self.footprints, &insert, &[], touched);
        }
    }

    /// Which thread of a coordinated group applies a change: all together where its targets belong to several.
    pub(crate) fn lane(&self, operation: &Operation) -> Lane {
        let mut lanes = self.threads.iter().map(|plan| plan.lane(operation));
        let first = lanes.next().unwrap_or(Lane::Barrier);
        if lanes.all(|lane| lane == first) { first } else { Lane::Barrier }
    }

    /// Why a change of this commit is not written, if it is not.
    pub(crate) fn filter(&self, commit: &Commit) -> Option<FilterReason> {
        let is_copied = self.copied.as_ref().is_some_and(|csn| commit.csn <= *csn);
        self.filtered.or(is_copied.then_some(FilterReason::Copied))
    }
}

/// All plans of a session. They are made anew with each session, because the target's tables may have changed.
#[derive(Default)]
pub(crate) struct Plans {
    mapped: Vec<Mapped>,
    /// The newest entry of each source table. A table that comes with another definition was altered, at the target too
    /// perhaps, so what was planned before is not used again.
    by_name: HashMap<TableName, usize>,
    /// The same entries by the address of their definition, which they keep alive so that no other can get it. Changes of
    /// several tables take turns, and finding each by its name would cost more than the rest of its way.
    by_address: HashMap<usize, usize>,
    latest: Option<usize>,
    copies: Copies,
    /// What is asked about changes besides.
    asked: Asked,
    /// Whether changes may be parked, so that what they touch is asked for that.
    parks: bool,
    /// The entry of heartbeats.
    heartbeats: Option<usize>,
}

/// What is asked about changes besides how they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing.
    #[default]
    Nothing,
    /// What they touch.
    Touches,
    /// Which thread applies them.
    Threads,
}

impl Plans {
    /// Makes all plans anew at their next use: the target's tables may have changed. Entries keep their numbers.
    pub(crate) fn renew(&mut self) {
        self.by_name.clear();
        self.by_address.clear();
        self.latest = None;
        self.heartbeats = None;
    }

    /// What is done with rows that do not fit, of all entries.
    pub(crate) fn misfits(&self) -> impl Iterator<Item = &Misfit> {
        self.mapped.iter().flat_map(|mapped| mapped.written.misfits.iter()).map(|misfit| &**misfit)
    }

    /// No plans yet, over a target that initial copies were made to, that tell what is asked; `parks`: also what parked changes
    /// touch.
    pub(crate) fn asked_over(copies: Copies, asked: Asked, parks: bool) -> Plans {
        Plans { copies, asked, parks, ..Plans::default() }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Where changes of all entries go, by number.
    pub(crate) fn written(&self) -> Vec<Written> {
        self.mapped.iter().map(|mapped| mapped.written.clone()).collect()
    }

    /// The entry with number `index`.
    pub(crate) fn get(&self, index: usize) -> &Mapped {
        &self.mapped[index]
    }

    /// The number of the entry for heartbeats, made by asking `session` at first use.
    pub(crate) fn heartbeats(
        &mut self,
        heartbeats: &Heartbeats,
        session: &mut dyn Session,
        position: Position,
    ) -> Result<usize, PlanError> {
        if let Some(known) = self.heartbeats {
            return Ok(known);
        }
        let made = heartbeats.plans(session, position).map_err(|failure| match failure {
            PlanFailure::Session(source) => PlanError::Session(source),
            PlanFailure::Stop(error) => PlanError::Stop(error),
        })?;
        let (targets, misfits): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let footprints = self.footprints(&targets, &misfits, session)?;
        let written = Written { targets: targets.into(), misfits: misfits.into(), keys: Arc::new([]) };
        self.mapped.push(Mapped {
            definition: Arc::clone(heartbeats.shape()),
            written,
            footprints,
            threads: Vec::new(),
            filtered: None,
            copied: None,
            counted_as: TableIndex::UNCOUNTED,
        });
        let index = self.mapped.len() - 1;
        self.heartbeats = Some(index);
        Ok(index)
    }

    /// What changes touch, per target table; empty where nobody asks.
    fn footprints(
        &self,
        targets: &[Arc<TablePlan>],
        misfits: &[Arc<Misfit>],
        session: &mut dyn Session,
    ) -> Result<Vec<Footprint>, PlanError> {
        if self.asked != Asked::Touches {
            return Ok(Vec::new());
        }
        let footprint = |(plan, misfit): (&Arc<TablePlan>, &Arc<Misfit>)| {
            let mut order = session.order(&plan.target.name).map_err(PlanError::Session)?;
            let is_told = |target: usize| !misfit.makes_values_of(plan, target);
            let is_unique_told = |key: &UniqueKey| key.columns.iter().all(|column| is_told(*column));
            // A history has the order of the source; and a unique value that a rule makes, no change tells of.
            if misfit.keeps_history() || !order.unique.iter().all(is_unique_told) {
                order.scope = order.scope.max(OrderScope::Table);
            }
            Ok(Footprint::new(plan, &order))
        };
        targets.iter().zip(misfits).map(footprint).collect()
    }

    /// The keys of rows that changes touch, per target table: enough where the target tells no more.
    fn keys(&self, targets: &[Arc<TablePlan>], session: &mut dyn Session) -> Result<Arc<[Footprint]>, PlanError> {
        if !self.parks {
            return Ok(Arc::new([]));
        }
        let footprint = |plan: &Arc<TablePlan>| {
            let mut order = session.order(&plan.target.name).map_err(PlanError::Session)?;
            if order.scope == OrderScope::Database {
                order.scope = OrderScope::Rows;
            }
            Ok(Footprint::new(plan, &order))
        };
        targets.iter().map(footprint).collect()
    }

    /// The number of the entry for changes of `table`, made by asking `session` for the target tables at first use.
    pub(crate) fn find(
        &mut self,
        table: &Arc<TableDefinition>,
        rules: &MapPlan,
        session: &mut dyn Session,
        statistics: &mut Statistics,
        position: Position,
    ) -> Result<usize, PlanError> {
        if let Some(latest) = self.latest
            && Arc::ptr_eq(&self.mapped[latest].definition, table)
        {
            return Ok(latest);
        }
        let index = match self.by_address.get(&Arc::as_ptr(table).addr()) {
            Some(index) => *index,
            None => self.find_by_name(table, rules, session, statistics, position)?,
        };
        self.latest = Some(index);
        Ok(index)
    }

    /// As [`find`](Plans::find), for a definition that has not been seen at its address.
    fn find_by_name(
        &mut self,
        table: &Arc<TableDefinition>,
        rules: &MapPlan,
        session: &mut dyn Session,
        statistics: &mut Statistics,
        position: Position,
    ) -> Result<usize, PlanError> {
        let known = self.by_name.get(&table.name).copied();
        if let Some(known) = known {
            self.by_address.remove(&Arc::as_ptr(&self.mapped[known].definition).addr());
        }
        let index = match known.filter(|index| self.mapped[*index].definition == *table) {
            Some(index) => {
                self.mapped[index].definition = Arc::clone(table);
                index
            }
            None => {
                let made = make(table, rules, session, position, self.asked)?;
                let (mut targets, mut misfits, mut threads) = (Vec::new(), Vec::new(), Vec::new());
                for Made { plan, misfit, thread } in made {
                    targets.push(plan);
                    misfits.push(misfit);
                    threads.extend(thread);
                }
                let targets: Arc<[Arc<TablePlan>]> = targets.into();
                let footprints = self.footprints(&targets, &misfits, session)?;
                let keys = self.keys(&targets, session)?;
                let filtered = targets.is_empty().then(|| match rules.is_excluded(&table.name) {
                    true => FilterReason::Excluded,
                    false => FilterReason::NotMapped,
                });
                let counted_as = statistics.table(&table.name);
                let copied = self.copies.csn(&table.name).cloned();
                self.mapped.push(Mapped {
                    definition: Arc::clone(table),
                    written: Written { targets, misfits: misfits.into(), keys },
                    footprints,
                    threads,
                    filtered,
                    copied,
                    counted_as,
                });
                let index = self.mapped.len() - 1;
                self.by_name.insert(table.name.clone(), index);
                index
            }
        };
        self.by_address.insert(Arc::as_ptr(table).addr(), index);
        Ok(index)
    }
}

/// A plan, what is done with rows that do not fit it, and which thread has its changes, if that is asked.
struct Made {
    plan: Arc<TablePlan>,
    misfit: Arc<Misfit>,
    thread: Option<ThreadPlan>,
}

/// Why there is no plan.
pub(crate) enum PlanError {
    /// The session failed.
    Session(database::Error),
    /// The tables do not fit.
    Stop(Error),
}

fn make(
    table: &Arc<TableDefinition>,
    rules: &MapPlan,
    session: &mut dyn Session,
    position: Position,
    asked: Asked,
) -> Result<Vec<Made>, PlanError> {
    let mut plans = Vec::new();
    for target in rules.targets(&table.name) {
        let refuse = |source| PlanError::Stop(Error::Mapping { position, source: Box::new(source) });
        let definition = session.table(&target.target).map_err(PlanError::Session)?.ok_or_else(|| {
            refuse(mapping::MappingError::NoTarget { source_table: table.name.clone(), target: target.target.clone() })
        })?;
        let plan = mapping::plan(table, definition, target.key_columns.as_deref()).map_err(refuse)?;
        let handling = Arc::clone(&target.handling);
        let unfit = |source| PlanError::Stop(Error::Handling { position, source });
        let exceptions = match &handling.exceptions {
            None => None,
            Some(exceptions) => {
                let definition = session.table(&exceptions.target).map_err(PlanError::Session)?.ok_or_else(|| {
                    let (source_table, target) = (table.name.clone(), exceptions.target.clone());
                    refuse(mapping::MappingError::NoTarget { source_table, target })
                })?;
                Some(handling::ExceptionsPlan::new(table, definition, exceptions).map_err(refuse)?)
            }
        };
        let misfit = Misfit::new(&plan, handling, exceptions).map_err(unfit)?;
        let thread = (asked == Asked::Threads).then(|| ThreadPlan::new(&plan, &target.threads)).transpose();
        let thread = thread.map_err(|column| {
            let (source_table, target) = (table.name.clone(), target.target.clone());
            refuse(mapping::MappingError::ThreadColumn { source_table, target, column })
        })?;
        plans.push(Made { plan: Arc::new(plan), misfit: Arc::new(misfit), thread });
    }
    Ok(plans)
}
