package auditlog_test

import (
	"fmt"
	"testing"
	"time"
)

// TestManySchemas: with a schema per logical shard an idle tick costs no more than
// with one, and a small batch costs no round trip for each.
func TestManySchemas(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 480 schemas")
	}
	t.Parallel()
	r := newRig(t, rigSpec{count: 480, schema: "shard_%03d", tables: blocks()[:1], ddl: `CREATE TABLE public.block (id bigint PRIMARY KEY, workspace_id bigint NOT NULL, body text)`})
	r.source.Exec(t, "INSERT INTO public.block SELECT g, g, 'x' FROM generate_series(1, 1000) g")
	r.level(t)
	r.source.Exec(t, "UPDATE public.block SET body = 'y'")
	timed := func(what string, f func()) time.Duration {
		start := time.Now()
		f()
		took := time.Since(start)
		t.Log(what, took)
		return took
	}
	timed("1000 keys in 480 schemas", func() { r.tick(t) })
	idle := timed("idle", func() { r.tick(t) })
	for range 4 {
		idle = min(idle, timed("idle", func() { r.tick(t) }))
	}
	if idle > 100*time.Millisecond {
		t.Errorf("an idle tick takes %s", idle)
	}
	if got := r.count(t, "block"); got != 1000 {
		t.Errorf("%d rows", got)
	}
	r.own(t)
	r.applier.Close(t.Context())
	for i, d := range r.dbs {
		for _, loc := range r.spec.LocationsOf(r.name(i)) {
			d.Exec(t, fmt.Sprintf("UPDATE %q.block SET body = 'z'", loc.Schema))
		}
	}
	timed("1000 keys back", func() { r.back(t) })
	timed("idle back", func() { r.back(t) })
	if got := r.source.Value(t, "SELECT count(*) FROM public.block WHERE body = 'z'"); got != "1000" {
		t.Errorf("%s rows came back", got)
	}
}
