package verify

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// Chunks of one page, buffers of a few rows, a sketch that is far too small: the
// same result.
func TestEveryBoundIsSoft(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	w.verifier.limits.chunk, w.verifier.limits.rows, w.verifier.limits.keys, w.verifier.limits.streams = 1, 16, 3, 1
	for i := range 5 {
		s := w.find(w.layout.Tables[0], id(i+1))
		w.damage(s.db, "UPDATE "+s.table+" SET n = -1 WHERE "+id(i+1))
	}
	if r := w.full(); len(r.Differences) != 5 || r.RowsCompared != 3010 {
		t.Errorf("%+v", r)
	}
}

// So much differs that one sketch cannot tell it apart: the keys are cut into
// slices, and as many differences as are listed are enough.
func TestAnEmptyDatabaseIsToldInSlices(t *testing.T) {
	t.Parallel()
	w := build(t, 2, migrate.Shards{Count: 4, Schema: "app"}, []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "a"}, Key: migrate.Key{Column: "id"}}},
		"", "CREATE TABLE public.a (id int PRIMARY KEY, x text)")
	w.source.Exec(t, "INSERT INTO a SELECT i, 'x' FROM generate_series(1, 6000) i; ANALYZE a")
	w.catchUp()
	w.damage(w.databases[1], "DELETE FROM app.a")
	gone := 6000 - len(w.databases[0].Rows(t, "SELECT id FROM app.a"))
	w.verifier.limits.cells = 3 * 512
	r := w.full()
	if len(r.Differences) != 1000 || !r.Truncated || r.State != Differences {
		t.Errorf("%d of %d listed, truncated %v, %s", len(r.Differences), gone, r.Truncated, r.State)
	}
	w.verifier.limits.differences = 10_000
	if r := w.full(); len(r.Differences) != gone || r.Truncated {
		t.Errorf("%d of %d found", len(r.Differences), gone)
	}
}

// VACUUM FULL moves rows without writing them.
func TestATableThatIsRewrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	times := 0
	w.verifier.cfg.Pause = nil
	w.verifier.cfg.Observe = func(e Event) {
		if e.Kind == Reading && e.Table == "public.block" && times < 2 {
			times++
			w.source.Exec(t, "VACUUM FULL block")
		}
	}
	if r := w.full(); r.State != Clean || times != 2 {
		t.Errorf("rewritten %d times: %+v", times, r)
	}
	w.verifier.cfg.Observe = func(e Event) {
		if e.Kind == Reading && e.Table == "public.block" {
			w.source.Exec(t, "VACUUM FULL block")
		}
	}
	if _, err := w.verifier.Full(t.Context()); code(err) != "verify.rewritten" {
		t.Errorf("rewritten all the time: %v", err)
	}
}

func TestSampleFindsWhatIsWrongNextToItsPoints(t *testing.T) {
	t.Parallel()
	w := blockWorld(t)
	r, err := w.verifier.Sample(t.Context(), 50)
	if err != nil || r.State != Partial || len(r.Differences) > 0 || r.RowsCompared == 0 || r.Coverage > 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r.Detects.Confidence != 0.95 || r.Detects.Rate < 0.055 || r.Detects.Rate > 0.06 {
		t.Errorf("50 points show %+v", r.Detects)
	}
	for i, db := range w.databases {
		for _, p := range w.verifier.places(w.layout.Tables[0], w.verifier.databases[i]) {
			db.Exec(t, "SET session_replication_role = replica; DELETE FROM "+p.table+" WHERE ctid IN (SELECT ctid FROM "+p.table+" LIMIT 20);"+
				"INSERT INTO "+p.table+" (id, ws) SELECT gen_random_uuid(), ws FROM "+p.table+" LIMIT 20; RESET session_replication_role")
		}
	}
	r, err = w.verifier.Sample(t.Context(), 50)
	if err != nil || r.State != Differences {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, kind := range []Kind{Missing, Extra} {
		if !slices.ContainsFunc(r.Differences, func(d Difference) bool { return d.Kind == kind }) {
			t.Errorf("no row was found %s", kind)
		}
	}
}

func TestPartitionsAreReadLeafByLeaf(t *testing.T) {
	t.Parallel()
	w := build(t, 2, migrate.Shards{Count: 4, Schema: "shard_%d"}, []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "a"}, Key: migrate.Key{Column: "k"}}},
		"", `CREATE TABLE public.a (id int, k text, x text, PRIMARY KEY (id, x)) PARTITION BY LIST (x);
		CREATE TABLE public.a_1 PARTITION OF public.a FOR VALUES IN ('1'); CREATE TABLE public.a_2 PARTITION OF public.a FOR VALUES IN ('2')`)
	w.source.Exec(t, "INSERT INTO a SELECT i, 'k' || i, 1 + i % 2 FROM generate_series(1, 300) i")
	w.catchUp()
	s := w.find(w.layout.Tables[0], "id = 7")
	w.damage(s.db, "UPDATE "+s.table+" SET x = '1' WHERE id = 7")
	want := []string{fmt.Sprintf("missing public.a 7,2 %s.%s", s.name, s.schema), fmt.Sprintf("extra public.a 7,1 %s.%s", s.name, s.schema)}
	r := w.full()
	if got := lines(r.Differences); len(got) != 2 || !slices.Contains(got, want[0]) || !slices.Contains(got, want[1]) || r.RowsCompared != 300 {
		t.Errorf("found %v of %d rows, want %v", got, r.RowsCompared, want)
	}
}

