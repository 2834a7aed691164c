//! DDL, DDLOPTIONS and DDLERROR: which statements that define objects are carried, and what becomes of those that fail.

use crate::cursor::{Cursor, Written};
use crate::define::unknown_option;
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::pattern::{NameMatcher, NamePattern};
use change::{CaseRule, DefinitionStatement, TableName};
use std::ops::Range;

/// Which objects a clause is about, by the names in TABLE or MAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Mapped,
    Unmapped,
    Other,
}

/// INCLUDE or EXCLUDE with its conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    is_exclusion: bool,
    scope: Scope,
    verb: Option<String>,
    object_type: Option<String>,
    name: Option<NamePattern>,
    text: Option<String>,
}

/// What DDLERROR says of one error code, or of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorRule {
    code: Option<String>,
    is_ignored: bool,
    /// Statements that it holds for; empty for all.
    clauses: Vec<Clause>,
}

/// The DDL statement of a parameter file, with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionRules {
    clauses: Vec<Clause>,
    errors: Vec<ErrorRule>,
    /// DDLOPTIONS REPORT: each statement is told in the report.
    pub reports: bool,
    /// Whether a DDL statement stands in the file.
    is_stated: bool,
}

impl DefinitionRules {
    /// INCLUDE MAPPED: what a Replicat does without a DDL statement.
    pub fn mapped() -> DefinitionRules {
        DefinitionRules { clauses: vec![Clause::of(Scope::Mapped)], ..DefinitionRules::default() }
    }

    /// The rules as a database reads them; names without a schema belong to `default_schema`.
    pub fn plan(&self, case: CaseRule, default_schema: &str) -> DefinitionPlan {
        let matcher = |clause: &Clause| clause.name.as_ref().map(|name| name.matcher(case, default_schema));
        let clauses = self.clauses.iter().map(|clause| (clause.clone(), matcher(clause))).collect();
        let matchers = |rule: &ErrorRule| rule.clauses.iter().map(matcher).collect();
        let errors = self.errors.iter().map(|rule| (rule.clone(), matchers(rule))).collect();
        DefinitionPlan { clauses, errors, reports: self.reports, is_stated: self.is_stated }
    }
}

/// The rules for statements that define objects, under the names of one database.
#[derive(Clone, Debug, Default)]
pub struct DefinitionPlan {
    clauses: Vec<(Clause, Option<NameMatcher>)>,
    errors: Vec<(ErrorRule, Vec<Option<NameMatcher>>)>,
    /// Whether each statement is told in the report.
    pub reports: bool,
    /// Whether the parameter file has a DDL statement, rather than the rules of one that has none.
    pub is_stated: bool,
}

impl DefinitionPlan {
    /// Whether the statement is carried. `is_mapped` says that a TABLE or MAP statement names its object, or the table that the
    /// object belongs to.
    pub fn includes(&self, statement: &DefinitionStatement, is_mapped: bool) -> bool {
        let holds = |(clause, name): &(Clause, Option<NameMatcher>)| clause.holds(name.as_ref(), statement, is_mapped);
        let mut clauses = self.clauses.iter().filter(|clause| holds(clause)).peekable();
        clauses.peek().is_some() && clauses.all(|(clause, _)| !clause.is_exclusion)
    }

    /// Whether `statement`, which the target refuses with this error code, is passed over. The first rule counts that names the
    /// code and holds for the statement, else the first of DEFAULT that does.
    pub fn ignores(&self, code: &str, statement: &DefinitionStatement) -> bool {
        let holds = |(rule, names): &&(ErrorRule, Vec<Option<NameMatcher>>)| {
            let holds = |(clause, name): (&Clause, &Option<NameMatcher>)| clause.holds(name.as_ref(), statement, false);
            let mut held = rule.clauses.iter().zip(names).filter(|both| holds(*both)).peekable();
            let only_excludes = rule.clauses.iter().all(|clause| clause.is_exclusion);
            (only_excludes || held.peek().is_some()) && held.all(|(clause, _)| !clause.is_exclusion)
        };
        let rule = |code: Option<&str>| {
            self.errors.iter().filter(|(rule, _)| rule.code.as_deref() == code).find(holds).map(|(rule, _)| rule)
        };
        rule(Some(code)).or_else(|| rule(None)).is_some_and(|rule| rule.is_ignored)
    }
}

