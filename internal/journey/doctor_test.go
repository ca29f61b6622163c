package journey

import (
	"slices"
	"strings"
	"testing"
)

var checkKeys = map[string]string{"id": "text", "state": "text", "object": "text", "evidence": "text", "fix": "text null"}

// finding is one check that doctor printed.
type finding struct{ id, state, object, evidence, fix string }

// doctor runs the command and gives its checks.
func (w *world) doctor(t testing.TB, code int, args ...string) []finding {
	t.Helper()
	got, doc := w.run(t, append([]string{"doctor"}, args...)...)
	list, ok := doc["checks"].([]any)
	if !ok {
		t.Fatalf("doctor %v: exit %d, want %d: %v", args, got, code, doc)
	}
	eachHas(t, "doctor", doc, "checks", checkKeys)
	var out []finding
	for _, c := range list {
		check, _ := c.(map[string]any)
		out = append(out, finding{text(check, "id"), text(check, "state"), text(check, "object"), text(check, "evidence"), text(check, "fix")})
	}
	if got != code {
		t.Fatalf("doctor %v: exit %d, want %d: %+v", args, got, code, slices.DeleteFunc(out, func(f finding) bool { return f.state == "ok" }))
	}
	return out
}

// of gives the checks with an id that are in a state.
func of(found []finding, id, state string) (out []finding) {
	for _, f := range found {
		if f.id == id && f.state == state {
			out = append(out, f)
		}
	}
	return out
}

// well demands that nothing is broken, and nothing but what is named needs attention.
func (w *world) well(t testing.TB, but ...string) {
	t.Helper()
	for _, f := range w.doctor(t, 0) {
		if f.state != "ok" && !strings.Contains(" "+strings.Join(but, " ")+" ", " "+f.id+" ") {
			t.Errorf("doctor: %+v", f)
		}
	}
}

// quiet is a migration without writers: doctor's checks are about what stands.
func quiet(t *testing.T, name string) *world {
	t.Helper()
	w := newWorld(t, shape{migration: name, home: []int{0, 1, 0}, schema: "shard_%03d", storeAs: true, blocks: 300, writers: 1})
	w.load()
	return w
}

// copied takes it to a clean verification.
func (w *world) copied(t testing.TB) {
	t.Helper()
	w.must(t, "prepare")
	w.must(t, "topology", "push", "--yes")
	w.must(t, "install")
	w.backfilled(t)
	w.must(t, "verify")
}

func (w *world) backfilled(t testing.TB) {
	t.Helper()
	catchup := w.begin(t, "catchup")
	w.must(t, "backfill")
	if r := catchup.Interrupt(t); r.Code != 130 {
		t.Fatalf("catchup: %s", r)
	}
}

// TestDoctorOfAHealthyMigration: in each phase every invariant holds.
func TestDoctorOfAHealthyMigration(t *testing.T) {
	t.Parallel()
	w := quiet(t, "healthy")
	before := w.catalogs()
	w.well(t)
	w.unchanged(t, before, "doctor")
	w.must(t, "prepare")
	w.well(t, "router")
	w.must(t, "topology", "push", "--yes")
	w.well(t)
	w.must(t, "install")
	w.well(t)
	w.backfilled(t)
	w.well(t, "verify")
	w.must(t, "verify")
	w.well(t)
	w.must(t, "cutover", "--yes")
	w.well(t, "verify")
	w.must(t, "rollback", "--yes")
	w.well(t, "verify")
	w.must(t, "verify")
	w.must(t, "cutover", "--yes")
	w.targets[0].Stop(t, "fast")
	found := w.doctor(t, 1)
	if len(of(found, "server", "not run")) != 2 || len(of(found, "owner", "not run")) != 2 {
		t.Errorf("a server that is down: %+v", found)
	}
	w.targets[0].Start(t)
	w.must(t, "complete", "--yes")
	w.well(t)
	w.refused(t, 64, "doctor", "--repair")
	w.refused(t, 64, "doctor", "--acknowledge-ddl")
	w.refused(t, 64, "doctor", "--agree", "public.block:1")
}