func TestRowsWithoutAKeyFollowTheirPolicy(t *testing.T) {
	t.Parallel()
	name := func(n string) migrate.TableName { return migrate.TableName{Schema: "public", Name: n} }
	w := build(t, 2, migrate.Shards{Count: 4, Schema: "shard_%d"}, []migrate.Table{
		{Name: name("skipped"), Key: migrate.Key{Column: "k"}, NullKeys: migrate.Stray{Policy: "skip"}},
		{Name: name("placed"), Key: migrate.Key{Column: "k"}, NullKeys: migrate.Stray{Policy: "shard", Shard: 2}},
		{Name: name("refused"), Key: migrate.Key{Column: "k"}, NullKeys: migrate.Stray{Policy: "refuse"}},
		{Name: name("child"), Key: migrate.Key{From: name("refused"), Via: "parent"}, Orphans: migrate.Stray{Policy: "skip"}},
	}, "", `CREATE TABLE public.skipped (id int PRIMARY KEY, k int); CREATE TABLE public.placed (id int PRIMARY KEY, k int);
		CREATE TABLE public.refused (id int PRIMARY KEY, k int); CREATE TABLE public.child (id int PRIMARY KEY, parent int)`)
	for _, table := range []string{"skipped", "placed", "refused"} {
		w.source.Exec(t, "INSERT INTO "+table+" SELECT i, CASE WHEN i % 10 > 0 THEN i END FROM generate_series(1, 50) i")
	}
	w.source.Exec(t, "UPDATE refused SET k = 1 WHERE k IS NULL; INSERT INTO child SELECT i, i + 10 FROM generate_series(1, 50) i")
	w.catchUp()
	if r := w.full(); r.State != Clean || r.RowsCompared != 45+50+50+40 {
		t.Errorf("%+v", r)
	}
	w.damage(w.source, "UPDATE refused SET k = NULL WHERE id = 50")
	got := lines(w.full().Differences)
	// The row of the databases has a key that the source's row has not, and its children too.
	if !slices.ContainsFunc(got, func(s string) bool {
		return s[:len("wrong_location public.refused 50")] == "wrong_location public.refused 50"
	}) {
		t.Errorf("found %q", got)
	}
}

// The server may cut a COPY into writes as it likes.
func TestDigestsAreReadHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t).Connect(t)
	query := "SELECT i, i * 7 FROM generate_series(-100::bigint, 100) i"
	var raw bytes.Buffer
	_, err := conn.PgConn().CopyTo(t.Context(), &raw, "COPY ("+query+") TO STDOUT (FORMAT binary)")
	must(t, err)
	for cut := 1; cut < 60; cut++ {
		r := elementReader{}
		for part := range slices.Chunk(raw.Bytes(), cut) {
			if _, err := r.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.close(); err != nil || len(r.elements) != 201 || r.elements[0] != (element{^uint64(99), ^uint64(699)}) {
			t.Errorf("cut into %d bytes: %d rows, %v", cut, len(r.elements), err)
		}
	}
	r := elementReader{}
	if _, err := r.Write(raw.Bytes()[:raw.Len()-2]); err != nil || r.close() == nil {
		t.Errorf("a COPY without its end passed: %v", err)
	}
	if _, err := (&elementReader{}).Write(append(raw.Bytes()[:19:19], make([]byte, 26)...)); err == nil {
		t.Error("rows of another shape passed")
	}
}
