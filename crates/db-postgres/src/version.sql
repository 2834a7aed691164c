CREATE FUNCTION drover.set_version() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  before bigint;
  key text;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    EXECUTE format('SELECT ($1).%I / 10', TG_ARGV[0]) INTO before USING OLD;
  ELSE
    EXECUTE (SELECT format('SELECT concat_ws(chr(31), %s)', string_agg(format('($1).%I', TG_ARGV[place]), ', ' ORDER BY place))
             FROM generate_series(2, TG_NARGS - 1) AS place) INTO key USING NEW;
    SELECT t.version::bigint / 10 INTO before FROM drover.tombstone AS t
      WHERE t.sname = TG_TABLE_SCHEMA AND t.oname = TG_TABLE_NAME AND t.key_values = key;
  END IF;
  RETURN jsonb_populate_record(NEW,
    jsonb_build_object(TG_ARGV[0], greatest(now, coalesce(before, 0) + 1) * 10 + TG_ARGV[1]::int));
END $$;
CREATE FUNCTION drover.leave_tombstone() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  before bigint;
  key text;
BEGIN
  EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) INTO before USING OLD;
  EXECUTE (SELECT format('SELECT concat_ws(chr(31), %s)', string_agg(format('($1).%I', TG_ARGV[place]), ', ' ORDER BY place))
           FROM generate_series(1, TG_NARGS - 1) AS place) INTO key USING OLD;
  INSERT INTO drover.tombstone VALUES (TG_TABLE_SCHEMA, TG_TABLE_NAME, key, before::text, NULL, clock_timestamp() AT TIME ZONE 'UTC')
    ON CONFLICT (sname, oname, key_values)
    DO UPDATE SET version = excluded.version, site = NULL, deleted_date = excluded.deleted_date;
  RETURN NULL;
END $$;
