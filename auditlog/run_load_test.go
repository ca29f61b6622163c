package auditlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// TestUnderLoad lets writers do everything at once, in transactions of all kinds,
// while the applier runs in small batches and loses its sessions now and then.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	tables := blocks()
	tables[0].NullKeys = migrate.Stray{Policy: "shard", Shard: 1}
	tables[1].NullKeys, tables[1].Orphans = tables[0].NullKeys, tables[0].NullKeys
	r := newRig(t, rigSpec{batch: 20, tables: tables, ddl: `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint, body text UNIQUE);
		CREATE TABLE public.comment (id bigint PRIMARY KEY, block_id bigint, body text); CREATE INDEX ON public.comment (block_id); CREATE TABLE public.plan (id int PRIMARY KEY, name text)`})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	var wait sync.WaitGroup
	for w := range 4 {
		conn := r.source.Connect(t)
		rng := rand.New(rand.NewPCG(uint64(w), 7))
		wait.Go(func() {
			for range 120 {
				transact(t, conn, rng)
			}
		})
	}
	killer := r.source.Connect(t)
	wait.Go(func() {
		for range 6 {
			_, err := killer.Exec(context.Background(), `SELECT pg_sleep(0.2), pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name IN ('shardctl apply', 'shardctl catchup read', 'shardctl catchup marker') AND datname = ANY($1) ORDER BY random() LIMIT 1) a`, r.names())
			if err != nil {
				t.Error(err)
			}
		}
	})
	wait.Wait()
	run.end(t)
	again := r.newApplier(t, 0, rigSpec{batch: 20})
	must(t, again.Run(t.Context(), auditlog.RunOptions{Once: true}))
	again.Close(t.Context())
	for _, d := range r.dbs {
		if got := quarantine(t, d); len(got) > 0 {
			t.Errorf("in quarantine: %v", got)
		}
	}
	r.want(t)
}

func (r *rig) names() []string {
	out := []string{r.source.Name}
	for _, d := range r.dbs {
		out = append(out, d.Name)
	}
	return out
}

// transact runs one random transaction; what is refused is undone.
func transact(t testing.TB, conn *pgx.Conn, rng *rand.Rand) {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	for range 1 + rng.IntN(5) {
		id, other := rng.IntN(40), rng.IntN(40)
		sql := []string{
			fmt.Sprintf("INSERT INTO public.block VALUES (%d, %d, 'u%d') ON CONFLICT DO NOTHING", id, other, rng.IntN(40)),
			fmt.Sprintf("UPDATE public.block SET workspace_id = %d WHERE id = %d", other, id),
			fmt.Sprintf("UPDATE public.block SET workspace_id = NULL WHERE id = %d", id),
			fmt.Sprintf("UPDATE public.block SET body = 'u%d' WHERE id = %d AND NOT EXISTS (SELECT FROM public.block WHERE body = 'u%[1]d')", other, id),
			fmt.Sprintf("UPDATE public.block SET id = %d WHERE id = %d AND NOT EXISTS (SELECT FROM public.block WHERE id = %[1]d)", other, id),
			fmt.Sprintf("DELETE FROM public.block WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO public.comment VALUES (%d, %d, 'c') ON CONFLICT (id) DO UPDATE SET block_id = excluded.block_id", id, other),
			fmt.Sprintf("UPDATE public.comment SET block_id = %d, body = body || 'x' WHERE id = %d", other, id),
			fmt.Sprintf("DELETE FROM public.comment WHERE id = %d", id),
			fmt.Sprintf("INSERT INTO public.plan VALUES (%d, 'p') ON CONFLICT (id) DO UPDATE SET name = plan.name || 'x'", id),
			fmt.Sprintf("DELETE FROM public.plan WHERE id = %d", id),
		}
		all := append(sql, "SAVEPOINT s; UPDATE public.block SET body = body || 's'; ROLLBACK TO s", "TRUNCATE public.comment")
		choice := rng.IntN(11*12+8) / 12
		if choice == 11 && rng.IntN(3) > 0 {
			choice = 12 // a truncate, now and then
		}
		if _, err = conn.PgConn().Exec(ctx, all[choice]).ReadAll(); err != nil {
			break
		}
	}
	if code := postgres.SQLState(err); err != nil && code != "23505" && code != "40P01" {
		t.Error(err)
	}
	if err != nil || rng.IntN(10) == 0 {
		_ = tx.Rollback(ctx)
		return
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
}

var _ = pgtest.Main
