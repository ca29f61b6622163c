package histories

import (
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

// shape is what the tables and databases of a history are like.
type shape struct {
	name      string
	databases int
	shards    int
	schema    string
	enforced  bool // foreign keys with cascades on the source; a key must be there
	stored    bool // comments carry the key on the databases
	stray     migrate.Stray
}

var shapes = []shape{
	{name: "schemas", databases: 2, shards: 4, schema: "shard_%d", enforced: true, stray: migrate.Stray{Policy: "refuse"}},
	{name: "plain", databases: 3, shards: 8, schema: "app", stored: true, stray: migrate.Stray{Policy: "skip"}},
	{name: "orphans", databases: 2, shards: 4, schema: "shard_%d", stray: migrate.Stray{Policy: "shard", Shard: 2}},
}

// Few rows fit on a page, so that a table has several chunks.
const tablesDDL = `
CREATE TABLE public.block (id bigint PRIMARY KEY, ws bigint /*NOT NULL*/, slug text UNIQUE, body text) WITH (fillfactor = 10);
CREATE TABLE public.comment (id bigint PRIMARY KEY, block_id bigint /*block*/, body text) WITH (fillfactor = 10);
CREATE INDEX ON public.comment (block_id);
CREATE TABLE public.reply (id bigint PRIMARY KEY, comment_id bigint /*comment*/, body text) WITH (fillfactor = 10);
CREATE INDEX ON public.reply (comment_id);
CREATE TABLE public.plan (id int PRIMARY KEY, name text UNIQUE);
CREATE TABLE public.event (ws bigint NOT NULL, id bigint, day int, body text, PRIMARY KEY (ws, id, day)) PARTITION BY RANGE (day);
CREATE TABLE public.event_0 PARTITION OF public.event FOR VALUES FROM (0) TO (10) WITH (fillfactor = 10);
CREATE TABLE public.event_1 PARTITION OF public.event FOR VALUES FROM (10) TO (20) WITH (fillfactor = 10)`

func (s shape) ddl() string {
	if !s.enforced {
		return tablesDDL
	}
	const link = "REFERENCES public.$ ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"
	return strings.NewReplacer("/*NOT NULL*/", "NOT NULL", "/*block*/", strings.ReplaceAll(link, "$", "block"), "/*comment*/", strings.ReplaceAll(link, "$", "comment")).Replace(tablesDDL)
}

func (s shape) tables() []migrate.Table {
	name := func(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }
	comment := migrate.Key{From: name("block"), Via: "block_id"}
	if s.stored {
		comment.StoreAs = "ws"
	}
	return []migrate.Table{
		{Name: name("block"), Key: migrate.Key{Column: "ws"}, NullKeys: s.stray, Rollback: "full"},
		{Name: name("comment"), Key: comment, NullKeys: s.stray, Orphans: s.stray, Rollback: "full"},
		{Name: name("reply"), Key: migrate.Key{From: name("comment"), Via: "comment_id"}, NullKeys: s.stray, Orphans: s.stray, Rollback: "full"},
		{Name: name("plan"), Everywhere: true},
		{Name: name("event"), Key: migrate.Key{Column: "ws"}, Rollback: "full"},
	}
}
