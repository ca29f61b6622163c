package verify

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/migrate"
)

// farWorld has a database whose rows with a long x lie behind what a search reads first,
// and free room before them. During is called once while such rows are searched for there.
func farWorld(t *testing.T, during func(*world)) *world {
	w := build(t, 1, migrate.Shards{Count: 2, Schema: "app"}, []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "a"}, Key: migrate.Key{Column: "k"}}},
		"", "CREATE TABLE public.a (id int PRIMARY KEY, k int, x text) WITH (autovacuum_enabled = off)")
	w.databases[0].Exec(t, "INSERT INTO app.a SELECT i, 1, repeat('x', 1500) FROM generate_series(10001, 12000) i")
	w.source.Exec(t, "INSERT INTO a SELECT i, i, repeat('x', 1500) FROM generate_series(1, 20) i")
	w.catchUp() // replaces what was there
	if page := w.databases[0].Value(t, "SELECT min((ctid::text::point)[0]) >= $1 FROM app.a", firstPages); page != "t" {
		t.Fatal("the rows are not where they should be")
	}
	w.verifier.cfg.Observe = func(e Event) {
		if e.Kind == Narrowing && during != nil {
			during(w)
			during = nil
		}
	}
	return w
}

const oneMore = "INSERT INTO app.a SELECT 99, 1, repeat('y', 1500)"

// VACUUM FULL moves the rows from pages that were not read yet to such that were.
func TestARowThatIsRewrittenAwayFromItsSearchIsFound(t *testing.T) {
	t.Parallel()
	w := farWorld(t, func(w *world) { w.databases[0].Exec(t, "VACUUM FULL app.a") })
	w.damage(w.databases[0], oneMore)
	w.damage(w.databases[0], "UPDATE app.a SET x = repeat('z', 1500) WHERE id = 7")
	got := lines(w.full().Differences)
	slices.Sort(got)
	if want := []string{"different public.a 7 db0.app x", "extra public.a 99 db0.app"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A row that differed went without a trace: nothing can be told of it.
func TestARowThatIsNotFoundAgainIsNoCleanPass(t *testing.T) {
	t.Parallel()
	w := farWorld(t, func(w *world) { w.damage(w.databases[0], "DELETE FROM app.a WHERE id = 99") })
	w.damage(w.databases[0], oneMore)
	if r := w.full(); r.State != Partial || len(r.Differences) != 0 || !strings.Contains(r.Reason, "1 rows of public.a differed") {
		t.Errorf("%+v", r)
	}
	if r := w.full(); r.State != Clean {
		t.Errorf("after it: %+v", r)
	}
}

// A row that differed is deleted by the application: the log tells what became of it.
func TestARowThatIsDeletedDuringItsSearchIsTold(t *testing.T) {
	t.Parallel()
	w := farWorld(t, func(w *world) {
		w.source.Exec(t, "DELETE FROM a WHERE id = 7")
		w.catchUp()
	})
	w.damage(w.databases[0], "UPDATE app.a SET x = repeat('z', 1500) WHERE id = 7")
	if r := w.full(); r.State != Clean {
		t.Errorf("%+v", r)
	}
}
