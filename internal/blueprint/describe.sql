-- $1 kinds, $2 quoted names: how each is defined here; those that are missing are left out.
WITH asked AS (
  SELECT a.kind, a.name, CASE a.kind WHEN 'type' THEN pg_catalog.to_regtype(a.name)::oid WHEN 'function' THEN (SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND p.oid::regprocedure::text = a.name)
    WHEN 'collation' THEN pg_catalog.to_regcollation(a.name)::oid END AS oid
  FROM unnest($1::text[], $2::text[]) a(kind, name)
)
SELECT a.kind, a.name, n.nspname::text, pg_catalog.pg_get_userbyid(t.typowner)::text,
  CASE t.typtype
  WHEN 'e' THEN pg_catalog.format('CREATE TYPE %s AS ENUM (%s)', a.name,
    (SELECT pg_catalog.string_agg(pg_catalog.quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid))
  WHEN 'd' THEN pg_catalog.format('CREATE DOMAIN %s AS %s%s%s%s', a.name, pg_catalog.format_type(t.typbasetype, t.typtypmod),
    (SELECT pg_catalog.format(' COLLATE %I.%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
       JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype WHERE co.oid = t.typcollation AND t.typcollation <> b.typcollation),
    ' DEFAULT ' || pg_catalog.pg_get_expr(t.typdefaultbin, 0), CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END)
    || coalesce((SELECT pg_catalog.string_agg(pg_catalog.format(E';\nALTER DOMAIN %s ADD CONSTRAINT %I %s', a.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid)), '' ORDER BY k.conname)
       FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'), '')
  WHEN 'c' THEN pg_catalog.format('CREATE TYPE %s AS (%s)', a.name,
    (SELECT pg_catalog.string_agg(pg_catalog.format('%I %s%s', m.attname, pg_catalog.format_type(m.atttypid, m.atttypmod),
        CASE WHEN m.attcollation <> mt.typcollation THEN pg_catalog.format(' COLLATE %I.%I', cn.nspname, co.collname) ELSE '' END), ', ' ORDER BY m.attnum)
     FROM pg_catalog.pg_attribute m JOIN pg_catalog.pg_type mt ON mt.oid = m.atttypid LEFT JOIN pg_catalog.pg_collation co ON co.oid = m.attcollation
       LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE m.attrelid = t.typrelid AND m.attnum > 0 AND NOT m.attisdropped))
  WHEN 'r' THEN (SELECT pg_catalog.format('CREATE TYPE %s AS RANGE (SUBTYPE = %s, SUBTYPE_OPCLASS = %I.%I%s%s%s%s)', a.name, pg_catalog.format_type(r.rngsubtype, NULL), opn.nspname, op.opcname,
      CASE WHEN r.rngcollation <> 0 THEN (SELECT pg_catalog.format(', COLLATION = %I.%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = r.rngcollation) END,
      CASE WHEN r.rngcanonical <> 0 THEN ', CANONICAL = ' || r.rngcanonical END, CASE WHEN r.rngsubdiff <> 0 THEN ', SUBTYPE_DIFF = ' || r.rngsubdiff END,
      (SELECT pg_catalog.format(', MULTIRANGE_TYPE_NAME = %I.%I', mn.nspname, mt.typname) FROM pg_catalog.pg_type mt JOIN pg_catalog.pg_namespace mn ON mn.oid = mt.typnamespace
        WHERE mt.oid = (pg_catalog.to_jsonb(r) ->> 'rngmultitypid')::oid))
    FROM pg_catalog.pg_range r JOIN pg_catalog.pg_opclass op ON op.oid = r.rngsubopc JOIN pg_catalog.pg_namespace opn ON opn.oid = op.opcnamespace WHERE r.rngtypid = t.oid)
  ELSE '' END
FROM asked a JOIN pg_catalog.pg_type t ON t.oid = a.oid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE a.kind = 'type'
UNION ALL
SELECT a.kind, a.name, n.nspname::text, pg_catalog.pg_get_userbyid(p.proowner)::text,
  rtrim(pg_catalog.pg_get_functiondef(p.oid), E'\n') || CASE WHEN p.proacl IS NOT NULL THEN pg_catalog.format(E';\nREVOKE ALL ON ROUTINE %s FROM PUBLIC', a.name) ELSE '' END
FROM asked a JOIN pg_catalog.pg_proc p ON p.oid = a.oid JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE a.kind = 'function'
UNION ALL
SELECT a.kind, a.name, n.nspname::text, pg_catalog.pg_get_userbyid(c.collowner)::text,
  pg_catalog.format('CREATE COLLATION %s (PROVIDER = %s, %s, DETERMINISTIC = %s)', a.name, CASE c.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
    CASE WHEN c.collprovider IN ('i', 'b') THEN 'LOCALE = ' || pg_catalog.quote_literal(coalesce(pg_catalog.to_jsonb(c) ->> 'colllocale', pg_catalog.to_jsonb(c) ->> 'colliculocale', c.collcollate))
      || coalesce(', RULES = ' || pg_catalog.quote_literal(pg_catalog.to_jsonb(c) ->> 'collicurules'), '')
      ELSE pg_catalog.format('LC_COLLATE = %L, LC_CTYPE = %L', c.collcollate, c.collctype) END, c.collisdeterministic::text)
FROM asked a JOIN pg_catalog.pg_collation c ON c.oid = a.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace WHERE a.kind = 'collation'
