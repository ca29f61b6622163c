-- id: T09
-- shard-key: city.k, capital.k, port.k
-- outcome: refuse
-- refused: table.inherited public.city; table.inherited public.port; table.partition public.capital
CREATE TABLE city (id bigint PRIMARY KEY, k int NOT NULL);
CREATE TABLE port (id bigint PRIMARY KEY, k int NOT NULL);
CREATE TABLE capital (PRIMARY KEY (id)) INHERITS (city, port);
