//! What becomes of a statement that defines objects: the rules, its targets, and running it.

use crate::error::Error;
use change::{Commit, DefinitionStatement, SequenceState, TableName};
use database::{ApplyError, DefinitionWrite, ErrorClass, Session};
use parameter::{DefinitionPlan, MapPlan};
use process::Code;
use trail::Position;

/// Where a statement goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The rules leave it out.
    PassedOver,
    /// It is run once for each of these: what its object, or the object's table, is called at the target, where that is not as
    /// at the source.
    Run(Vec<Option<TableName>>),
}

/// Where the statement goes by the rules.
pub(crate) fn way(statement: &DefinitionStatement, definitions: &DefinitionPlan, maps: &MapPlan) -> Way {
    let own = TableName::new(&*statement.owner, &*statement.object);
    // What belongs to a table goes with it.
    let source = statement.base.as_ref().unwrap_or(&own);
    let targets = maps.targets(source);
    let is_mapped = !targets.is_empty() || !maps.targets(&own).is_empty();
    if !definitions.includes(statement, is_mapped) {
        return Way::PassedOver;
    }
    let mut names: Vec<Option<TableName>> =
        targets.into_iter().map(|target| (target.target != *source).then_some(target.target)).collect();
    if names.is_empty() {
        names.push(None);
    }
    Way::Run(names)
}

/// What is told of a statement that the rules leave out.
pub(crate) fn passed_over(statement: &DefinitionStatement) -> String {
    format!("{}: {} is not run: the DDL rules leave it out", Code::DefinitionPassedOver, statement.title())
}

/// Whether a sequence that the target does not have may still come: a look at the source's sequences sees those that later
/// transactions made, and the one that makes it tells it again.
pub(crate) fn comes_with_a_statement(definitions: Option<&DefinitionPlan>, cause: &database::Error) -> bool {
    cause.class() == ErrorClass::Missing && definitions.is_some_and(|rules| rules.is_stated)
}

/// What is told of such a sequence.
pub(crate) fn not_made_yet(sequence: &SequenceState, position: Position) -> String {
    format!(
        "{}: the target has no sequence for {} at {position}; where it stands is told again behind the statement that makes it",
        Code::SequenceUnusable,
        sequence.name
    )
}

/// A statement that is about to run.
pub(crate) struct Defining {
    pub(crate) statement: Box<DefinitionStatement>,
    pub(crate) commit: Commit,
    pub(crate) targets: Vec<Option<TableName>>,
    pub(crate) position: Position,
    /// Whether its transaction starts with it.
    pub(crate) is_first: bool,
}

/// Why a statement did not run.
pub(crate) enum Obstacle {
    /// The target refused it.
    Refused(Error),
    /// The session failed.
    Session(database::Error),
}

impl Defining {
    /// Runs the statement in the transaction that is open in `session` and in which nothing was done, if it is the first of
    /// its transaction. What DDLERROR lets pass over is told to `notice`.
    pub(crate) fn run(
        &self,
        session: &mut dyn Session,
        rules: &DefinitionPlan,
        notice: &mut dyn FnMut(&str),
    ) -> Result<(), Obstacle> {
        let Defining { statement, commit, position, .. } = self;
        let title = statement.title();
        for target in &self.targets {
            if rules.reports {
                let name = target.as_ref().map_or(String::new(), |target| format!(" for {target}"));
                notice(&format!("{}: {title} is run{name}", Code::DefinitionCarried));
            }
            let write = DefinitionWrite {
                statement,
                target: target.as_ref(),
                csn: &commit.csn,
                transaction: &commit.transaction,
            };
            let rejection = match self.run_one(session, &write) {
                Ok(()) => continue,
                Err(ApplyError::Failed(source)) => return Err(Obstacle::Session(source)),
                Err(ApplyError::Rejected(rejection)) => rejection,
            };
            if !rules.ignores(&rejection.code, statement) {
                let (csn, position) = (commit.csn.clone(), *position);
                let (detail, code) = (rejection.detail, rejection.code);
                return Err(Obstacle::Refused(Error::Definition { position, csn, title, detail, code }));
            }
            let code = Code::DefinitionIgnored;
            notice(&format!("{code}: {title} at {position} was refused and is passed over: {}", rejection.detail));
        }
        Ok(())
    }

    fn run_one(&self, session: &mut dyn Session, write: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        if !self.is_first || !session.runs_alone(&self.statement) {
            return session.define(write);
        }
        session.rollback()?;
        let ran = session.define_alone(write);
        session.begin()?;
        session.settle_definition()?;
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::CaseRule;

    #[test]
    fn a_statement_goes_where_its_table_goes() {
        let text = "REPLICAT r1\nTARGETDB sqlite:t.db\nDDL INCLUDE MAPPED, INCLUDE OBJNAME s.free\n\
                    MAP s.t*, TARGET s.t*;\nMAP s.t2, TARGET copy.u;\nMAPEXCLUDE s.t9;";
        let parameters = parameter::parse_replicat(text, "r1.prm").expect("a valid file");
        let case = CaseRule::FoldToLower;
        let (rules, maps) = (parameters.definitions.plan(case, "s"), parameters.map.plan(case, "s", case, "s"));
        let way = |object: &str, base: Option<&str>| {
            let statement = DefinitionStatement {
                owner: "s".to_owned(),
                object: object.to_owned(),
                base: base.map(|base| TableName::new("s", base)),
                ..DefinitionStatement::default()
            };
            way(&statement, &rules, &maps)
        };
        assert_eq!(way("t1", None), Way::Run(vec![None]));
        assert_eq!(way("index", Some("t1")), Way::Run(vec![None]));
        assert_eq!(way("index", Some("t2")), Way::Run(vec![None, Some(TableName::new("copy", "u"))]));
        assert_eq!(way("t9", None), Way::PassedOver);
        assert_eq!(way("index", Some("x")), Way::PassedOver);
        assert_eq!(way("free", None), Way::Run(vec![None]));
    }
}
