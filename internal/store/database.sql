-- State that only a database has. Idempotent.
CREATE TABLE IF NOT EXISTS shardctl.control (
    migration text PRIMARY KEY,
    database  text NOT NULL,
    term      bigint NOT NULL,
    owner     text NOT NULL,
    epoch     bigint NOT NULL,
    shards    int[] NOT NULL,
    held      bool NOT NULL DEFAULT false,
    plan      bigint NOT NULL DEFAULT 0,
    CHECK (owner IN ('source', database))
);

CREATE TABLE IF NOT EXISTS shardctl.pruned (
    migration text,
    table_no  int,
    through   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (migration, table_no)
);

CREATE TABLE IF NOT EXISTS shardctl.ledger (
    migration text,
    plan      bigint,
    table_no  int,
    chunk     int,
    rows      bigint NOT NULL,
    note      bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, plan, table_no, chunk)
);

CREATE TABLE IF NOT EXISTS shardctl.table_tombstone (
    migration text,
    table_no  int,
    loc       name,
    tick      bigint NOT NULL,
    PRIMARY KEY (migration, table_no, loc)
);

-- Primary keys that a fast backfill dropped and will build again.
CREATE TABLE IF NOT EXISTS shardctl.dropped_key (
    migration  text,
    table_no   int,
    relation   text,
    name       text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (migration, table_no, relation)
);
