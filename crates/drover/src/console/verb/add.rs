//! ADD

use crate::console::grammar::MEGABYTES_DEFAULT;
use crate::console::parse::Command;
use crate::console::registered::Registered;
use crate::console::unfinished::Unfinished;
use crate::console::verb::checkpoint_table::existing;
use crate::console::{Console, Failure};
use crate::run::{divergence_lines, of_partitions};
use capture::{PartitionError, PartitionedTables};
use change::{CaseRule, LogPosition, TableName};
use database::{CheckpointRow, Database, PatternRule, TablePattern, TableSelection};
use process::{
    Checkpoint, CheckpointBody, CheckpointError, CheckpointFile, ExtractCheckpoint, GroupKind, GroupLock, GroupName,
    HomeLock, ReadCheckpoint, ReplicatCheckpoint, ReplicatMode, StopStatus, TrailInput, TrailPlace, WriteCheckpoint,
    clock,
};
use std::path::Path;
use std::sync::Arc;
use trail::Position;
use trail::storage::{Directory, Storage};

/// Registers capture in the source and creates the checkpoint file with the position of this moment.
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let database = console.login()?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let interrupted = console.begin_adding(GroupKind::Extract, &group)?;
    let selection = selection(console, &group, &database)?;
    let is_registered = Registered::find(&console.home, &group)?;
    if is_registered && database.has_capture(group.as_str())? {
        return begin_registered(console, &group, &*database, &*selection);
    }
    if database.has_capture(group.as_str())? {
        if interrupted.is_none() {
            return Err(Failure::new(format!("the source captures for EXTRACT {group} already, and this home has no such group"))
                .with_next_step(format!(
                    "if {group} ran here before, put its checkpoint file back; if another home has a group of this name, choose \
                     another one; to take away what a lost group left: DELETE EXTRACT {group} !"
                )));
        }
        // What an interrupted ADD installed was never read.
        database.unregister_capture(group.as_str())?;
    }
    console.begin(GroupKind::Extract, &group, &Unfinished::default())?;
    let position = match database.register_capture(group.as_str(), &*selection) {
        Ok(position) => position,
        Err(error) => {
            console.finish(GroupKind::Extract, &group)?;
            return Err(error.into());
        }
    };
    create(console, &group, CheckpointBody::Extract(beginning(position.clone())))?;
    writeln!(console.output, "EXTRACT {group} added; it begins at source position {position}.")?;
    Ok(())
}

/// Adds a group that REGISTER EXTRACT has prepared.
fn begin_registered(
    console: &mut Console<'_>,
    group: &GroupName,
    database: &dyn Database,
    selection: &dyn TableSelection,
) -> Result<(), Failure> {
    let position = database.begin_capture(group.as_str(), selection)?;
    create(console, group, CheckpointBody::Extract(beginning(position.clone())))?;
    Registered::remove(&console.home, group)?;
    writeln!(console.output, "EXTRACT {group} added; it begins at source position {position}.")?;
    Ok(())
}

pub(super) fn beginning(position: LogPosition) -> ExtractCheckpoint {
    let place = ReadCheckpoint { position, time: None };
    ExtractCheckpoint {
        startup: place.clone(),
        recovery: place.clone(),
        current: place,
        written: None,
        trails: Vec::new(),
        streams: Vec::new(),
        bounded: None,
        left_out: Vec::new(),
        log_file_bytes: None,
        input: None,
    }
}

/// Adds a Pump: an Extract that reads a trail.
pub fn pump(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let trail = command.option("EXTTRAILSOURCE").unwrap_or_else(|| command.required("EXTFILESOURCE"));
    let place = console.trail_place(trail)?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.begin_adding(GroupKind::Extract, &group)?;
    let start = match trail_start(command) {
        Some(start) => start,
        None => first_position(&place)?,
    };
    let mut body = beginning(LogPosition::new(start.to_string()));
    // Where to begin is the operator's word: what the target holds then is not looked for in the source.
    let is_repositioned = command.has("EXTSEQNO");
    body.input = Some(Box::new(TrailInput { trail: trail.to_owned(), after: None, is_repositioned }));
    create(console, &group, CheckpointBody::Extract(body))?;
    writeln!(console.output, "EXTRACT {group} added; it begins at {start} of trail {trail}.")?;
    Ok(())
}