impl Clause {
    fn of(scope: Scope) -> Clause {
        Clause { is_exclusion: false, scope, verb: None, object_type: None, name: None, text: None }
    }

    fn holds(&self, name: Option<&NameMatcher>, statement: &DefinitionStatement, is_mapped: bool) -> bool {
        let has_schema = !statement.owner.is_empty() || statement.base.is_some();
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Mapped => is_mapped,
            Scope::Unmapped => !is_mapped && has_schema,
            Scope::Other => !is_mapped && !has_schema,
        };
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let own = TableName::new(&*statement.owner, &*statement.object);
        let is_named = name
            .is_none_or(|name| name.matches(&own) || statement.base.as_ref().is_some_and(|base| name.matches(base)));
        in_scope
            && is(&self.verb, &statement.verb)
            && is(&self.object_type, &statement.object_type)
            && is_named
            && self.text.as_ref().is_none_or(|text| statement.text.contains(text.as_str()))
    }
}

const VERBS: [&str; 8] = ["CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "SECURITY", "IMPORT"];
const WORDS: [&str; 8] = ["ALL", "MAPPED", "UNMAPPED", "OTHER", "OPTYPE", "OBJTYPE", "OBJNAME", "INSTR"];

pub(crate) fn read_definitions(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    let mut clauses = Vec::new();
    while let Some(word) = cursor.word() {
        let is_exclusion = match word.value.to_ascii_uppercase().as_str() {
            "INCLUDE" => false,
            "EXCLUDE" => true,
            _ => return Err(unknown_option(cursor, word, "DDL", &["INCLUDE", "EXCLUDE"])),
        };
        clauses.push(read_clause(cursor, is_exclusion, word.place)?);
        cursor.take(',');
    }
    if clauses.is_empty() {
        clauses.push(Clause::of(Scope::All));
    }
    if clauses.iter().all(|clause| clause.is_exclusion) {
        let message = "DDL has nothing but EXCLUDE, so that it carries no statement";
        return Err(cursor.error(place, message, "add INCLUDE ALL or INCLUDE MAPPED in front"));
    }
    let rules = raw.definitions.get_or_insert_default();
    (rules.clauses, rules.is_stated) = (clauses, true);
    Ok(())
}

fn read_clause(cursor: &mut Cursor<'_>, is_exclusion: bool, place: Range<usize>) -> Result<Clause, Diagnostic> {
    let mut clause = Clause { is_exclusion, ..Clause::of(Scope::All) };
    let mut any = false;
    while let Some(word) = cursor.peek_word() {
        let upper = word.value.to_ascii_uppercase();
        if matches!(upper.as_str(), "INCLUDE" | "EXCLUDE") {
            break;
        }
        cursor.word();
        any = true;
        match upper.as_str() {
            "ALL" => clause.scope = Scope::All,
            "MAPPED" => clause.scope = Scope::Mapped,
            "UNMAPPED" => clause.scope = Scope::Unmapped,
            "OTHER" => clause.scope = Scope::Other,
            "OPTYPE" => {
                let verb = cursor.list_value("the kind of operation")?;
                if !VERBS.iter().any(|known| known.eq_ignore_ascii_case(&verb.value)) {
                    let message = format!("`{}` is no kind of operation", verb.value);
                    return Err(cursor.error(verb.place, message, format!("write one of {}", VERBS.join(", "))));
                }
                clause.verb = Some(verb.value);
            }
            "OBJTYPE" => clause.object_type = Some(cursor.list_value("the kind of object")?.value),
            "OBJNAME" => clause.name = Some(cursor.name_pattern("the name of an object")?.value),
            "INSTR" => clause.text = Some(cursor.list_value("a text")?.value),
            _ => return Err(unknown_option(cursor, word, "DDL", &WORDS)),
        }
    }
    if any {
        return Ok(clause);
    }
    let next_step = format!("write one of {} behind it", WORDS.join(", "));
    Err(cursor.error(place, "nothing says what this clause is about", next_step))
}

pub(crate) fn read_options(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    let mut any = false;
    while let Some(word) = cursor.word() {
        any = true;
        let reports = match word.value.to_ascii_uppercase().as_str() {
            "REPORT" => true,
            "NOREPORT" => false,
            _ => return Err(unknown_option(cursor, word, "DDLOPTIONS", &["REPORT", "NOREPORT"])),
        };
        raw.definition_options = Some((reports, place.clone()));
        cursor.take(',');
    }
    if any { Ok(()) } else { Err(cursor.error(place, "DDLOPTIONS has no option", "write REPORT or NOREPORT")) }
}

pub(crate) fn read_error(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Written { value, place } = cursor.list_value("an error code or DEFAULT")?;
    let code = match value.to_ascii_uppercase() {
        default if default == "DEFAULT" => None,
        code if code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Some(code),
        _ => {
            let next_step = "write DEFAULT or a code of five characters, such as 42P07";
            return Err(cursor.error(place, format!("`{value}` is no error code"), next_step));
        }
    };
    cursor.take(',');
    let Some(word) = cursor.word() else {
        let next_step = "write ABEND or IGNORE behind the code";
        return Err(cursor.error(cursor.end_place(), "DDLERROR does not say what to do", next_step));
    };
    let is_ignored = match word.value.to_ascii_uppercase().as_str() {
        "ABEND" => false,
        "IGNORE" => true,
        "DISCARD" => {
            return Err(has_no_meaning(cursor, word, "IGNORE tells the statement in the report, with its text"));
        }
        _ => return Err(unknown_option(cursor, word, "DDLERROR", &["ABEND", "IGNORE"])),
    };
    let mut clauses = Vec::new();
    cursor.take(',');
    while let Some(word) = cursor.word() {
        let is_exclusion = match word.value.to_ascii_uppercase().as_str() {
            "INCLUDE" => false,
            "EXCLUDE" => true,
            "RETRYOP" => {
                let why =
                    "the group itself tries a statement again that fails for a reason that may pass, such as a lock";
                return Err(has_no_meaning(cursor, word, why));
            }
            "RESTARTSKIP" => return Err(has_no_meaning(cursor, word, "start the group with SKIPTRANSACTION")),
            _ => return Err(unknown_option(cursor, word, "DDLERROR", &["INCLUDE", "EXCLUDE"])),
        };
        let place = word.place;
        let clause = read_clause(cursor, is_exclusion, place.clone())?;
        if clause.scope != Scope::All {
            let message = "MAPPED, UNMAPPED and OTHER say nothing of errors";
            return Err(cursor.error(place, message, "write OPTYPE, OBJTYPE, OBJNAME or INSTR"));
        }
        clauses.push(clause);
        cursor.take(',');
    }
    let known = |rule: &&ErrorRule| rule.code == code;
    // A second rule for a code says something new only of other statements.
    if raw.definition_errors.iter().filter(known).any(|rule| rule.clauses == clauses || rule.clauses.is_empty()) {
        let next_step = "keep one of them, and put the one without INCLUDE and EXCLUDE behind the others";
        return Err(cursor.error(place, format!("DDLERROR {value} is given twice"), next_step));
    }
    raw.definition_errors.push(ErrorRule { code, is_ignored, clauses });
    Ok(())
}

/// The refusal of a word that GoldenGate knows behind DDLERROR.
fn has_no_meaning(cursor: &Cursor<'_>, word: Written<&str>, next_step: &str) -> Diagnostic {
    cursor.error(word.place, format!("{} has no meaning here", word.value.to_ascii_uppercase()), next_step)
}

/// Puts together what stands in several statements.
pub(crate) fn rules_of(raw: &mut Raw) -> Option<DefinitionRules> {
    let errors = std::mem::take(&mut raw.definition_errors);
    let reports = raw.definition_options.take().is_some_and(|(reports, _)| reports);
    raw.definitions.take().map(|rules| DefinitionRules { errors, reports, ..rules })
}

pub(crate) const HELP: &str = "Without it an Extract carries no such statement, and a Replicat applies those that the trail holds about objects that its MAP \
statements name. Alone, it carries all.\n\n\
A statement is carried when one INCLUDE holds for it and no EXCLUDE does. In one clause all conditions must hold:\n\n\
- `ALL`, `MAPPED`, `UNMAPPED`, `OTHER`: any; objects whose name, or whose table's name, a TABLE or MAP statement selects; those of other \
names; those without a schema.\n\
- `OPTYPE`: the statement's first word: CREATE, ALTER, DROP, COMMENT, GRANT, REVOKE, SECURITY or IMPORT.\n\
- `OBJTYPE`: the kind of object, such as TABLE, INDEX, VIEW, TRIGGER, 'MATERIALIZED VIEW'.\n\
- `OBJNAME`: the object's name, or that of the table it belongs to, with wildcards.\n\
- `INSTR`: a text that stands in the statement.\n\n\
What is not carried is told in the report, once for each statement. See the guide of the database for what can be carried.";

pub(crate) const ERROR_HELP: &str = "`ABEND` stops the group, which is the default: it goes on with the same statement when it is started again. `IGNORE` takes \
back what the statement did, tells it in the report and goes on. `DEFAULT` stands for all codes that have no statement of their own. \
Behind it `INCLUDE` and `EXCLUDE` name statements, as in DDL: OPTYPE, OBJTYPE, OBJNAME, INSTR; of several rules for a code the first \
counts that holds for the statement. \
Codes are those of the target, SQLSTATE in PostgreSQL: 42P07 is a table that exists, 42P01 one that does not.";

#[cfg(test)]
mod tests {
    use crate::{parse_extract, parse_replicat};
    use change::{CaseRule, DefinitionStatement, TableName};

    fn statement(verb: &str, object_type: &str, name: &str, base: Option<&str>) -> DefinitionStatement {
        let (owner, object) = name.split_once('.').unwrap_or(("", name));
        DefinitionStatement {
            owner: owner.to_owned(),
            object: object.to_owned(),
            object_type: object_type.to_owned(),
            verb: verb.to_owned(),
            text: format!("{verb} {object_type} {name}"),
            base: base.map(|base| TableName::parse(base).expect("a name")),
            ..DefinitionStatement::default()
        }
    }

    #[test]
    fn a_statement_is_carried_when_an_include_holds_and_no_exclude_does() {
        let cases = [
            ("DDL", "ALTER TABLE s.t mapped|CREATE VIEW s.v|CREATE EXTENSION x", ""),
            ("DDL INCLUDE MAPPED", "ALTER TABLE s.t mapped", "ALTER TABLE s.t|CREATE EXTENSION x"),
            ("DDL INCLUDE UNMAPPED", "ALTER TABLE s.t", "ALTER TABLE s.t mapped|CREATE EXTENSION x"),
            ("DDL INCLUDE OTHER", "CREATE EXTENSION x", "ALTER TABLE s.t mapped|ALTER TABLE s.t"),
            (
                "DDL INCLUDE ALL, EXCLUDE OBJNAME s.tmp* OPTYPE drop, EXCLUDE OBJTYPE 'trigger'",
                "CREATE TABLE s.tmp1|DROP TABLE s.t",
                "DROP TABLE s.tmp1|CREATE TRIGGER s.x|DROP INDEX s.i on s.tmp2",
            ),
            (
                "DDL INCLUDE INSTR 'E s.' OPTYPE create INCLUDE OBJNAME s.x",
                "CREATE TABLE s.t|ALTER VIEW s.x",
                "ALTER TABLE s.t",
            ),
        ];
        for (ddl, carried, passed_over) in cases {
            let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa\n{ddl}\nTABLE s.*;");
            let rules = parse_extract(&text, "e1.prm").expect("a valid file").definitions.expect("it has rules");
            let plan = rules.plan(CaseRule::FoldToLower, "public");
            for (list, wanted) in [(carried, true), (passed_over, false)] {
                for case in list.split('|').filter(|case| !case.is_empty()) {
                    let (case, base) = case.split_once(" on ").map_or((case, None), |(case, base)| (case, Some(base)));
                    let words: Vec<&str> = case.split(' ').collect();
                    let found = plan.includes(&statement(words[0], words[1], words[2], base), words.len() > 3);
                    assert_eq!(found, wanted, "{ddl}: {case}");
                }
            }
        }
    }

    #[test]
    fn an_errors_own_rule_has_the_word_before_the_default() {
        let ignores_of = |statements: &str, code: &str, verb: &str, name: &str| {
            let text = format!("REPLICAT r1\nTARGETDB sqlite:t.db\nDDL\n{statements}\nMAP *, TARGET *;");
            let rules = parse_replicat(&text, "r1.prm").expect("a valid file").definitions;
            rules.plan(CaseRule::FoldToLower, "public").ignores(code, &statement(verb, "TABLE", name, None))
        };
        let ignores = |statements: &str, code: &str| ignores_of(statements, code, "ALTER", "public.t");
        assert!(!ignores("", "42P07") && ignores("DDLERROR 42p07 IGNORE", "42P07"));
        assert!(!ignores("DDLERROR 42P07 IGNORE", "42P01"));
        assert!(ignores("DDLERROR DEFAULT, IGNORE\nDDLERROR 42P07 ABEND", "42P01"));
        assert!(!ignores("DDLERROR DEFAULT, IGNORE\nDDLERROR 42P07 ABEND", "42P07"));
        // With conditions it holds for some statements only, and the next rule for others.
        let some = "DDLERROR 42P07 IGNORE INCLUDE OPTYPE CREATE OBJNAME s.*, EXCLUDE OBJNAME s.kept";
        assert!(ignores_of(some, "42P07", "CREATE", "s.t") && !ignores_of(some, "42P07", "CREATE", "s.kept"));
        assert!(!ignores_of(some, "42P07", "ALTER", "s.t") && !ignores_of(some, "42P01", "CREATE", "s.t"));
        let first = "DDLERROR 42P07 ABEND INCLUDE OBJNAME s.t\nDDLERROR 42P07 IGNORE";
        assert!(!ignores_of(first, "42P07", "CREATE", "s.t") && ignores_of(first, "42P07", "CREATE", "s.u"));
        let but = "DDLERROR DEFAULT IGNORE EXCLUDE OPTYPE DROP";
        assert!(ignores_of(but, "42P07", "CREATE", "s.t") && !ignores_of(but, "42P07", "DROP", "s.t"));
    }

    #[test]
    fn what_has_no_meaning_behind_an_error_is_refused_by_name() {
        for (statement, word) in [
            ("DDLERROR 42P07 IGNORE RETRYOP MAXRETRIES 3", "RETRYOP has no meaning"),
            ("DDLERROR 42P07 DISCARD", "DISCARD has no meaning"),
            ("DDLERROR 42P07 IGNORE RESTARTSKIP 2", "RESTARTSKIP has no meaning"),
            ("DDLERROR 42P07 IGNORE INCLUDE MAPPED", "say nothing of errors"),
            ("DDLERROR 42P07 IGNORE SOMETIMES", "SOMETIMES"),
            ("DDLERROR 942 IGNORE", "no error code"),
            ("DDLERROR 42P07 IGNORE\nDDLERROR 42P07 ABEND INCLUDE OPTYPE DROP", "given twice"),
        ] {
            let text = format!("REPLICAT r1\nTARGETDB sqlite:t.db\nDDL\n{statement}\nMAP *, TARGET *;");
            let refused = parse_replicat(&text, "r1.prm").expect_err(statement).to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn words_that_are_not_known_are_refused_by_name() {
        for (statement, word) in [
            ("DDL INCLUDE MAPPED OPTYPE FLASHBACK", "FLASHBACK"),
            ("DDL SOMETHING", "SOMETHING"),
            ("DDL INCLUDE STAYMETADATA", "STAYMETADATA"),
            ("DDL EXCLUDE ALL", "EXCLUDE"),
            ("DDL INCLUDE", "nothing says"),
            ("DDLOPTIONS ADDTRANDATA", "ADDTRANDATA"),
        ] {
            let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa\n{statement}\nTABLE s.*;");
            let refused = parse_extract(&text, "e1.prm").expect_err(statement).to_string();
            assert!(refused.contains(word), "{refused}");
        }
        for (statement, word) in
            [("DDLERROR 42P07 RETRYOP", "RETRYOP"), ("DDLERROR 7 IGNORE", "`7`"), ("DDLERROR DEFAULT", "what to do")]
        {
            let text = format!("REPLICAT r1\nTARGETDB sqlite:t.db\n{statement}\nMAP *, TARGET *;");
            let refused = parse_replicat(&text, "r1.prm").expect_err(statement).to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
