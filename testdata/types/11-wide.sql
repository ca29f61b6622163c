-- id: T11
-- shard-key: wide.k
-- outcome: exact
-- long: 1000 columns
DO $$ BEGIN
  EXECUTE 'CREATE TABLE wide (id bigint PRIMARY KEY, k int NOT NULL, ' || (SELECT string_agg(format('c%s %s', i, (ARRAY['int', 'text', 'numeric', 'bool', 'timestamptz', 'smallint'])[i % 6 + 1]), ', ') FROM generate_series(1, 998) i) || ')';
  EXECUTE 'INSERT INTO wide SELECT i, i % 3, ' || (SELECT string_agg((ARRAY['i', '''t'' || i', 'i / 8.0', 'i % 2 = 0', '''2024-01-01''::timestamptz + i * interval ''1s''', 'i::int2'])[i % 6 + 1], ', ') FROM generate_series(1, 998) i) || ' FROM generate_series(1, 20) i';
END $$;
INSERT INTO wide (id, k) VALUES (21, 1);
