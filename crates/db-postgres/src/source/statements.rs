//! Telling of statements that define objects inside the transactions that run them.
//!
//! Event triggers put a logical message into the log where a statement has run; it commits, and goes with a savepoint, as the statement
//! does. What the message says is read by [`definition`](crate::definition).
//!
//! # What they do besides
//! - The rows of CREATE TABLE AS are in the log before the table is in the publication. They are written again behind it.
//! - A column that is added with a default which gives each row another value makes a table anew without a word in the log. The
//!   rows are updated behind it, so that their values are told.
//!
//! # What they never do
//! A message of somebody else is never taken for theirs: each holds a text that only its maker and the Extract can read.
//! They tell nothing of what our own sessions do, of temporary objects and of what an extension makes. They let no command
//! of a user fail: what goes wrong in them is said in the message, and stops the Extract where the rules want the statement.

use super::joining::{denied, selected};
use crate::catalog::OUR_COMMENT;
use crate::definition::PREFIX;
use crate::name;
use crate::wire::{Connection, Error as WireError};
use database::TableSelection;

/// The triggers' names end so, with the events that they are for.
const TRIGGERS: [(&str, &str); 3] =
    [("statements", "ddl_command_end"), ("drops", "sql_drop"), ("rewrites", "table_rewrite")];

/// Makes the triggers or removes them, in the open transaction of `connection`, as `selection` asks; the schema of the
/// publication's name is there already or is made. Returns whether statements are told, where they are asked for.
pub(super) fn install(
    connection: &mut Connection,
    publication: &str,
    selection: &dyn TableSelection,
) -> Result<bool, WireError> {
    if !selection.tells_definitions() {
        return Ok(true);
    }
    let quoted = name::quote(publication);
    let owned = connection.query_one(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname::text = $1), \
           EXISTS (SELECT FROM pg_namespace n JOIN pg_proc p ON p.pronamespace = n.oid WHERE n.nspname::text = $1 \
             AND p.proname IN ('join_tables', 'told') AND p.prorettype = 'event_trigger'::regtype AND pg_has_role(p.proowner, 'USAGE'))",
        &[Some(publication)],
    )?;
    let (is_there, is_ours) = owned.map_or((false, false), |row| (row.flag(0), row.flag(1)));
    if is_there && !is_ours {
        return Ok(false);
    }
    let schema = if is_there { String::new() } else { format!("CREATE SCHEMA {quoted};") };
    let triggers: String = TRIGGERS
        .iter()
        .map(|(suffix, event)| {
            let trigger = name::quote(&format!("{publication}_{suffix}"));
            format!(
                "CREATE EVENT TRIGGER {trigger} ON {event} EXECUTE FUNCTION {quoted}.told(); \
                 ALTER EVENT TRIGGER {trigger} ENABLE ALWAYS; \
                 COMMENT ON EVENT TRIGGER {trigger} IS '{OUR_COMMENT}capture: statements are told';"
            )
        })
        .collect();
    let sql = format!(
        "SAVEPOINT drover_statements; {schema} {} {triggers} RELEASE drover_statements",
        functions(publication, selection)
    );
    denied(connection.run(&sql), || connection.run("ROLLBACK TO drover_statements; RELEASE drover_statements"))
}

