package histories

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/verify"
)

// TestALongWriterCrossesEveryBorder: one is open since before install, another since
// before the copy; they write at each border and commit after the last.
func TestALongWriterCrossesEveryBorder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var oldest pgx.Tx
	w := newWorldAfter(t, shapes[1], func(w *world) {
		var err error
		oldest, err = w.newSession(ctx, 0, "oldest").conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		must(t, err)
		write(t, oldest, "CREATE TEMP TABLE mine (id int); INSERT INTO mine VALUES (1)")
	})
	w.reset(ctx, newHistory(1, w.shape).load)
	w.catchup.start(ctx, 20000)
	long, err := w.newSession(ctx, 0, "long").conn.Begin(ctx)
	must(t, err)
	border := func(n string) {
		t.Helper()
		write(t, long, "INSERT INTO public.block VALUES (2"+n+", 1, NULL, 'long'); UPDATE public.block SET ws = 8 - ws, body = 'long' WHERE id = "+n+"; DELETE FROM public.comment WHERE id = "+n)
		write(t, oldest, "INSERT INTO public.block VALUES (3"+n+", 2, NULL, 'oldest'); INSERT INTO public.event VALUES (1, 3"+n+", 5, 'oldest')")
		_, err := w.conns[0].Exec(ctx, "INSERT INTO public.block VALUES (4"+n+", 3, NULL, 'short')")
		must(t, err)
		w.catchup.tick(ctx)
	}
	border("1") // after install
	c := startCopying(ctx, w, history{pages: 1}, backfill.Live)
	border("2") // a chunk is under way
	c.release()
	must(t, <-c.done)
	c.cancel()
	border("3") // the copy is whole
	w.catchup.drain(ctx, false)
	if r, err := w.verifier.Full(ctx); err != nil || r.State != verify.Clean {
		t.Errorf("verification under long writers: %+v, %v", r, err)
	}
	border("4") // verified
	must(t, long.Commit(ctx))
	w.catchup.tick(ctx)
	must(t, oldest.Commit(ctx))
	w.catchup.drain(ctx, false)
	w.judge(ctx)
	for _, tx := range []pgx.Tx{long, oldest} {
		must(t, tx.Conn().Close(context.Background()))
	}
}

func write(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	_, err := tx.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	must(t, err)
}