/// The place in a trail that EXTSEQNO and EXTRBA name.
pub(super) fn trail_start(command: &Command) -> Option<Position> {
    let number = |keyword| command.option(keyword).and_then(|text| text.parse::<u32>().ok());
    Some(Position::new(number("EXTSEQNO")?, u64::from(number("EXTRBA").unwrap_or(0))))
}

/// What the operator calls a trail or a file.
pub(super) fn keyword(place: &TrailPlace, is_remote: bool) -> &'static str {
    match (place.name.is_single(), is_remote) {
        (false, false) => "EXTTRAIL",
        (true, false) => "EXTFILE",
        (false, true) => "RMTTRAIL",
        (true, true) => "RMTFILE",
    }
}

/// Gives a Pump a trail to write in another home.
pub fn remote_trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let group = console.group(command.required("EXTRACT"))?;
    let place = console.trail_place(name)?;
    let megabytes = command.option("MEGABYTES").and_then(|text| text.parse().ok()).unwrap_or(MEGABYTES_DEFAULT);
    let megabytes = if place.name.is_single() { 0 } else { megabytes };
    if place.directory != console.home.dirdat() {
        return Err(Failure::new(format!("{name} does not lie in dirdat, where a receiver puts trails"))
            .with_next_step("name one such as ./dirdat/bb"));
    }
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let mut file = console.checkpoint_file(GroupKind::Extract, &group)?;
    let mut checkpoint = file.latest().clone();
    let CheckpointBody::Extract(body) = &mut checkpoint.body else { unreachable!("the file is an Extract's") };
    let Some(input) = &body.input else {
        let next_step =
            "give it a trail of this home with ADD EXTTRAIL, and send that with a Pump: ADD EXTRACT, EXTTRAILSOURCE";
        let what = format!("EXTRACT {group} reads a database, and only a Pump writes into another home");
        return Err(Failure::new(what).with_next_step(next_step));
    };
    if place.name.is_single() && !console.trail_place(&input.trail)?.name.is_single() {
        let what = format!("EXTRACT {group} reads trail {}, whose files a single file can't hold", input.trail);
        return Err(Failure::new(what).with_next_step("give it a trail to write, with ADD RMTTRAIL"));
    }
    refuse_second_trail(console, &group, body)?;
    body.trails.push(WriteCheckpoint { name: name.to_owned(), megabytes, position: None, is_remote: true });
    file.save(&checkpoint)?;
    let size = if place.name.is_single() { String::new() } else { format!(", files of {megabytes} MB") };
    writeln!(console.output, "{} {name} added for EXTRACT {group}{size}.", keyword(&place, true))?;
    Ok(())
}

fn refuse_second_trail(console: &Console<'_>, group: &GroupName, body: &ExtractCheckpoint) -> Result<(), Failure> {
    let Some(known) = body.trails.first() else { return Ok(()) };
    let place = console.trail_place(&known.name)?;
    let keyword = keyword(&place, known.is_remote);
    Err(Failure::new(format!("EXTRACT {group} writes {} already", place.described(&known.name)))
        .with_next_step(format!("DELETE {keyword} {} first", known.name)))
}

