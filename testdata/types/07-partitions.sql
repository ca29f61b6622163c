-- id: T07
-- shard-key: all tables: k
-- outcome: exact
CREATE TABLE by_range (x int, k int, id bigint, at date, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
ALTER TABLE by_range DROP x;
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
-- A leaf with the columns in another order.
CREATE TABLE by_range_2 (v text, at date NOT NULL, y int, id bigint NOT NULL, k int);
ALTER TABLE by_range_2 DROP y;
ALTER TABLE by_range ATTACH PARTITION by_range_2 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE by_range_3 PARTITION OF by_range DEFAULT;
INSERT INTO by_range (k, id, at, v) SELECT i % 3, i, date '2023-06-01' + i * 100, 'r' || i FROM generate_series(1, 9) i;
INSERT INTO by_range (k, id, at, v) VALUES (1, 10, '-infinity', NULL), (2, 11, 'infinity', '');
CREATE TABLE by_list (k int NOT NULL, id bigint, kind text, v text, PRIMARY KEY (id, kind, k)) PARTITION BY LIST (kind);
CREATE TABLE by_list_a PARTITION OF by_list FOR VALUES IN ('a', 'A') PARTITION BY HASH (k);
CREATE TABLE by_list_a_0 PARTITION OF by_list_a FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_list_a_1 PARTITION OF by_list_a FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY RANGE (id);
CREATE TABLE by_list_a_1_x PARTITION OF by_list_a_1 FOR VALUES FROM (MINVALUE) TO (5);
CREATE TABLE by_list_a_1_y PARTITION OF by_list_a_1 DEFAULT;
CREATE TABLE by_list_rest PARTITION OF by_list DEFAULT;
INSERT INTO by_list SELECT i % 3, i, (ARRAY['a', 'A', 'b', ''])[i % 4 + 1], 'l' || i FROM generate_series(1, 11) i;
CREATE TABLE by_hash (k int NOT NULL, id bigint, v text, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE by_hash_3 PARTITION OF by_hash FOR VALUES WITH (MODULUS 4, REMAINDER 3);
INSERT INTO by_hash SELECT i % 3, i, 'h' || i FROM generate_series(1, 9) i;
CREATE TABLE by_key (k int NOT NULL, id bigint, v text, PRIMARY KEY (k, id)) PARTITION BY LIST (k);
CREATE TABLE by_key_0 PARTITION OF by_key FOR VALUES IN (0, 3, 6);
CREATE TABLE by_key_rest PARTITION OF by_key DEFAULT;
INSERT INTO by_key SELECT i % 5, i, 'k' || i FROM generate_series(1, 9) i;
-- live:
UPDATE by_range SET at = at + 365 WHERE id < 5;
UPDATE by_range_2 SET v = 'by its leaf' WHERE id % 2 = 0;
INSERT INTO by_range_2 (id, k, at, v) VALUES (500, 2, '2024-06-01', 'into the leaf');
UPDATE by_list SET kind = 'b' WHERE kind = 'a' AND id < 8;
UPDATE by_list SET kind = 'A', id = id + 600 WHERE kind = '';
UPDATE by_key SET k = k + 1 WHERE id < 5;
DELETE FROM by_list_a_0 WHERE id = 4;
TRUNCATE by_hash_3;
INSERT INTO by_hash SELECT i % 3, i, 'again' FROM generate_series(700, 720) i;
-- after-cutover:
UPDATE by_range SET at = '2024-02-02' WHERE id = 6;
UPDATE by_list SET kind = 'z' WHERE id = 3;
DELETE FROM by_hash WHERE id = 705;
