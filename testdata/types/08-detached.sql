-- id: T08
-- shard-key: reading.k
-- outcome: exact
CREATE TABLE reading (k int NOT NULL, id bigint, at date, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE reading_23 PARTITION OF reading FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE reading_22 PARTITION OF reading FOR VALUES FROM ('2022-01-01') TO ('2023-01-01');
CREATE TABLE reading_24 PARTITION OF reading FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO reading SELECT i % 5, i, DATE '2023-12-20' + i, 'r' || i FROM generate_series(1, 30) i;
INSERT INTO reading VALUES (1, 40, '2022-02-02', 'to be dropped');
-- live:
UPDATE reading SET v = 'before' WHERE id = 3;
ALTER TABLE reading DETACH PARTITION reading_23;
UPDATE reading_23 SET v = 'after' WHERE id = 4;
DROP TABLE reading_22;
CREATE TABLE reading_25 (LIKE reading INCLUDING ALL);
INSERT INTO reading_25 VALUES (1, 100, '2025-03-03', 'was there'), (2, 101, '2025-03-04', 'was there');
ALTER TABLE reading ATTACH PARTITION reading_25 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
INSERT INTO reading VALUES (3, 102, '2025-04-04', 'through the root');
UPDATE reading SET v = 'now' WHERE id = 100;
