-- id: T12
-- shard-key: upload.k
-- outcome: exact
-- long: rows of 100 MB
CREATE TYPE page AS (no int, body text);
CREATE TABLE upload (id bigint PRIMARY KEY, k int NOT NULL, t text, b bytea, a text[], p page, j json);
INSERT INTO upload SELECT i, i % 4, 'small ' || i, '\x00', '{}', ROW(i, '')::page, '{}' FROM generate_series(1, 4) i;
UPDATE upload SET t = repeat('abcdefghij', 10485760) WHERE id = 1;
UPDATE upload SET b = decode(repeat('00ff', 52428800), 'hex') WHERE id = 2;
UPDATE upload SET a = ARRAY[repeat('a', 52428800), NULL, repeat('b', 52428800)], p = ROW(1, repeat('p', 1048576))::page WHERE id = 3;
UPDATE upload SET j = to_json(repeat('j', 104857600)) WHERE id = 4;
