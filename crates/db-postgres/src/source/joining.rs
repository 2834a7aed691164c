//! Letting new tables join inside the transaction that makes them.
//!
//! An event trigger adds a table to the group's publication while the command that made it runs: no row of it comes
//! before that. Making an event trigger takes a right that a role mostly does not have; without it, new tables are looked
//! for at times, and join while they are empty.
//!
//! # What it never does
//! It adds no table whose updates the server would then refuse, for want of an identity. It lets no command of a user
//! fail: what goes wrong in it leaves the table to the next look. It waits for no lock for long.

use super::statements;
use crate::catalog::OUR_COMMENT;
use crate::name;
use crate::wire::{Connection, Error as WireError};
use database::{ErrorClass, PatternRule, TablePattern, TableSelection};

/// Name of the trigger's function, in a schema of its own.
const FUNCTION: &str = "join_tables";

/// Installs the trigger in the open transaction of `connection`, where the role may; returns whether it did.
pub(super) fn install(
    connection: &mut Connection,
    group: &str,
    selection: &dyn TableSelection,
) -> Result<bool, WireError> {
    let Some(patterns) = selection.patterns().filter(|_| !change::sabotage::is_on("join-late")) else {
        return Ok(false);
    };
    let publication = name::publication(group);
    let quoted = name::quote(&publication);
    // A schema that is there already may hold a function of somebody else's, which would then run with our rights: it
    // must be made by us, now.
    let sql = format!(
        "SAVEPOINT drover_joining; CREATE SCHEMA {quoted}; {}; \
         CREATE EVENT TRIGGER {quoted} ON ddl_command_end \
           WHEN TAG IN ('CREATE TABLE', 'CREATE SCHEMA', 'ALTER TABLE', 'COMMENT') EXECUTE FUNCTION {quoted}.{FUNCTION}(); \
         ALTER EVENT TRIGGER {quoted} ENABLE ALWAYS; \
         COMMENT ON EVENT TRIGGER {quoted} IS '{OUR_COMMENT}capture: new tables join'; RELEASE drover_joining",
        function(&publication, &patterns),
    );
    denied(connection.run(&sql), || connection.run("ROLLBACK TO drover_joining; RELEASE drover_joining"))
}

/// Whether what was `made` is there; what the role may not make is taken back by `undo`.
pub(super) fn denied(
    made: Result<u64, WireError>,
    undo: impl FnOnce() -> Result<u64, WireError>,
) -> Result<bool, WireError> {
    match made {
        Ok(_) => Ok(true),
        Err(error) if error.class() == ErrorClass::Denied => undo().map(|_| false),
        Err(error) => Err(error),
    }
}

/// Lets a trigger that is installed go by the selection as it is now; returns whether one is installed.
pub(super) fn refresh(
    connection: &mut Connection,
    group: &str,
    selection: &dyn TableSelection,
) -> Result<bool, WireError> {
    let publication = name::publication(group);
    let row = connection.query_one(
        "SELECT p.prosrc, pg_has_role(p.proowner, 'USAGE') FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid \
         WHERE e.evtname::text = $1 AND e.evtenabled <> 'D'",
        &[Some(&publication)],
    )?;
    let Some(row) = row else { return Ok(false) };
    let Some(patterns) = selection.patterns() else { return Ok(true) };
    // A role that may not change it leaves it as it is: what it lets join too much is passed over.
    if row.text(0) != Some(body(&publication, &patterns).as_str()) && row.flag(1) {
        connection.run(&function(&publication, &patterns))?;
    }
    Ok(true)
}

/// The statements that remove the trigger; empty when there is none.
pub(super) fn removal(connection: &mut Connection, publication: &str) -> Result<String, WireError> {
    let row = connection.query_one(
        "SELECT (SELECT count(*) FROM pg_event_trigger WHERE evtname::text = $1) > 0, \
           (SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
            WHERE n.nspname::text = $1 AND p.proname::text IN ($2, 'told') AND p.prorettype = 'event_trigger'::regtype) > 0",
        &[Some(publication), Some(FUNCTION)],
    )?;
    let Some(row) = row else { return Ok(String::new()) };
    let quoted = name::quote(publication);
    let mut sql = if row.flag(1) { statements::removal(publication) } else { String::new() };
    if row.flag(0) {
        sql.push_str(&format!("DROP EVENT TRIGGER IF EXISTS {quoted};"));
    }
    if row.flag(1) {
        sql.push_str(&format!("DROP FUNCTION IF EXISTS {quoted}.{FUNCTION}(); DROP SCHEMA IF EXISTS {quoted};"));
    }
    Ok(sql)
}

/// The statements that make the trigger's function, or make it anew.
fn function(publication: &str, patterns: &[TablePattern]) -> String {
    let quoted = name::quote(publication);
    // The user whose command runs need not own the publication. Names are looked up in the server's own schema only.
    format!(
        "CREATE OR REPLACE FUNCTION {quoted}.{FUNCTION}() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER \
         SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET row_security = off SET drover.session = 'on' \
         AS {}; REVOKE ALL ON FUNCTION {quoted}.{FUNCTION}() FROM PUBLIC",
        name::literal(&body(publication, patterns)),
    )
}

