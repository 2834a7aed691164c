//! Statements that define objects, and sequences, from source to target.

mod applied;
mod carried;
mod sequences;

use super::stage::Stage;

/// With DDL at both ends and both groups added.
fn stage(schema: &str, ddl: &str) -> Stage<'static> {
    let stage = Stage::bare(schema);
    stage.extract_parameters(&format!("{ddl}\nTABLE *.*;"));
    stage.replicat_parameters("DDL INCLUDE ALL\nMAP *.*, TARGET *.*;");
    stage.add_groups();
    stage
}

/// What the catalog says of tables, columns, defaults, constraints, indexes, views, functions, triggers and types.
const CATALOG: &str = "
    SELECT 'column', format('%s.%s', n.nspname, c.relname), a.attname, format_type(a.atttypid, a.atttypmod),
        format('%s%s%s', a.attnotnull, a.attidentity, a.attgenerated), coalesce(pg_get_expr(d.adbin, d.adrelid), '')
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
      WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm')
        AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'Drover %'
        AND n.nspname !~ '^(pg_|drover)' AND n.nspname <> 'information_schema'
    UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '' FROM pg_constraint
      WHERE connamespace::regnamespace::text !~ '^(pg_|drover|information_schema)'
        AND coalesce(obj_description(conrelid, 'pg_class'), '') NOT LIKE 'Drover %'
    UNION ALL SELECT 'index', i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid::text, ''
      FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
      WHERE c.relnamespace::regnamespace::text !~ '^(pg_|drover|information_schema)'
        AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'Drover %'
    UNION ALL SELECT 'view', c.oid::regclass::text, '', pg_get_viewdef(c.oid), '', '' FROM pg_class c
      WHERE c.relkind IN ('v', 'm') AND c.relnamespace::regnamespace::text !~ '^(pg_|drover|information_schema)'
    UNION ALL SELECT 'function', p.oid::regprocedure::text, '', p.prosrc, '', '' FROM pg_proc p
      WHERE p.pronamespace::regnamespace::text !~ '^(pg_|drover|information_schema)'
    UNION ALL SELECT 'trigger', t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid), '', '' FROM pg_trigger t WHERE NOT t.tgisinternal
    UNION ALL SELECT 'enum', e.enumtypid::regtype::text, e.enumlabel, e.enumsortorder::text, '', '' FROM pg_enum e
    UNION ALL SELECT 'comment', c.oid::regclass::text, '', obj_description(c.oid, 'pg_class'), '', '' FROM pg_class c
      WHERE obj_description(c.oid, 'pg_class') IS NOT NULL AND c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
        AND obj_description(c.oid, 'pg_class') NOT LIKE 'Drover %'
    ORDER BY 1, 2, 3, 4";

/// Asserts that rows and definitions are equal.
#[track_caller]
fn assert_same(stage: &Stage<'_>) {
    let (source, target) = (stage.source.run(CATALOG), stage.target.run(CATALOG));
    let only = |one: &str, other: &str| {
        one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(only(&source, &target), only(&target, &source), "what only one side has");
    assert_eq!(source, target);
    stage.assert_equal();
}