/// Gives an Extract a trail to write.
pub fn trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let group = console.group(command.required("EXTRACT"))?;
    let megabytes = command.option("MEGABYTES").and_then(|text| text.parse().ok()).unwrap_or(MEGABYTES_DEFAULT);
    let place = console.trail_place(name)?;
    // The files of a trail are of a size; a single file is as long as it gets.
    let megabytes = if place.name.is_single() { 0 } else { megabytes };
    let _home = HomeLock::acquire(&console.home)?;
    let lock = GroupLock::acquire(&console.home, &group)?;
    for (owner, known) in console.trails()? {
        if console.trail_place(&known.name)? == place {
            return Err(Failure::new(format!(
                "{} has a writer: EXTRACT {owner} as {}",
                place.described(name),
                known.name
            ))
            .with_next_step("choose another one: a trail has one writer"));
        }
    }
    let storage = Directory::new(&place.directory);
    let files = storage.list().map_err(|error| {
        Failure::new(format!("could not read directory {}: {error}", place.directory.display()))
            .with_next_step("make the directory, or choose another trail")
    })?;
    let belongs = |file: &&String| place.name.sequence_of(file).is_some() || **file == place.name.safe_file();
    if let Some(file) = files.iter().filter(belongs).min_by_key(|file| (**file == place.name.safe_file(), *file)) {
        return Err(Failure::new(format!("{} can't be added: file {file} is there already", place.described(name)))
            .with_next_step("choose another name, or move the old files away once nobody reads them"));
    }
    let mut file = console.checkpoint_file(GroupKind::Extract, &group)?;
    let mut checkpoint = file.latest().clone();
    let CheckpointBody::Extract(body) = &mut checkpoint.body else { unreachable!("the file is an Extract's") };
    refuse_second_trail(console, &group, body)?;
    if let Some(input) = &body.input
        && console.trail_place(&input.trail)?.is_same(&place)
    {
        return Err(Failure::new(format!("EXTRACT {group} reads trail {}", input.trail))
            .with_next_step("give it another trail to write"));
    }
    body.trails.push(WriteCheckpoint { name: name.to_owned(), megabytes, position: None, is_remote: false });
    file.save(&checkpoint)?;
    drop(lock);
    let size = if place.name.is_single() { String::new() } else { format!(", files of {megabytes} MB") };
    writeln!(console.output, "{} {name} added for EXTRACT {group}{size}.", place.keyword())?;
    Ok(())
}

/// Adds a Replicat's row and checkpoint file.
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let database = console.login()?;
    if command.has("NODBCHECKPOINT") {
        let what =
            "NODBCHECKPOINT is refused: the position is committed with the rows, which takes a table in the target";
        return Err(
            Failure::new(what).with_next_step("ADD CHECKPOINTTABLE, and name it with CHECKPOINTTABLE or in GLOBALS")
        );
    }
    let table = console.checkpoint_table(command.option("CHECKPOINTTABLE"))?;
    let mode = mode(&group, &*database, command)?;
    let trail = match (command.option("EXTTRAIL"), command.option("EXTFILE")) {
        (Some(name), None) | (None, Some(name)) => name,
        (named, _) => {
            let what =
                if named.is_some() { "EXTTRAIL and EXTFILE exclude each other" } else { "what to apply is missing" };
            return Err(Failure::new(what).with_next_step("give one of EXTTRAIL trail and EXTFILE file"));
        }
    };
    let place = console.trail_place(trail)?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let interrupted = console.begin_adding(GroupKind::Replicat, &group)?;
    existing(&*database, &table)?;
    if let Some(Unfinished { checkpoint_table: Some(table), group_key: Some(key), .. }) = &interrupted {
        let table = TableName::parse(table).map_err(|error| Failure::new(error.to_string()))?;
        if database.has_checkpoint_table(&table)? {
            database.delete_checkpoint(&table, group.as_str(), *key)?;
        }
    }
    // Rows of other homes are none of ours: the group key tells them apart.
    let rows = database.checkpoints(&table, group.as_str())?;
    if let Some(row) = rows.iter().find(|row| Path::new(&row.directory) == console.home.path()) {
        return Err(Failure::new(format!(
            "checkpoint table {table} has a row of group {group} of this home, at trail position {}",
            Position::new(row.sequence, row.rba)
        ))
        .with_next_step(format!(
            "if {group} ran before, put its checkpoint file back; to take the row away: DELETE REPLICAT {group}, \
             CHECKPOINTTABLE {table} !"
        )));
    }
    let group_key =
        i64::from(fastrand::u32(1..)) << 31 | i64::from(fastrand::u32(..) >> 1) & !(CheckpointRow::KEY_STEP - 1);
    let unfinished =
        Unfinished { checkpoint_table: Some(table.to_string()), group_key: Some(group_key), deleting: false };
    console.begin(GroupKind::Replicat, &group, &unfinished)?;
    let now = clock::now();
    let begin = first_position(&place)?;
    let row = CheckpointRow {
        group_name: group.to_string(),
        group_key,
        sequence: begin.sequence,
        rba: begin.rba,
        audit_time: None,
        created: now,
        updated: now,
        directory: console.home.path().display().to_string(),
        log_bsn: None,
        log_csn: None,
        log_complete_csn: None,
        log_complete_transactions: Vec::new(),
        version: CheckpointRow::VERSION,
    };
    database.insert_checkpoint(&table, &row)?;
    let body = ReplicatCheckpoint {
        trail: trail.to_owned(),
        checkpoint_table: table.clone(),
        group_key,
        startup: begin,
        current: begin,
        applied: None,
        mode,
    };
    create(console, &group, CheckpointBody::Replicat(body))?;
    writeln!(console.output, "REPLICAT {group} added; it begins at the start of {}.", place.described(trail))?;
    warn_of_methods(console, &group, &*database)
}

