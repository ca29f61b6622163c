package verify

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

const benchRows = 300_000

// BenchmarkFull reports how long a full pass takes in proportion to what it is
// measured by: digests of 128 bits of all rows, summed by plain SQL on all sides at
// once. It also reports how many times the source's pages were read.
func BenchmarkFull(b *testing.B) {
	w := build(b, 4, migrate.Shards{Count: 8, Schema: "shard_%03d"}, []migrate.Table{
		{Name: migrate.TableName{Schema: "public", Name: "block"}, Key: migrate.Key{Column: "workspace_id"}},
	}, "", `CREATE TABLE public.block (id uuid PRIMARY KEY, workspace_id uuid NOT NULL, parent_id uuid, type text NOT NULL, properties jsonb NOT NULL,
		content uuid[] NOT NULL, alive boolean NOT NULL, version bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)`)
	w.source.Exec(b, fmt.Sprintf(`SET shardctl.applier = 'm'; INSERT INTO block SELECT md5('b'||i)::uuid, md5('w'||i%%997)::uuid, md5('b'||i/2)::uuid, (array['text','to_do','page'])[1+i%%3],
		jsonb_build_object('title', repeat(md5(i::text), 1+i%%6), 'n', i, 'checked', i%%2=0), array[md5('b'||i+1)::uuid], i%%50<>0, 1+i%%7,
		timestamptz '2021-01-01' + i*interval '1 second', timestamptz '2021-06-01' + i*interval '1 second' FROM generate_series(1, %d) i; RESET shardctl.applier`, benchRows))
	w.source.Exec(b, "VACUUM ANALYZE block")
	w.catchUp()
	for i, db := range w.databases {
		for _, p := range w.verifier.places(w.layout.Tables[0], w.verifier.databases[i]) {
			db.Exec(b, "VACUUM ANALYZE "+p.table)
		}
	}
	w.verifier.limits = defaults
	var ours, plain time.Duration
	pages := w.sourcePages(b)
	for b.Loop() {
		plain += w.plainSQL(b)
		started := time.Now()
		if r := w.full(); r.State != Clean || r.RowsCompared != benchRows {
			b.Fatalf("%+v", r)
		}
		ours += time.Since(started)
	}
	n := float64(b.N)
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "of-plain-SQL")
	b.ReportMetric(ours.Seconds()/n, "s/pass")
	b.ReportMetric(plain.Seconds()/n, "s/plain-SQL")
	size, _ := strconv.ParseFloat(w.source.Value(b, "SELECT pg_relation_size('block') / current_setting('block_size')::int"), 64)
	b.ReportMetric((w.sourcePages(b)-pages)/n/size-1, "source-reads/pass") // plain SQL reads them once
}

func (w *world) sourcePages(b *testing.B) float64 {
	w.source.Exec(b, "SELECT pg_stat_force_next_flush()")
	pages, err := strconv.ParseFloat(w.source.Value(b, "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'block'"), 64)
	must(b, err)
	return pages
}

// plainSQL runs the digests of both sides at once.
func (w *world) plainSQL(b *testing.B) time.Duration {
	table := w.layout.Tables[0]
	digest := func(seed string) string {
		return "sum(" + digester{records: true}.row("a", table.Copied(), seed) + ")"
	}
	query := func(name string) string {
		return fmt.Sprintf("SELECT count(*)::text || %s || %s FROM %s AS a", digest("0"), digest("1"), name)
	}
	queries := []string{query(table.QualifiedSource())}
	servers := []*server{w.verifier.source}
	for _, d := range w.verifier.databases {
		var parts []string
		for _, p := range w.verifier.places(table, d) {
			parts = append(parts, query(p.table))
		}
		queries, servers = append(queries, strings.Join(parts, " UNION ALL ")), append(servers, d)
	}
	var g errgroup.Group
	ctx := context.Background()
	started := time.Now()
	for i, s := range servers {
		g.Go(func() error {
			conn, err := postgres.Connect(ctx, s.Target, "plain")
			if err != nil {
				return err
			}
			defer postgres.CloseQuietly(ctx, conn)
			_, err = conn.Exec(ctx, queries[i])
			return err
		})
	}
	must(b, g.Wait())
	return time.Since(started)
}
