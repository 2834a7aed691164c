//! `drover trail`: the tools of `inspect` with files, a terminal and an exit status around them.

mod options;

pub use options::TrailTool;

use crate::logdump::{show_progress, wallet_keys};
use change::Timestamp;
use inspect::time::Zone;
use inspect::tools::{
    self, Dialect, ExportFormat, Follow, Look, Selection, SelectionWish, StatWish, TrailFiles, ValueTest, Work,
};
use inspect::{Error, Given, Progress};
use options::{Colours, Form, Picking, Source, Sql};
use process::{Code, Failure, Shutdown, clock};
use std::io::{self, BufWriter, IsTerminal, LineWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use trail::definitions_file;
use trail::storage::Directory;

/// Runs a tool.
pub fn run(tool: &TrailTool, home: Option<&Path>) -> ExitCode {
    match run_tool(tool, home) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Nobody listens any more: that is how a person ends a pager.
        Err(Error::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the exit status says the same.
            _ = writeln!(io::stderr(), "{}", failure(tool, &error).render());
            ExitCode::FAILURE
        }
    }
}

fn failure(tool: &TrailTool, error: &Error) -> Failure {
    match (tool, error) {
        (_, Error::Trail(error)) => Failure::from(error),
        (TrailTool::Undo(_), Error::Refused(_)) => Failure::of(Code::UndoRefused, error),
        (_, Error::Refused(_)) => Failure::of(Code::TrailToolRefused, error),
        _ => Failure::of(Code::TrailToolFailed, error),
    }
}

/// What a tool reads.
struct Opened {
    files: TrailFiles,
    given: Given,
}

