-- State that only the source has. Idempotent.
CREATE SEQUENCE IF NOT EXISTS shardctl.term_seq;

CREATE TABLE IF NOT EXISTS shardctl.migration (
    name              text PRIMARY KEY,
    phase             text NOT NULL,
    spec_digest       text NOT NULL,
    spec              jsonb NOT NULL,
    system_identifier text NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    window_ends_at    timestamptz,
    install_lsn       pg_lsn,
    details           jsonb NOT NULL DEFAULT '{}'
);

CREATE TABLE IF NOT EXISTS shardctl.member (
    migration         text REFERENCES shardctl.migration ON DELETE CASCADE,
    database          text,
    system_identifier text NOT NULL,
    dbname            text NOT NULL,
    PRIMARY KEY (migration, database)
);

CREATE TABLE IF NOT EXISTS shardctl.captured (
    migration   text,
    table_no    int,
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    PRIMARY KEY (migration, table_no),
    UNIQUE (schema_name, table_name)
);

CREATE TABLE IF NOT EXISTS shardctl.lease (
    migration     text,
    role          text CHECK (role IN ('operator', 'applier', 'verifier')),
    host          text NOT NULL,
    pid           int NOT NULL,
    os_user       text NOT NULL,
    backend_pid   int NOT NULL,
    backend_start timestamptz NOT NULL,
    term          bigint NOT NULL,
    heartbeat_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    rows_per_s    float8, -- how fast the holder works; NULL: not known yet
    PRIMARY KEY (migration, role)
);

CREATE TABLE IF NOT EXISTS shardctl.registry (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    migration  text NOT NULL,
    place      text NOT NULL,
    kind       text NOT NULL,
    name       text NOT NULL,
    undo       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    removed_at timestamptz
);
CREATE UNIQUE INDEX IF NOT EXISTS registry_object ON shardctl.registry (migration, place, kind, name) WHERE removed_at IS NULL;

CREATE TABLE IF NOT EXISTS shardctl.request (
    migration    text PRIMARY KEY,
    kind         text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    answered_at  timestamptz
);

CREATE SEQUENCE IF NOT EXISTS shardctl.plan_seq;

-- A relation (table or leaf) to copy. A number of a plan is never used again: a
-- rewritten relation gets a new one, and ledger lines of the old one are void.
CREATE TABLE IF NOT EXISTS shardctl.backfill_plan (
    migration      text,
    plan           bigint,
    table_no       int,
    leaf           int,
    relation       text NOT NULL,
    relid          oid NOT NULL,
    filenode       oid NOT NULL,
    pages          bigint NOT NULL,
    bytes          bigint NOT NULL,
    estimated_rows bigint NOT NULL,
    next_page      bigint DEFAULT 0,
    next_no        int NOT NULL DEFAULT 1,
    PRIMARY KEY (migration, plan, table_no, leaf)
);
COMMENT ON COLUMN shardctl.backfill_plan.next_page IS 'where the next chunk begins; NULL: all are handed out';

CREATE TABLE IF NOT EXISTS shardctl.backfill_mode (
    migration text,
    database  text,
    plan      bigint NOT NULL,
    mode      text NOT NULL CHECK (mode IN ('live', 'fast')),
    reason    text NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (migration, database)
);

CREATE TABLE IF NOT EXISTS shardctl.backfill_control (
    migration text PRIMARY KEY,
    paused    bool NOT NULL,
    by        text NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS shardctl.chunk (
    migration    text,
    plan         bigint,
    table_no     int,
    no           int,
    leaf         int NOT NULL DEFAULT 0,
    from_page    bigint NOT NULL,
    to_page      bigint,
    note         bigint,
    worker       text,
    backend_pid  int,
    backend_start timestamptz,
    heartbeat_at timestamptz,
    pending      text[] NOT NULL DEFAULT '{}',
    state        text NOT NULL DEFAULT 'todo' CHECK (state IN ('todo', 'copying', 'done')),
    rows         bigint NOT NULL DEFAULT 0,
    skipped      bigint NOT NULL DEFAULT 0,
    done_at      timestamptz,
    PRIMARY KEY (migration, plan, table_no, no)
);
COMMENT ON COLUMN shardctl.chunk.pending IS 'databases whose ledger is not known to have it';
CREATE INDEX IF NOT EXISTS chunk_open ON shardctl.chunk (migration, plan, table_no, no) WHERE state <> 'done';

CREATE TABLE IF NOT EXISTS shardctl.stray (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    migration text NOT NULL,
    database  text NOT NULL,
    table_no  int NOT NULL,
    key       jsonb NOT NULL,
    "row"     jsonb,
    snapshot  pg_snapshot NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    reread_at timestamptz
);
COMMENT ON COLUMN shardctl.stray.reread_at IS 'when the key was handed to the log of the database, which owns the row';
