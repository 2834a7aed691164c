//! Which statement of a text it was that ran.
//!
//! The server tells the text that the client has sent, which may hold several statements, and the kind of the one that ran. How
//! many of this kind had run before in the same text is counted at the server, in a setting that goes back with a savepoint; what it
//! was at each statement is worked out here.

use super::text::{Statement, split};

/// What the server tells of a statement that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran<'a> {
    pub(super) text: &'a str,
    pub(super) tag: &'a str,
    /// The object's name without schema, where there is one.
    pub(super) object: &'a str,
    /// How many statements of the tag had run before, as the server counted.
    pub(super) ordinal: usize,
    /// Whether a function may have run the text more than once.
    pub(super) repeats: bool,
}

/// The statement that ran.
///
/// # Errors
/// Why it can't be told.
pub(super) fn choose<'a>(ran: &Ran<'a>) -> Result<Statement<'a>, String> {
    let statements = split(ran.text);
    let expected = ordinals(&statements, ran.tag);
    let fitting = |wanted: Option<usize>| {
        let chosen = statements.iter().zip(&expected).filter(move |(_, expected)| match wanted {
            None => expected.is_some(),
            Some(wanted) => **expected == Some(wanted),
        });
        chosen.map(|(statement, _)| statement).collect::<Vec<_>>()
    };
    let all = fitting(None);
    let mut candidates = match all.len() {
        0 => return Err(format!("the text that was sent holds no {} statement", ran.tag)),
        1 => return Ok(all[0].clone()),
        count => fitting(Some(if ran.repeats { ran.ordinal % count } else { ran.ordinal })),
    };
    if statements.iter().any(|statement| matches!(statement.first_word().as_str(), "RESET" | "DISCARD")) {
        candidates = all;
    }
    let is_named = |statement: &&&Statement<'_>| match statement.renamed_to().or_else(|| statement.own_name(ran.tag)) {
        Some(name) => name.parts.last().is_some_and(|name| name == ran.object),
        None => true,
    };
    let named: Vec<_> = candidates.iter().filter(is_named).collect();
    match named.as_slice() {
        [only] => Ok((**only).clone()),
        [first, others @ ..] if others.iter().all(|other| other.text() == first.text()) => Ok((**first).clone()),
        _ if candidates.len() == 1 => Ok(candidates[0].clone()),
        _ => Err("several statements were sent in one string, and it can't be told which of them it is".to_owned()),
    }
}

/// What the server's count was at each statement of the tag.
fn ordinals(statements: &[Statement<'_>], tag: &str) -> Vec<Option<usize>> {
    let (mut count, mut committed) = (0, 0);
    let mut savepoints: Vec<(String, usize)> = Vec::new();
    let mut ordinals = Vec::with_capacity(statements.len());
    for statement in statements {
        ordinals.push(statement.has_tag(tag).then_some(count));
        if ordinals.last() != Some(&None) {
            count += 1;
        }
        match (statement.first_word().as_str(), statement.savepoint()) {
            (_, Some((name, false))) => savepoints.push((name, count)),
            (_, Some((name, true))) => {
                if let Some(place) = savepoints.iter().rposition(|(known, _)| *known == name) {
                    savepoints.truncate(place + 1);
                    count = savepoints[place].1;
                }
            }
            // A BEGIN takes in what came before it in the string.
            ("COMMIT" | "END", None) => {
                committed = count;
                savepoints.clear();
            }
            ("ROLLBACK" | "ABORT", None) => {
                count = committed;
                savepoints.clear();
            }
            _ => {}
        }
    }
    ordinals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str, tag: &str, object: &str, ordinal: usize) -> String {
        let ran = Ran { text, tag, object, ordinal, repeats: false };
        choose(&ran).map_or_else(|error| format!("error: {error}"), |statement| statement.text().to_owned())
    }

    #[test]
    fn one_statement_of_a_kind_is_it() {
        let text = "SELECT 1; ALTER TABLE t ADD a int; CREATE TABLE u (b int)";
        assert_eq!(chosen(text, "ALTER TABLE", "t", 0), "ALTER TABLE t ADD a int");
        assert_eq!(chosen(text, "CREATE TABLE", "u", 0), "CREATE TABLE u (b int)");
        assert!(chosen(text, "CREATE VIEW", "v", 0).starts_with("error"));
    }

    #[test]
    fn of_several_the_count_decides() {
        let text = "ALTER TABLE t ADD a int; ALTER TABLE u ADD a int; ALTER TABLE t ADD b int";
        assert_eq!(chosen(text, "ALTER TABLE", "t", 0), "ALTER TABLE t ADD a int");
        assert_eq!(chosen(text, "ALTER TABLE", "u", 1), "ALTER TABLE u ADD a int");
        assert_eq!(chosen(text, "ALTER TABLE", "t", 2), "ALTER TABLE t ADD b int");
    }

    #[test]
    fn the_count_goes_back_with_a_savepoint_and_with_the_transaction() {
        let text = "BEGIN; ALTER TABLE t ADD d int; SAVEPOINT s; ALTER TABLE t DROP d; ROLLBACK TO s; ALTER TABLE u ADD e int; COMMIT";
        assert_eq!(chosen(text, "ALTER TABLE", "t", 0), "ALTER TABLE t ADD d int");
        // Both ran when the count was one; they are of other tables.
        assert_eq!(chosen(text, "ALTER TABLE", "t", 1), "ALTER TABLE t DROP d");
        assert_eq!(chosen(text, "ALTER TABLE", "u", 1), "ALTER TABLE u ADD e int");
        let text = "BEGIN; ALTER TABLE t ADD a int; ROLLBACK; ALTER TABLE t ADD b int";
        assert!(chosen(text, "ALTER TABLE", "t", 0).starts_with("error: several"));
        let text = "BEGIN; ALTER TABLE t ADD a int; ROLLBACK TO SAVEPOINT s; ALTER TABLE t ADD a int";
        assert_eq!(chosen(text, "ALTER TABLE", "t", 0), "ALTER TABLE t ADD a int");
    }

    #[test]
    fn a_setting_that_was_reset_is_not_believed() {
        let text = "ALTER TABLE t ADD a int; RESET ALL; ALTER TABLE t ADD b int";
        assert!(chosen(text, "ALTER TABLE", "t", 0).starts_with("error: several"));
    }

    #[test]
    fn a_text_that_a_function_runs_again_counts_on() {
        let text = "ALTER TABLE t ADD a int; ALTER TABLE t DROP a";
        let ran = Ran { text, tag: "ALTER TABLE", object: "t", ordinal: 3, repeats: true };
        assert_eq!(choose(&ran).map(|statement| statement.text().to_owned()), Ok("ALTER TABLE t DROP a".to_owned()));
    }
}
