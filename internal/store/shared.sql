-- State that the source and the databases both have. Idempotent.
CREATE SCHEMA IF NOT EXISTS shardctl;
COMMENT ON SCHEMA shardctl IS 'state of shardctl; removed by abort or complete';

CREATE SEQUENCE IF NOT EXISTS shardctl.tick_seq;

CREATE TABLE IF NOT EXISTS shardctl.marker (
    id        uuid PRIMARY KEY,
    migration text NOT NULL,
    tick      bigint NOT NULL,
    snapshot  pg_snapshot NOT NULL,
    lsn       pg_lsn NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS marker_tick ON shardctl.marker (migration, tick);

CREATE TABLE IF NOT EXISTS shardctl.position (
    migration         text,
    database          text,
    direction         text CHECK (direction IN ('forward', 'reverse')),
    system_identifier text NOT NULL,
    timeline          bigint NOT NULL,
    marker            uuid NOT NULL,
    snapshot          pg_snapshot NOT NULL,
    tick              bigint NOT NULL,
    lsn               pg_lsn NOT NULL,
    applied_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, database, direction)
);

CREATE TABLE IF NOT EXISTS shardctl.quarantine (
    migration   text,
    database    text,
    direction   text CHECK (direction IN ('forward', 'reverse')),
    table_no    int,
    key         jsonb,
    reason      text NOT NULL,
    first_error text NOT NULL,
    last_error  text NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries       int NOT NULL DEFAULT 1,
    PRIMARY KEY (migration, database, direction, table_no, key)
);

CREATE TABLE IF NOT EXISTS shardctl.ownership (
    migration text,
    database  text,
    shards    int[] NOT NULL,
    owner     text NOT NULL,
    epoch     bigint NOT NULL,
    term      bigint NOT NULL,
    PRIMARY KEY (migration, database),
    CHECK (owner IN ('source', database))
);

CREATE TABLE IF NOT EXISTS shardctl.journal (
    migration text,
    id        uuid,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt   uuid NOT NULL,
    command   text NOT NULL,
    step      text NOT NULL,
    outcome   text NOT NULL,
    os_user   text NOT NULL,
    host      text NOT NULL,
    pid       int NOT NULL,
    detail    jsonb,
    PRIMARY KEY (migration, id)
);
CREATE INDEX IF NOT EXISTS journal_at ON shardctl.journal (migration, at);

-- What a truncated log segment had reached: a position below it has lost entries.
CREATE TABLE IF NOT EXISTS shardctl.low_water (
    migration text,
    table_no  int,
    segment   int,
    snapshot  pg_snapshot NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, table_no, segment)
);

-- The segment that the capture function of a table writes.
CREATE TABLE IF NOT EXISTS shardctl.segment (
    migration   text,
    table_no    int,
    active      int NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),
    switched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, table_no)
);

CREATE TABLE IF NOT EXISTS shardctl.gap (
    migration text,
    database  text,
    direction text CHECK (direction IN ('forward', 'reverse')),
    reason    text NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, database, direction)
);

-- What captured tables were like when they were last accepted; a difference is DDL under way.
CREATE TABLE IF NOT EXISTS shardctl.fingerprint (
    migration   text,
    table_no    int,
    fingerprint jsonb NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (migration, table_no)
);
