//! `drover compare --apply`: mending one side.
//!
//! Both sides may be at work. A row that differs may only be on its way, so all is compared twice, with the time between that changes
//! may take: what differs in the same way both times is mended, what does not is left alone.

use super::{Compare, Failure, open_both, selection};
use change::TableName;
use database::{Database, Error, ErrorClass, ForeignKeyPolicy, SessionRequest, TriggerPolicy};
use reconcile::{CompareOptions, Comparison};
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Statements in one transaction: locks are not held for long.
const STATEMENTS_MAX: usize = 1000;

/// The name under which mending marks its transactions.
const GROUP: &str = "REPAIR";

/// Mends, and compares again; the verdict is that of the last comparison.
pub(super) fn apply(options: &Compare) -> Result<Comparison, Failure> {
    // The side that is mended is the target of the comparison, whichever it is on the command line.
    let turned = options.apply.as_deref() == Some("source");
    if turned && !options.map.is_empty() {
        let error = Error::new(ErrorClass::Unsupported, "--map names tables of the side that is right first")
            .with_next_step("change the two databases and the names of --map about, and give --apply target");
        return Err(error.into());
    }
    let (right, mended) = if turned { (&options.target, &options.source) } else { (&options.source, &options.target) };
    let compare = |plan: bool| -> Result<Comparison, Failure> {
        let compare_options =
            CompareOptions { selection: selection(options)?, rows_named_max: options.rows, repair: plan };
        let [mut right, mut mended] = open_both(right, mended)?;
        Ok(reconcile::compare(&mut *right, &mut *mended, &compare_options, &mut |_| {})?)
    };
    let first = compare(true)?;
    let mut output = io::stdout().lock();
    writeln!(output, "right {}\nmended {}\n", first.source, first.target)?;
    let last = if first.equal {
        first
    } else {
        let seen: HashSet<&String> = first.tables.iter().flat_map(|table| &table.repair).collect();
        if !change::sabotage::is_on("mend-what-is-on-its-way") {
            std::thread::sleep(Duration::from_secs(options.settle));
        }
        let second = compare(true)?;
        let all: Vec<&String> = second.tables.iter().flat_map(|table| &table.repair).collect();
        let stable: Vec<String> = match change::sabotage::is_on("mend-what-is-on-its-way") {
            true => seen.into_iter().cloned().collect(),
            false => all.iter().filter(|statement| seen.contains(*statement)).map(|one| (*one).clone()).collect(),
        };
        mend(mended, &stable)?;
        let left = all.len().saturating_sub(stable.len());
        writeln!(output, "{} rows mended, {left} left alone because they were still changing\n", stable.len())?;
        compare(false)?
    };
    for table in &last.tables {
        writeln!(output, "{}", table.text())?;
    }
    writeln!(output, "\n{}", last.closing_text())?;
    Ok(last)
}

fn mend(url: &str, statements: &[String]) -> Result<(), Failure> {
    if statements.is_empty() {
        return Ok(());
    }
    let database: Arc<dyn Database> = match url.split_once(':') {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("sqlite") => db_sqlite::open(&format!("sqlite:{path}"))?,
        _ => db_postgres::open(url)?,
    };
    let mut session = database.open_session(SessionRequest {
        group: GROUP.to_owned(),
        group_key: 0,
        checkpoint_table: TableName::new(database.default_schema(), "checkpoints"),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    })?;
    for some in statements.chunks(STATEMENTS_MAX) {
        session.begin()?;
        let mended = session.mend(some).and_then(|()| {
            session.commit().map_err(|error| match error {
                database::ApplyError::Failed(error) => error,
                database::ApplyError::Rejected(rejection) => {
                    Error::new(ErrorClass::Permanent, format!("the mended side refused: {}", rejection.detail))
                }
            })
        });
        if let Err(error) = mended {
            // The first error is the one to tell.
            let _ = session.rollback();
            return Err(error.into());
        }
    }
    Ok(())
}
