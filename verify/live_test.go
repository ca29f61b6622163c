package verify

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// The applier has not moved: writes that follow are in the log and not on the
// databases.
func TestWritesThatAreNotAppliedYetAreNoDifferences(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.source.Exec(t, `UPDATE block SET f = -1 WHERE `+id(1)+`;
		DELETE FROM block WHERE `+id(1500)+`;
		INSERT INTO block (id, ws) VALUES (md5('new')::uuid, 3);
		UPDATE block SET ws = ws + 1 WHERE `+id(3)+`;
		UPDATE plan SET name = 'later' WHERE id = 1`)
	// The child of a row that moves is not named by the log, its parent is.
	child := w.source.Value(t, "SELECT count(*) FROM comment WHERE block_id IN (SELECT id FROM block WHERE "+id(3)+")")
	if child != "1" {
		t.Fatalf("%s children move", child)
	}
	r := w.full()
	if len(r.Differences) > 0 || r.State != Clean || r.Unsettled == 0 {
		t.Errorf("with the applier behind: %+v", r)
	}
	w.catchUp()
	round, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || round.Unsettled != 0 || round.Checked < 5 || len(round.Differences) > 0 {
		t.Errorf("level again: %+v, %v", round, err)
	}
	if s, err := w.verifier.State(t.Context(), 0); err != nil || s.State != Clean || s.Unsettled != 0 {
		t.Errorf("level again: %+v, %v", s, err)
	}
}

// A difference that only looks like a late write is still found: the entry that
// could explain it has been applied.
func TestADifferenceUnderAnAppliedWriteIsFound(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.source.Exec(t, `UPDATE block SET f = -1 WHERE `+id(1)+`; UPDATE block SET f = -2 WHERE `+id(2))
	w.catchUp()
	s := w.find(w.layout.Tables[0], id(1))
	w.damage(s.db, "UPDATE "+s.table+" SET f = 1 WHERE "+id(1))
	// Another row goes on changing; that explains nothing here.
	w.source.Exec(t, `UPDATE block SET f = -3 WHERE `+id(2))
	r := w.full()
	want := []string{fmt.Sprintf("different public.block %s %s.%s f", w.source.Value(t, "SELECT md5('1')::uuid"), s.name, s.schema)}
	if got := lines(r.Differences); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// A hot row, updated all the time and applied a moment later, differs at nearly
// every look and is never wrong. A row next to it that is wrong is found.
func TestAHotRowIsNoDifference(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	s := w.find(w.layout.Tables[0], id(1))
	cold := w.find(w.layout.Tables[0], id(9))
	w.damage(cold.db, "UPDATE "+cold.table+" SET n = 0 WHERE "+id(9))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	source, target := w.pinned(w.source), w.pinned(s.db)
	go func() { done <- w.heat(ctx, source, target, s) }()
	for range 2 {
		r := w.full()
		if got := lines(r.Differences); len(got) != 1 || r.Differences[0].Key[0] != w.source.Value(t, "SELECT md5('9')::uuid") {
			t.Errorf("found %v", got)
		}
	}
	stop()
	must(t, <-done)
}

// heat updates a row and applies it, position included, a moment later.
func (w *world) heat(ctx context.Context, source, target *pgx.Conn, s spot) error {
	background := context.Background()
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := source.Exec(background, "UPDATE public.block SET f = $1 WHERE "+id(1), float64(i)); err != nil {
			return err
		}
		err := postgres.WithTx(background, source, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(from pgx.Tx) error {
			var snapshot string
			var f float64
			if err := from.QueryRow(background, "SELECT pg_current_snapshot()::text, f FROM public.block WHERE "+id(1)).Scan(&snapshot, &f); err != nil {
				return err
			}
			return postgres.WithTx(background, target, pgx.TxOptions{}, func(to pgx.Tx) error {
				if _, err := to.Exec(background, "UPDATE "+s.table+" SET f = $1 WHERE "+id(1), f); err != nil {
					return err
				}
				return store.SavePosition(background, to, "m", s.name, store.Forward, store.Position{SystemIdentifier: "1", Snapshot: snapshot, LSN: "0/1"})
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A table that was emptied and has not been emptied on the databases yet.
func TestATruncateThatIsNotAppliedYetIsNoDifference(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.source.Exec(t, "TRUNCATE plan")
	r := w.full()
	if len(r.Differences) > 0 {
		t.Errorf("found %v", lines(r.Differences))
	}
	w.catchUp()
	// The log does not name the rows that went: only a new pass can tell.
	if round, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1"); err != nil || len(round.Broken) != 2 {
		t.Errorf("%+v, %v", round, err)
	}
	if s, _ := w.verifier.State(t.Context(), 0); s.State != Stale {
		t.Errorf("%+v", s)
	}
	if r := w.full(); r.State != Clean {
		t.Errorf("%+v", r)
	}
}

func TestAfterASwitchTheDatabaseIsRight(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	if r := w.full(); r.State != Clean {
		t.Fatalf("%+v", r)
	}
	w.catchUp()
	now := w.source.Value(t, "SELECT pg_current_snapshot()")
	for i := range w.databases {
		w.own(i, fmt.Sprintf("db%d", i), 2)
		w.save(i, store.Reverse, now)
	}
	if s, _ := w.verifier.State(t.Context(), 0); s.State != Stale {
		t.Errorf("in the new epoch: %+v", s)
	}
	block := w.layout.Tables[0]
	s1, s2, s4 := w.find(block, id(1)), w.find(block, id(2)), w.find(block, id(4))
	// Written by the application, and not applied on the source yet.
	s1.db.Exec(t, "UPDATE "+s1.table+" SET f = -1 WHERE "+id(1))
	s4.db.Exec(t, "DELETE FROM "+s4.table+" WHERE "+id(4))
	// Wrong on the source, and on a database.
	w.damage(w.source, "UPDATE public.block SET f = -2 WHERE "+id(2))
	s3 := w.find(block, id(3))
	w.damage(w.source, "DELETE FROM public.block WHERE "+id(3))
	r := w.full()
	key := func(i int) string { return w.source.Value(t, "SELECT md5($1::int::text)::uuid", i) }
	want := []string{
		fmt.Sprintf("different public.block %s %s.%s f", key(2), s2.name, s2.schema),
		fmt.Sprintf("missing public.block %s %s.%s", key(3), s3.name, s3.schema),
	}
	got := lines(r.Differences)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || r.Differences[0].Direction != "reverse" || r.Unsettled != 2 {
		t.Errorf("found %v, want %v: %+v", got, want, r)
	}
	// What remains is settled once it is applied.
	w.damage(w.source, "UPDATE public.block SET f = -1 WHERE "+id(1))
	w.damage(w.source, "DELETE FROM public.block WHERE "+id(4))
	for i, db := range w.databases {
		w.save(i, store.Reverse, db.Value(t, "SELECT pg_current_snapshot()"))
	}
	round, err := w.verifier.DeltaCheck(t.Context(), "db0", "db1")
	if err != nil || round.Unsettled != 0 || len(round.Differences) != 0 || len(round.Broken) != 0 {
		t.Errorf("applied: %+v, %v", round, err)
	}
}
