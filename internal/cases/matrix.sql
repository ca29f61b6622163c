-- A file of testdata/types fills pg_temp.kind with types and the values to be kept, as text, and calls pg_temp.matrix():
-- each tab becomes a table with a column for each of its types and one for arrays of it. Row i holds value i, the last
-- row NULLs; fewer values leave NULLs. The arrays are empty, with NULL elements, with a lower bound of -1, of two
-- dimensions, and of each value alone. Types that this server does not have are left out. Where there is a domain
-- as_text each table has a twin with a column of it: what is not built in makes rows travel as text.
CREATE TEMP TABLE kind (tab text, typ text, vals text[], arrays bool DEFAULT true, no int GENERATED ALWAYS AS IDENTITY,
  label text GENERATED ALWAYS AS (left(typ, 50)) STORED);
CREATE FUNCTION pg_temp.element(val text) RETURNS text LANGUAGE sql AS $$
  SELECT coalesce('"' || replace(replace(val, '\', '\\'), '"', '\"') || '"', 'NULL') $$;
CREATE FUNCTION pg_temp.arrayed(vals text[], i int, delim text) RETURNS text LANGUAGE sql AS $$
  SELECT CASE i
    WHEN 1 THEN '{}'
    WHEN 2 THEN '{NULL' || delim || pg_temp.element(vals[1]) || '}'
    WHEN 3 THEN '[-1:1]={' || pg_temp.element(vals[2]) || delim || 'NULL' || delim || pg_temp.element(vals[1]) || '}'
    WHEN 4 THEN '{{' || pg_temp.element(vals[1]) || delim || 'NULL}' || delim || '{' || pg_temp.element(vals[2]) || delim || pg_temp.element(vals[3]) || '}}'
    ELSE '{' || pg_temp.element(vals[i]) || '}' END $$;
CREATE FUNCTION pg_temp.matrix() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  made text; n int; i int; cols text; line text;
BEGIN
  DELETE FROM kind WHERE to_regtype(typ) IS NULL;
  FOR made, n IN SELECT k.tab, max(cardinality(vals)) + 1 FROM kind k GROUP BY 1 ORDER BY min(no) LOOP
    SELECT string_agg(format('%I %s', label, typ) || CASE WHEN arrays THEN format(', %I %s[]', label || '[]', typ) ELSE '' END, ', ' ORDER BY no) INTO cols FROM kind k WHERE k.tab = made;
    EXECUTE format('CREATE TABLE %I (id bigint PRIMARY KEY, k int NOT NULL, %s)', made, cols);
    FOR i IN 1..n LOOP
      SELECT string_agg(format('%L::%s', vals[i], typ) || CASE WHEN arrays THEN format(', %L::%s[]', CASE WHEN i < n THEN pg_temp.arrayed(vals, i, typdelim::text) END, typ) ELSE '' END, ', ' ORDER BY no)
        INTO line FROM kind k JOIN pg_type t ON t.oid = to_regtype(typ) WHERE k.tab = made;
      EXECUTE format('INSERT INTO %I VALUES (%s, %s, %s)', made, i, i % 3, line);
    END LOOP;
    IF to_regtype('as_text') IS NOT NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL, worded as_text); INSERT INTO %1$I SELECT *, id FROM %2$I', made || ' worded', made);
    END IF;
  END LOOP;
END $$;
