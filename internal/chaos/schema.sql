CREATE TABLE public.workspace (
    id      uuid PRIMARY KEY,
    body    text NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE public.block (
    id           uuid PRIMARY KEY,
    workspace_id uuid NOT NULL REFERENCES public.workspace ON DELETE CASCADE,
    doc          jsonb NOT NULL,
    version      bigint NOT NULL
);
CREATE INDEX block_workspace ON public.block (workspace_id);
CREATE TABLE public.comment (
    id       uuid PRIMARY KEY,
    block_id uuid NOT NULL REFERENCES public.block ON DELETE CASCADE,
    body     text NOT NULL,
    version  bigint NOT NULL
);
CREATE INDEX comment_block ON public.comment (block_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON public.workspace, public.block, public.comment TO app;
