CREATE TABLE workspace (
    id      uuid PRIMARY KEY,
    body    text NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE block (
    id           uuid PRIMARY KEY,
    workspace_id uuid NOT NULL REFERENCES workspace ON DELETE CASCADE,
    body         text NOT NULL,
    version      bigint NOT NULL
);
CREATE INDEX block_workspace ON block (workspace_id);
CREATE TABLE comment (
    id       uuid PRIMARY KEY,
    block_id uuid NOT NULL REFERENCES block ON DELETE CASCADE,
    body     text NOT NULL,
    version  bigint NOT NULL
);
CREATE INDEX comment_block ON comment (block_id);