/// Names methods of the parameter file that may leave sites different, where the file is there and can be read; a start tells more.
fn warn_of_methods(console: &mut Console<'_>, group: &GroupName, database: &dyn Database) -> Result<(), Failure> {
    let path = console.home.parameter_file(group);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let Ok(parameters) = parameter::parse_replicat(&text, &path.display().to_string()) else { return Ok(()) };
    let (case, schema) = (database.case_rule(), database.default_schema());
    let rules = parameters.map.plan(case, &schema, case, &schema);
    for line in divergence_lines(&rules, parameters.conflict_sites) {
        writeln!(console.output, "WARNING {}: {line}", process::Code::ConflictMethodDiverges)?;
    }
    Ok(())
}

/// How the group shares its work, as the command says.
fn mode(group: &GroupName, database: &dyn Database, command: &Command) -> Result<ReplicatMode, Failure> {
    let mode = match (command.has("PARALLEL"), command.has("COORDINATED")) {
        (true, true) => {
            let what = "PARALLEL and COORDINATED exclude each other";
            return Err(Failure::new(what).with_next_step("give one of them, or neither"));
        }
        (true, false) => ReplicatMode::Parallel,
        (false, true) => {
            let threads = command.option("MAXTHREADS").and_then(|text| text.parse().ok());
            ReplicatMode::Coordinated { threads: threads.unwrap_or(ReplicatMode::THREADS_DEFAULT) }
        }
        (false, false) => ReplicatMode::AsParametersSay,
    };
    let is_coordinated = matches!(mode, ReplicatMode::Coordinated { .. });
    if command.has("MAXTHREADS") && !is_coordinated {
        return Err(
            Failure::new("MAXTHREADS is for COORDINATED").with_next_step("add COORDINATED, or leave MAXTHREADS out")
        );
    }
    // Three digits of a thread go behind it.
    if is_coordinated && group.as_str().len() > GroupName::LENGTH_MAX - 3 {
        let what =
            format!("{group} is too long for a coordinated group, whose threads are called {group}001 and so on");
        return Err(Failure::new(what).with_next_step("choose a name of at most 5 characters"));
    }
    if mode != ReplicatMode::AsParametersSay && database.appliers_max() < 2 {
        return Err(Failure::new(format!("the target takes one session, and {mode} asks for several"))
            .with_next_step("leave the mode out"));
    }
    Ok(mode)
}

/// The start of the first file that the trail has now: earlier ones may have been purged. From then on the position holds the
/// file fast.
pub(super) fn first_position(place: &TrailPlace) -> Result<Position, Failure> {
    match Directory::new(&place.directory).list() {
        Ok(files) => {
            let first = files.iter().filter_map(|file| place.name.sequence_of(file)).min();
            Ok(Position::new(first.unwrap_or(0), 0))
        }
        // A trail may be read before it exists.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Position::default()),
        Err(error) => Err(Failure::new(format!("could not read directory {}: {error}", place.directory.display()))),
    }
}