/// Lets the triggers be as `selection` asks now; returns whether statements are told, where they are asked for.
pub(super) fn refresh(
    connection: &mut Connection,
    publication: &str,
    selection: &dyn TableSelection,
) -> Result<bool, WireError> {
    let names = TRIGGERS.map(|(suffix, _)| format!("{publication}_{suffix}"));
    let names = format!("{{{}}}", names.join(","));
    let row = connection.query_one(
        "SELECT count(*) FILTER (WHERE e.evtenabled = 'A'), coalesce(bool_and(pg_has_role(e.evtowner, 'USAGE')), true), \
           (SELECT p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
            WHERE n.nspname::text = $2 AND p.proname = 'note'), count(*), \
           EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
            WHERE n.nspname::text = $2 AND p.proname = 'join_tables') \
         FROM pg_event_trigger e WHERE e.evtname::text = ANY ($1::text[])",
        &[Some(&names), Some(publication)],
    )?;
    let Some(row) = row else { return Ok(false) };
    let (enabled, is_ours, any): (u32, bool, u32) = (row.parse(0)?, row.flag(1), row.parse(3)?);
    let is_current = row.text(2) == Some(note(publication, selection).as_str());
    // The schema is somebody's whose functions are in it.
    let without_schema = removal(publication);
    let removal = match row.flag(4) {
        true => without_schema,
        false => format!("{without_schema} DROP SCHEMA IF EXISTS {};", name::quote(publication)),
    };
    let is_whole = enabled as usize == TRIGGERS.len();
    if !selection.tells_definitions() {
        if any > 0 && is_ours {
            connection.run(&removal)?;
        }
        return Ok(true);
    }
    if is_whole && (is_current || !is_ours) {
        return Ok(true);
    }
    if !is_ours {
        return Ok(false);
    }
    connection.run("BEGIN")?;
    let made = if any > 0 { connection.run(&removal) } else { Ok(0) };
    let made = made.and_then(|_| install(connection, publication, selection));
    match made {
        Ok(is_told) => connection.run("COMMIT").map(|_| is_told),
        Err(error) => {
            if connection.is_in_transaction() {
                connection.run("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

/// The text that tells messages of the triggers from those of anybody else: every user may write messages, and what they say is run
/// at a target with the Replicat's rights.
pub(super) fn token(connection: &mut Connection, publication: &str) -> Result<String, WireError> {
    let row = connection.query_one(&format!("SELECT token FROM {}.secret", name::quote(publication)), &[])?;
    row.map_or(Ok(String::new()), |row| Ok(row.required(0)?.to_owned()))
}

/// The statements that remove the triggers, but not their schema.
pub(super) fn removal(publication: &str) -> String {
    let quoted = name::quote(publication);
    let triggers = TRIGGERS.iter().map(|(suffix, _)| {
        format!("DROP EVENT TRIGGER IF EXISTS {};", name::quote(&format!("{publication}_{suffix}")))
    });
    let functions = "told()|note(text,text,name[],text)|tell(text)|field(text)|table_of(oid)"
        .split('|')
        .map(|function| format!("DROP FUNCTION IF EXISTS {quoted}.{function};"));
    let secret = format!("DROP TABLE IF EXISTS {quoted}.secret;");
    triggers.chain(functions).chain([secret]).collect()
}

/// The statements that make the functions. The one that is called runs as the user, who may have any search path: it names all
/// that it uses with its schema, and has no operators.
fn functions(publication: &str, selection: &dyn TableSelection) -> String {
    let quoted = name::quote(publication);
    let body = name::literal(&note(publication, selection));
    let tell = name::literal(&TELL.replace("@prefix@", &name::literal(PREFIX)));
    format!(
        "GRANT USAGE ON SCHEMA {quoted} TO PUBLIC; \
         CREATE TABLE IF NOT EXISTS {quoted}.secret (token text NOT NULL); REVOKE ALL ON {quoted}.secret FROM PUBLIC; \
         COMMENT ON TABLE {quoted}.secret IS '{OUR_COMMENT}mark of messages'; \
         INSERT INTO {quoted}.secret SELECT md5(gen_random_uuid()::text || gen_random_uuid()::text) \
           WHERE NOT EXISTS (SELECT FROM {quoted}.secret); \
         CREATE OR REPLACE FUNCTION {quoted}.field(text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp \
           AS $$ SELECT octet_length(convert_to(coalesce($1, ''), 'UTF8')) || ':' || coalesce($1, '') $$; \
         CREATE OR REPLACE FUNCTION {quoted}.table_of(oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp \
           AS $${TABLE}$$; \
         CREATE OR REPLACE FUNCTION {quoted}.tell(text) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp \
           AS {tell}; REVOKE ALL ON FUNCTION {quoted}.tell(text) FROM PUBLIC; \
         CREATE OR REPLACE FUNCTION {quoted}.note(event text, tag text, path name[], session text) RETURNS void LANGUAGE plpgsql \
           SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' SET row_security = off \
           SET session_replication_role = replica SET lc_messages = 'C' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' \
           SET timezone = 'UTC' SET bytea_output = 'hex' SET extra_float_digits = 3 SET check_function_bodies = off \
           SET drover.session = 'on' AS {body}; \
         CREATE OR REPLACE FUNCTION {quoted}.told() RETURNS event_trigger LANGUAGE plpgsql \
           AS $$ BEGIN PERFORM {quoted}.note(TG_EVENT, TG_TAG, pg_catalog.current_schemas(false), \
           pg_catalog.current_setting('drover.session', true)); END $$;",
    )
}

/// Puts a message into the log. Its place is the end of its record, which is where the next one starts, and the server takes either
/// for the first when they are of different subtransactions: the message that stands between them nobody reads.
const TELL: &str = "
  SELECT pg_logical_emit_message(true, @prefix@, convert_to($1, 'UTF8'));
  SELECT pg_logical_emit_message(true, 'drover.end', '');
";

/// The definition of a table from the catalog: columns with their types, nothing else.
const TABLE: &str = "
  SELECT format('CREATE TABLE %I.%I (%s)', n.nspname, c.relname, (
    SELECT string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> t.typcollation THEN format(' COLLATE %I.%I', cn.nspname, l.collname) ELSE '' END), ', '
        ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_collation l ON l.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = l.collnamespace
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";

fn note(publication: &str, selection: &dyn TableSelection) -> String {
    let patterns = selection.patterns().unwrap_or_default();
    NOTE.replace("@selected@", &selected("n.nspname", "c.relname", &patterns))
        .replace("@schema@", &name::quote(publication))
        .replace("@publication@", &name::literal(publication))
        .replace("@ours@", &name::literal(&format!("{OUR_COMMENT}%")))
}

/// The function that tells. Statements of one kind in the same text are counted in a setting: it goes back with a savepoint, as what
/// they have done does.
const NOTE: &str = "
DECLARE
  context text;
  origin text := 'sent';
  query text := current_query();
  counter text;
  counted text;
  mark text;
  ordinal integer := 0;
  canonical text := '';
  hidden text := '';
  is_filled boolean := false;
  before text;
  behind text;
  objects text := '';
  object_count integer := 0;
  filled text := '';
  filled_count integer := 0;
  main record;
  part record;
BEGIN
  IF session = 'on' OR tag ~ 'PUBLICATION|SUBSCRIPTION|EVENT TRIGGER' THEN RETURN; END IF;
  IF event = 'table_rewrite' THEN
    IF pg_event_trigger_table_rewrite_reason() & 2 <> 0 THEN
      PERFORM set_config('drover_ddl.rewritten', 'on', true);
    END IF;
    RETURN;
  END IF;

  GET DIAGNOSTICS context = PG_CONTEXT;
  -- Behind this function, the query that calls it and the function that runs that.
  context := substr(context, strpos(context, '.told() line '));
  context := CASE WHEN strpos(context, E'\\n') > 0 THEN substr(context, strpos(context, E'\\n') + 1) ELSE '' END;
  IF context LIKE 'SQL statement \"%' THEN
    origin := 'run';
    query := substr(context, length('SQL statement \"') + 1);
    query := CASE WHEN strpos(query, E'\"\\nPL/pgSQL function ') > 0
      THEN left(query, strpos(query, E'\"\\nPL/pgSQL function ') - 1) ELSE rtrim(query, '\"') END;
  ELSIF context <> '' THEN
    origin := 'unknown';
    query := 'a function that is not of PL/pgSQL has run it';
  END IF;

  counter := 'drover_ddl.' || CASE origin WHEN 'sent' THEN 's_' ELSE 'r_' END || replace(lower(tag), ' ', '_');
  mark := statement_timestamp()::text || md5(query);
  counted := coalesce(current_setting(counter, true), '');
  IF starts_with(counted, mark || '#') THEN ordinal := substr(counted, length(mark) + 2)::integer; END IF;
  IF event = 'ddl_command_end' THEN
    PERFORM set_config(counter, mark || '#' || (ordinal + 1), false);
  END IF;

  IF event = 'sql_drop' THEN
    IF tag NOT LIKE 'DROP %' THEN RETURN; END IF;
    FOR part IN
      SELECT d.object_type, d.schema_name,
        coalesce(d.object_name, d.address_names[cardinality(d.address_names)]) AS object_name, d.object_identity,
        CASE WHEN cardinality(d.address_names) = 3 THEN d.address_names[1] END AS base_schema,
        CASE WHEN cardinality(d.address_names) = 3 THEN d.address_names[2] END AS base_name
      FROM pg_event_trigger_dropped_objects() d
      WHERE d.original AND NOT d.is_temporary AND coalesce(d.schema_name, d.object_name, '') !~ '^drover_'
    LOOP
      object_count := object_count + 1;
      objects := objects || @schema@.field(part.object_type) || @schema@.field(coalesce(part.schema_name, part.base_schema)) || @schema@.field(part.object_name)
        || @schema@.field(part.object_identity) || @schema@.field(part.base_schema) || @schema@.field(part.base_name);
    END LOOP;
    IF object_count = 0 THEN RETURN; END IF;
  ELSE
    IF tag LIKE 'DROP %' OR tag = 'REFRESH MATERIALIZED VIEW' THEN RETURN; END IF;
    SELECT d.*, o.kind AS name_kind, o.names INTO main
      FROM pg_event_trigger_ddl_commands() WITH ORDINALITY d
        LEFT JOIN LATERAL (SELECT a.type AS kind, a.object_names AS names
          FROM pg_identify_object_as_address(d.classid, d.objid, d.objsubid) a WHERE d.objid IS NOT NULL AND d.objid <> 0) o ON true
      ORDER BY d.command_tag <> tag, d.ordinality LIMIT 1;
    -- Nothing was done, such as by CREATE TABLE IF NOT EXISTS.
    IF NOT FOUND OR main.in_extension OR coalesce(main.schema_name, '') ~ '^(pg_temp|drover_)' THEN RETURN; END IF;
    IF main.classid = 'pg_class'::regclass AND coalesce(obj_description(main.objid, 'pg_class'), '') LIKE @ours@ THEN RETURN; END IF;
    SELECT coalesce(n.nspname, main.schema_name, CASE WHEN cardinality(main.names) = 3 THEN main.names[1] END) AS owner,
      coalesce(c.relname, y.typname, main.names[cardinality(main.names)]) AS name,
      CASE WHEN i.indrelid IS NOT NULL THEN bn.nspname WHEN cardinality(main.names) = 3 THEN main.names[1] END AS base_schema,
      CASE WHEN i.indrelid IS NOT NULL THEN bc.relname WHEN cardinality(main.names) = 3 THEN main.names[2] END AS base_name,
      c.relkind, c.relpersistence
      INTO part
      FROM (SELECT 1) AS one
        LEFT JOIN pg_class c ON main.classid = 'pg_class'::regclass AND c.oid = main.objid
        LEFT JOIN pg_type y ON main.classid = 'pg_type'::regclass AND y.oid = main.objid
        LEFT JOIN pg_namespace n ON n.oid = coalesce(c.relnamespace, y.typnamespace)
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
        LEFT JOIN pg_class bc ON bc.oid = i.indrelid LEFT JOIN pg_namespace bn ON bn.oid = bc.relnamespace;
    IF part.relpersistence = 't' THEN RETURN; END IF;
    object_count := 1;
    objects := @schema@.field(regexp_replace(main.object_type, '^table (column|constraint)$', 'table')) || @schema@.field(part.owner)
      || @schema@.field(part.name) || @schema@.field(main.object_identity) || @schema@.field(part.base_schema) || @schema@.field(part.base_name);
    IF tag IN ('CREATE TABLE AS', 'SELECT INTO') THEN
      canonical := @schema@.table_of(main.objid);
    ELSIF tag = 'CREATE INDEX' AND part.relkind = 'i' THEN
      canonical := pg_get_indexdef(main.objid);
    ELSIF tag = 'ALTER TABLE' THEN
      SELECT coalesce(string_agg(@schema@.field(a.attname) || @schema@.field((a.attmissingval::text::text[])[1]), '' ORDER BY a.attnum), ''), count(*)
        INTO filled, filled_count
        FROM pg_attribute a WHERE a.attrelid = (SELECT c.oid FROM pg_partition_tree(main.objid) p JOIN pg_class c ON c.oid = p.relid
            WHERE p.isleaf UNION ALL SELECT main.objid LIMIT 1)
          AND a.atthasmissing AND NOT a.attisdropped;
    END IF;
  END IF;

  before := @schema@.field('1') || @schema@.field(@publication@) || @schema@.field((SELECT token FROM @schema@.secret)) || @schema@.field(tag) || @schema@.field(session_user::text)
    || @schema@.field((SELECT string_agg(quote_ident(p), ', ') FROM unnest(path) AS p)) || @schema@.field(ordinal::text)
    || @schema@.field(origin) || @schema@.field(query) || @schema@.field(canonical);
  behind := @schema@.field(object_count::text) || objects || @schema@.field(filled_count::text) || filled;
  IF tag = 'ALTER TABLE' AND coalesce(current_setting('drover_ddl.rewritten', true), '') = 'on' THEN
    PERFORM set_config('drover_ddl.rewritten', '', true);
    IF EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid WHERE p.pubname = @publication@
        AND r.prrelid IN (SELECT main.objid UNION ALL SELECT relid FROM pg_partition_ancestors(main.objid))) THEN
      BEGIN
        PERFORM @schema@.tell(before || @schema@.field('') || behind);
        SELECT format('UPDATE %s%I.%I SET %I = %4$I', CASE WHEN part.relkind = 'p' THEN '' ELSE 'ONLY ' END, part.owner, part.name, a.attname)
          INTO counter FROM pg_attribute a WHERE a.attrelid = main.objid AND a.attnum > 0 AND NOT a.attisdropped
            AND a.attgenerated = '' AND a.attidentity <> 'a' ORDER BY a.attnum DESC LIMIT 1;
        EXECUTE counter;
        RETURN;
      EXCEPTION WHEN OTHERS THEN
        hidden := 'the values that it gave to rows could not be told: ' || SQLERRM;
      END;
    END IF;
  ELSIF tag IN ('CREATE TABLE AS', 'SELECT INTO') THEN
    SELECT @selected@ AND c.relpersistence = 'p' AND EXISTS (SELECT FROM pg_publication WHERE pubname = @publication@) AS is_selected
      INTO part FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = main.objid;
    IF part.is_selected THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %s)', main.object_identity) INTO is_filled;
    END IF;
    IF is_filled THEN
      BEGIN
        PERFORM @schema@.tell(before || @schema@.field('') || behind);
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', main.object_identity);
        EXECUTE format('CREATE TEMP TABLE drover_made ON COMMIT DROP AS TABLE %s', main.object_identity);
        EXECUTE format('TRUNCATE %s', main.object_identity);
        EXECUTE format('ALTER PUBLICATION %I ADD TABLE ONLY %s', @publication@, main.object_identity);
        EXECUTE format('INSERT INTO %s TABLE pg_temp.drover_made', main.object_identity);
        DROP TABLE pg_temp.drover_made;
        RETURN;
      EXCEPTION WHEN OTHERS THEN
        hidden := 'the rows that it made could not be told: ' || SQLERRM;
      END;
    END IF;
  END IF;
  PERFORM @schema@.tell(before || @schema@.field(hidden) || behind);
EXCEPTION
  -- Somebody has called it by hand.
  WHEN event_trigger_protocol_violated THEN RAISE;
  WHEN OTHERS THEN
  RAISE LOG 'drover: statement % was not told to %: %', tag, @publication@, SQLERRM;
  PERFORM @schema@.tell(
    @schema@.field('1') || @schema@.field(@publication@) || @schema@.field((SELECT token FROM @schema@.secret)) || @schema@.field(tag) || @schema@.field(session_user::text)
    || @schema@.field('') || @schema@.field('0') || @schema@.field('unknown') || @schema@.field('the trigger failed: ' || SQLERRM)
    || @schema@.field('') || @schema@.field('') || @schema@.field('0') || @schema@.field('0'));
END
";
