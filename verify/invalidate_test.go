package verify

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// A round that is under way while passes are made stale does not make them true again.
func TestARoundUnderWayDoesNotReviveAChainThatWasEnded(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx, both := t.Context(), []string{"db0", "db1"}
	w.full()
	must(t, w.verifier.Gate(ctx, both, 0))
	links, _, err := w.verifier.links(ctx, w.verifier.databases)
	must(t, err)
	source := w.conn(w.source)
	for _, l := range links {
		_, err := w.verifier.ready(ctx, l)
		must(t, err)
	}
	must(t, Invalidate(ctx, source, w.verifier.migration()))
	for _, l := range links {
		must(t, w.verifier.enter(ctx, l))
	}
	must(t, postgres.WithTx(ctx, source, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for _, l := range links {
			if err := w.verifier.advance(ctx, tx, l); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, name := range both {
		if err := w.verifier.Gate(ctx, []string{name}, 0); code(err) != "verify.stale" {
			t.Errorf("%s after what was known became stale: %v", name, err)
		}
	}
}

// What is known of one database becomes stale without the others.
func TestOneDatabaseIsInvalidated(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	ctx := t.Context()
	s := w.find(w.layout.Tables[0], id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET n = n + 1 WHERE "+id(1))
	w.full()
	if err := w.verifier.Gate(ctx, []string{s.name}, 0); code(err) != "verify.differences" {
		t.Fatalf("before: %v", err)
	}
	must(t, InvalidateDatabase(ctx, w.conn(w.source), w.verifier.migration(), s.name))
	for _, d := range w.verifier.databases {
		want := ""
		if d.Name == s.name {
			want = "verify.stale"
		}
		if err := w.verifier.Gate(ctx, []string{d.Name}, 0); code(err) != want {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}
