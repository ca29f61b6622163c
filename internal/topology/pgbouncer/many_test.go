package pgbouncer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// testManyEntries drives entries that are held all at once and, many more than fit the
// console's buffer, one by one.
func testManyEntries(t *testing.T, dbs []*pgtest.Database) {
	for name, c := range map[string]struct {
		shards int
		extra  string
	}{"bare": {480, ""}, "by entry": {480, "other = {source}\n"}, "very many": {1200, "other = {source}\n"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dbs, c.shards, 1, lines(c.shards)+c.extra)
			r := w.router()
			busy := w.begin(0, "app_479")
			busy.commit()
			var took [4]time.Duration
			for epoch := range 3 {
				doc := w.document(int64(epoch+1), []string{"", "db0 db1"}[epoch%2])
				for n, step := range []func() error{
					func() error { return r.Pause(t.Context(), nil) },
					func() error { return r.Commit(t.Context(), doc) },
					func() error { return r.ReadBack(t.Context(), doc) },
					func() error { return r.Resume(t.Context()) },
				} {
					began := time.Now()
					if err := step(); err != nil {
						t.Fatal(err)
					}
					took[n] = time.Since(began)
				}
				for _, entry := range []string{"app_000", "app_479"} {
					if got := w.leadsTo(0, entry); got != doc.Shards[0].DBName && got != doc.Shards[c.shards-1].DBName {
						t.Errorf("%s leads to %s", entry, got)
					}
				}
			}
			t.Logf("pause %s, commit %s, read back %s, resume %s", took[0], took[1], took[2], took[3])
			if findings, err := r.Probe(t.Context(), w.document(9, "db0 db1"), nil); err != nil || len(findings) > 0 {
				t.Error(errors.Join(err), findings)
			}
		})
	}
}