fn body(publication: &str, patterns: &[TablePattern]) -> String {
    BODY.replace("@ours@", &name::literal(&format!("{OUR_COMMENT}%")))
        .replace("@ancestor@", &selected("an.nspname", "ac.relname", patterns))
        .replace("@selected@", &selected("n.nspname", "c.relname", patterns))
        .replace("@publication@", &name::literal(publication))
}

/// The condition under which a table joins by itself. KEYCOLS may ask for another identity, which is left to the Extract.
pub(super) fn selected(schema: &str, table: &str, patterns: &[TablePattern]) -> String {
    let matching = |is_wanted: fn(PatternRule) -> bool| {
        let matching = patterns.iter().filter(|pattern| is_wanted(pattern.rule)).map(|pattern| {
            let (schemas, tables) = (like(&pattern.schema), like(&pattern.table));
            format!("{schema} LIKE {schemas} AND {table} LIKE {tables}")
        });
        let matching = matching.collect::<Vec<_>>().join(" OR ");
        if matching.is_empty() { "false".to_owned() } else { matching }
    };
    format!(
        "(({}) AND NOT ({}))",
        matching(|rule| rule == PatternRule::Selected),
        matching(|rule| rule != PatternRule::Selected)
    )
}

/// A pattern of LIKE for texts with anything between them.
fn like(texts: &[String]) -> String {
    let escaped = texts.iter().map(|text| text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"));
    name::literal(&escaped.collect::<Vec<_>>().join("%"))
}

/// The function. A new partition of a captured table with REPLICA IDENTITY FULL has none of its own, and the server would
/// refuse its updates: it takes that of its root. A table that is altered joins when the command's own lock keeps writers out and it is empty: then no row of
/// it can be missed. In a transaction that sees an old state of the table, that can't be told.
const BODY: &str = "
DECLARE
  made record;
  leaf record;
  is_filled boolean;
BEGIN
  FOR made IN
    SELECT DISTINCT c.oid, n.nspname, c.relname, c.relkind = 'p' AS is_partitioned, d.command_tag,
      (SELECT r.prrelid IS NOT NULL FROM pg_publication p LEFT JOIN pg_publication_rel r
         ON r.prpubid = p.oid AND r.prrelid = c.oid WHERE p.pubname = @publication@) AS is_member,
      coalesce(obj_description(c.oid, 'pg_class'), '') LIKE @ours@ AS is_ours,
      @selected@
        AND NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class ac ON ac.oid = a.relid
            JOIN pg_namespace an ON an.oid = ac.relnamespace WHERE a.relid <> c.oid AND @ancestor@)
        AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class tc ON tc.oid = t.relid
            WHERE tc.relpersistence <> 'p')
        AND (c.relreplident = 'f' OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid
            AND CASE c.relreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate
                WHEN 'i' THEN i.indisreplident ELSE false END)) AS may_join
    FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
      JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT d.in_extension
      AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  LOOP
    CONTINUE WHEN made.is_member IS NULL;
    BEGIN
      IF made.is_ours THEN
        IF made.is_member THEN
          EXECUTE format('ALTER PUBLICATION %I DROP TABLE ONLY %I.%I', @publication@, made.nspname, made.relname);
        END IF;
      ELSIF made.may_join AND NOT made.is_member AND made.command_tag <> 'COMMENT' THEN
        is_filled := false;
        IF made.command_tag <> 'CREATE TABLE' THEN
          is_filled := current_setting('transaction_isolation') <> 'read committed' OR NOT EXISTS (
            SELECT FROM pg_locks WHERE locktype = 'relation' AND pid = pg_backend_pid() AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND relation = made.oid AND mode = 'AccessExclusiveLock');
          IF NOT is_filled THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', made.nspname, made.relname) INTO is_filled;
          END IF;
        END IF;
        IF NOT is_filled THEN
          EXECUTE format('ALTER PUBLICATION %I ADD TABLE %s%I.%I', @publication@,
            CASE WHEN made.is_partitioned THEN '' ELSE 'ONLY ' END, made.nspname, made.relname);
        END IF;
      END IF;
      FOR leaf IN
        SELECT DISTINCT tn.nspname, tc.relname
        FROM pg_partition_ancestors(made.oid) a JOIN pg_class ac ON ac.oid = a.relid AND ac.relreplident = 'f'
          JOIN pg_publication_rel r ON r.prrelid = a.relid
          JOIN pg_publication p ON p.oid = r.prpubid AND p.pubname = @publication@,
          pg_partition_tree(made.oid) t JOIN pg_class tc ON tc.oid = t.relid AND tc.relreplident = 'd'
          JOIN pg_namespace tn ON tn.oid = tc.relnamespace
        WHERE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = tc.oid AND i.indisprimary AND i.indimmediate)
      LOOP
        EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY FULL', leaf.nspname, leaf.relname);
      END LOOP;
    EXCEPTION WHEN OTHERS THEN
      RAISE LOG 'drover: table %.% did not join publication %: %', made.nspname, made.relname, @publication@, SQLERRM;
    END;
  END LOOP;
END
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_its_texts_letter_for_letter() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(like(&texts(&["t_1"])), r"E't\\_1'");
        assert_eq!(like(&texts(&["", ""])), "E'%'");
        assert_eq!(like(&texts(&["a%\\'", "b"])), r"E'a\\%\\\\''%b'");
    }
}