impl Opened {
    fn of(source: &Source, home: Option<&Path>) -> Result<Opened, Error> {
        let mut given = Given::default();
        if source.decrypt {
            given.keys = Some(wallet_keys(home).map_err(Error::Refused)?);
        }
        if let Some(file) = &source.sourcedefs {
            let refuse = |what: String| Error::Refused(format!("{}: {what}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
            let tables = definitions_file::read(&text).map_err(|error| refuse(error.to_string()))?;
            given.definitions = tables.into_iter().map(Arc::new).collect();
        }
        let (directory, name) = place(&source.path);
        let files = TrailFiles::find(Arc::new(Directory::new(directory)), &name)?;
        Ok(Opened { files, given })
    }

    fn run<R>(&self, tool: impl FnOnce(&TrailFiles, &mut Work<'_>) -> Result<R, Error>) -> Result<R, Error> {
        let stdout = io::stdout();
        // Who looks on sees each line at once.
        let mut output: Box<dyn Write> = match stdout.is_terminal() {
            true => Box::new(LineWriter::new(stdout.lock())),
            false => Box::new(BufWriter::new(stdout.lock())),
        };
        let shows = io::stderr().is_terminal();
        let progress = |progress: Progress| {
            if shows {
                show_progress(progress);
            }
        };
        let done = tool(&self.files, &mut Work { output: &mut output, given: &self.given, progress: &progress });
        // What was found before a failure is shown.
        let flushed = output.flush().map_err(Error::Print);
        done.and_then(|done| flushed.map(|()| done))
    }
}

fn run_tool(tool: &TrailTool, home: Option<&Path>) -> Result<bool, Error> {
    match tool {
        TrailTool::Show(show) => {
            let opened = Opened::of(&show.source, home)?;
            let mut selection = selection(&show.picking)?;
            let look = Look { has_colours: has_colours(show.color), is_whole: show.full, is_flat: false };
            if !show.follow {
                opened.run(|files, work| tools::show(files, &mut selection, look, work))?;
                return Ok(true);
            }
            let shutdown =
                Shutdown::install().map_err(|error| Error::Refused(format!("could not listen to signals: {error}")))?;
            let from = if show.all { Follow::FromBeginning } else { Follow::FromEnd };
            let is_over = || shutdown.is_requested();
            opened.run(|files, work| tools::follow(files, from, &mut selection, look, work, &is_over))?;
            Ok(true)
        }
        TrailTool::Grep(grep) => {
            let opened = Opened::of(&grep.source, home)?;
            let mut selection = selection(&grep.picking)?;
            let look = Look { has_colours: has_colours(grep.color), is_whole: grep.full, is_flat: true };
            let found = match grep.count {
                false => opened.run(|files, work| tools::show(files, &mut selection, look, work))?,
                true => opened.run(|files, work| {
                    let found = tools::count(files, &mut selection, work)?;
                    writeln!(work.output, "{found}").map_err(Error::Print)?;
                    Ok(found)
                })?,
            };
            Ok(found > 0)
        }
        TrailTool::Stat(stat) => {
            let wish = StatWish {
                table: stat.table.clone(),
                from: instant(stat.from.as_deref())?,
                to: instant(stat.to.as_deref())?,
                span: stat.interval,
                transactions: stat.largest,
            };
            Opened::of(&stat.source, home)?.run(|files, work| tools::stat(files, &wish, work))?;
            Ok(true)
        }
        TrailTool::Export(export) => {
            let format = match export.format {
                Form::Json => ExportFormat::JsonLines,
                Form::Csv => ExportFormat::Csv,
                Form::Sql => ExportFormat::Sql(export.dialect.map(dialect)),
            };
            let mut selection = selection(&export.picking)?;
            let opened = Opened::of(&export.source, home)?;
            opened.run(|files, work| tools::export(files, &mut selection, format, work))?;
            Ok(true)
        }
        TrailTool::Verify(verify) => {
            let verdict = Opened::of(&verify.source, home)?.run(tools::verify)?;
            Ok(verdict.problems == 0)
        }
        TrailTool::Undo(undo) => {
            let dialect = undo.dialect.map(dialect);
            let opened = Opened::of(&undo.source, home)?;
            opened.run(|files, work| tools::undo(files, &undo.transaction, dialect, work))?;
            Ok(true)
        }
    }
}

fn dialect(sql: Sql) -> Dialect {
    match sql {
        Sql::Sqlite => Dialect::Sqlite,
        Sql::Postgresql => Dialect::Postgresql,
    }
}

fn has_colours(colours: Colours) -> bool {
    match colours {
        Colours::Auto => io::stdout().is_terminal(),
        Colours::Always => true,
        Colours::Never => false,
    }
}

fn selection(picking: &Picking) -> Result<Selection, Error> {
    let mut values = Vec::new();
    for column in &picking.column {
        let split = column.split_once('=');
        let (name, value) = split.ok_or_else(|| Error::Refused(format!("--column {column} has no =: NAME=VALUE")))?;
        values.push(ValueTest::Column { name: name.to_owned(), value: value.to_owned() });
    }
    values.extend(picking.key.iter().map(|key| ValueTest::Key(key.split(',').map(str::to_owned).collect())));
    values.extend(picking.value.iter().cloned().map(ValueTest::Anywhere));
    Selection::new(SelectionWish {
        tables: picking.table.clone(),
        operations: picking.operation.iter().map(|operation| operation.to_ascii_lowercase()).collect(),
        transaction: picking.transaction.clone(),
        from: instant(picking.from.as_deref())?,
        to: instant(picking.to.as_deref())?,
        values,
        environment: picking.tests.clone(),
    })
}

fn instant(text: Option<&str>) -> Result<Option<Timestamp>, Error> {
    let Some(text) = text else { return Ok(None) };
    let read = Zone::Fixed(0).parse_instant(text, clock::now(), &|_| 0);
    let wrong = || Error::Refused(format!("{text:?} is no time: [[yy]yy-mm-dd] [hh[:mm][:ss]], in UTC"));
    read.map(Some).ok_or_else(wrong)
}

/// The directory and the name of a file or trail.
fn place(file: &Path) -> (PathBuf, String) {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (directory.to_owned(), name)
}