/// Creates the checkpoint file, which makes the group exist, and takes the note of ADD away.
pub(super) fn create(console: &Console<'_>, group: &GroupName, body: CheckpointBody) -> Result<(), Failure> {
    let now = clock::now();
    let first = Checkpoint { created: now, started: None, updated: now, stop_status: StopStatus::Active, body };
    let kind = first.kind();
    CheckpointFile::create(console.checkpoint_storage(), kind, group, &first)?;
    console.finish(kind, group)
}

impl Console<'_> {
    /// Checks that the group does not exist and returns the note of an ADD that was interrupted. A checkpoint file that
    /// such an ADD left torn is taken away.
    pub(super) fn begin_adding(&self, kind: GroupKind, group: &GroupName) -> Result<Option<Unfinished>, Failure> {
        // Both kinds share names in reports and locks.
        for other in [GroupKind::Extract, GroupKind::Replicat] {
            let unfinished = self.unfinished(other, group)?;
            if unfinished.as_ref().is_some_and(|unfinished| unfinished.deleting) {
                return Err(Failure::new(format!("{other} {group} is half deleted"))
                    .with_next_step(format!("give DELETE {other} {group} again")));
            }
            match CheckpointFile::read(&*self.checkpoint_storage(), other, group, 1) {
                Ok(_) => {
                    // An ADD that was interrupted after its last step is complete.
                    self.finish(other, group)?;
                    return Err(Failure::new(format!("{other} {group} exists already"))
                        .with_next_step("choose another name, or delete the group first"));
                }
                Err(CheckpointError::Lost { .. }) => {}
                Err(error) if other != kind || unfinished.is_none() => return Err(error.into()),
                Err(_) => CheckpointFile::delete(&*self.checkpoint_storage(), kind, group)?,
            }
        }
        self.unfinished(kind, group)
    }
}

/// The tables that the group's parameter file selects; all tables when there is no such file yet.
pub(super) fn selection(
    console: &Console<'_>,
    group: &GroupName,
    database: &Arc<dyn Database>,
) -> Result<Arc<dyn TableSelection>, Failure> {
    let path = console.home.parameter_file(group);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Arc::new(Everything)),
        Err(error) => return Err(Failure::new(format!("could not read {}: {error}", path.display()))),
    };
    let name = format!("{}.prm", group.to_lower());
    let parameters = parameter::parse_extract(&text, &name).map_err(|error| {
        Failure::new(error.to_string()).with_next_step("correct the parameter file, then add the group")
    })?;
    let (case, schema): (CaseRule, String) = (database.case_rule(), database.default_schema());
    let selection = capture::Selection::new(&parameters.tables, case, &schema);
    let tables = Arc::new(selection.with_definitions(parameters.definitions.is_some()));
    if parameters.partitions.is_empty() {
        return Ok(tables);
    }
    let plan = parameters.partitions.plan(case, &schema);
    let partitions = PartitionedTables::new(Arc::clone(database), plan, tables).map_err(|error| match error {
        PartitionError::Database(error) => error.into(),
        error => Failure::from(of_partitions(&error)),
    });
    Ok(partitions?)
}

/// Every table of a database.
struct Everything;

impl TableSelection for Everything {
    fn selects(&self, table: &TableName) -> bool {
        !database::is_heartbeat_object(table)
    }

    fn required(&self) -> Vec<TableName> {
        Vec::new()
    }

    fn key_columns(&self, _table: &TableName) -> Option<Vec<String>> {
        None
    }

    fn patterns(&self) -> Option<Vec<TablePattern>> {
        let anything = || vec![String::new(), String::new()];
        Some(vec![TablePattern { schema: anything(), table: anything(), rule: PatternRule::Selected }])
    }
}
