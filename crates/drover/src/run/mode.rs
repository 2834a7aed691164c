//! How a Replicat shares its work between sessions: what ADD REPLICAT and the parameter file say of it together.

use super::Run;
use crate::failure;
use apply::schedule::Parallelism;
use database::{Database, SessionRequest};
use parameter::ReplicatParameters;
use process::{Code, Failure, ReplicatCheckpoint, ReplicatMode};

/// Who applies.
pub(super) enum Sharing {
    /// One session, one target transaction after another.
    One,
    /// Appliers, whichever finds work.
    Appliers(Parallelism),
    /// So many threads, each with what the MAPs assign to it.
    Threads(u32),
}

/// What keeps a group to one session, in words.
fn why_alone(
    run: &Run,
    parameters: &ReplicatParameters,
    database: &dyn Database,
    is_coordinated: bool,
) -> Option<&'static str> {
    match () {
        // What triggers and the actions of foreign keys write, no change tells of.
        () if parameters.fire_triggers => Some("DBOPTIONS NOSUPPRESSTRIGGERS"),
        () if parameters.check_foreign_keys => Some("DBOPTIONS CHECKFOREIGNKEYS"),
        // A thread has a part of each transaction, and no word about the others'.
        () if is_coordinated && !parameters.map.is_plain() => Some("the rules for rows that do not fit"),
        // Without the filter the position may go back, which only a single row can tell.
        () if !run.start.filter_duplicates => Some("NOFILTERDUPTRANSACTIONS"),
        () if database.appliers_max() < 2 => Some("the target, which takes one session"),
        () => None,
    }
}

fn refused(what: String, next_step: &str) -> Box<Failure> {
    Failure::new(Code::GroupModeUnfit, what).with_next_step(next_step).into()
}

impl Run {
    /// Who applies, by the mode that the group was added in. `is_old`: the checkpoint table has no place for more than one.
    pub(super) fn sharing(
        &self,
        parameters: &ReplicatParameters,
        database: &dyn Database,
        request: &SessionRequest,
        body: &ReplicatCheckpoint,
        is_old: bool,
    ) -> Result<Sharing, Box<Failure>> {
        let (group, apply) = (&self.group, parameters.apply);
        let is_coordinated = matches!(body.mode, ReplicatMode::Coordinated { .. });
        let alone = why_alone(self, parameters, database, is_coordinated);
        let upgrade = format!("UPGRADE CHECKPOINTTABLE {}", body.checkpoint_table);
        match body.mode {
            ReplicatMode::Coordinated { threads } => {
                if let Some(word) = apply.said {
                    let what = format!("{word} has no effect in REPLICAT {group}, which was added with COORDINATED");
                    return Err(refused(what, "take it out; THREAD and THREADRANGE in MAP share the work"));
                }
                let highest = parameters.map.highest_thread();
                if highest > threads {
                    let what = format!(
                        "a MAP names thread {highest}, and REPLICAT {group} was added with MAXTHREADS {threads}"
                    );
                    return Err(refused(
                        what,
                        "name threads up to that number, or delete the group and add it anew with more",
                    ));
                }
                if let Some(why) = alone {
                    let what = format!("REPLICAT {group} was added with COORDINATED, and {why} needs one session");
                    return Err(refused(what, "take it out, or delete the group and add it anew without COORDINATED"));
                }
                if is_old {
                    let what = format!("the checkpoint table has no place for the threads of REPLICAT {group}");
                    return Err(refused(what, &upgrade));
                }
                return Ok(Sharing::Threads(threads));
            }
            ReplicatMode::Parallel if apply.classic => {
                let what =
                    format!("REPLICAT {group} was added with PARALLEL, and APPLY_PARALLELISM CLASSIC contradicts it");
                return Err(refused(what, "take it out, or delete the group and add it anew without PARALLEL"));
            }
            ReplicatMode::Parallel | ReplicatMode::AsParametersSay => {}
        }
        if let Some(word) = parameters.map.thread_word() {
            let what =
                format!("{word} in a MAP is for groups that were added with COORDINATED, and REPLICAT {group} was not");
            return Err(refused(what, "take it out, or delete the group and add it anew with COORDINATED"));
        }
        if is_old {
            if database.appliers_max() > 1 && !apply.classic {
                let text = format!("one session applies until {upgrade} makes room for several");
                self.journal.say(Code::Notice, text);
            }
            return Ok(Sharing::One);
        }
        if let Some(split) = apply.split_operations.filter(|_| parameters.map.judges_transactions()) {
            let what = format!(
                "SPLIT_TRANS_RECS {split} takes transactions of REPLICAT {group} apart, and a REPERROR rule concerns whole ones"
            );
            return Err(refused(what, "take one of the two out"));
        }
        if !apply.classic && alone.is_none() {
            let (least, most) = (apply.least_appliers as usize, apply.most_appliers as usize);
            return Ok(Sharing::Appliers(Parallelism::between(least, most)));
        }
        if let Some(split) = apply.split_operations {
            let what = format!(
                "SPLIT_TRANS_RECS {split} is for several appliers, and REPLICAT {group} applies with one session"
            );
            return Err(refused(what, "take it out"));
        }
        let of_database =
            |error: database::Error| failure::of_database(&error).with_object(parameters.target.to_string());
        let mut session = database.open_session(request.clone()).map_err(of_database)?;
        let set = session.load_checkpoints().map_err(of_database)?;
        // Rows of appliers that an earlier run has left are united by the next clean stop.
        if set.is_none_or(|set| set.appliers_wanted == 0) {
            if body.mode == ReplicatMode::Parallel {
                let why = alone.unwrap_or("the parameter file");
                self.journal
                    .say(Code::Notice, format!("one session applies, though the group was added with PARALLEL: {why}"));
            }
            return Ok(Sharing::One);
        }
        if self.start.filter_duplicates {
            return Ok(Sharing::Appliers(Parallelism::fixed(1)));
        }
        let what = "NOFILTERDUPTRANSACTIONS needs the checkpoint rows of the appliers to be united";
        let failure = Failure::new(Code::CheckpointForeign, what);
        Err(failure.with_next_step("start the group without it, stop it, and start it again with it").into())
    }
}
