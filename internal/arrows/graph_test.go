package arrows

import (
	"slices"
	"strings"
	"testing"
)

// own builds a graph from names of this module's packages.
func own(imports map[string]string) Graph {
	g := Graph{}
	for from, to := range imports {
		var full []string
		for _, name := range strings.Fields(to) {
			full = append(full, fullPath(name))
		}
		g[fullPath(from)] = full
	}
	return g
}

func TestEachForbiddenArrowIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		imports map[string]string
		want    string // the way, without the module's path; empty: no violation
	}{
		{"as designed", map[string]string{
			"cmd/shardctl":    "auditlog backfill verify cutover internal/localpg internal/shardhash",
			"auditlog":        "migrate internal/store internal/rowstream internal/shardhash",
			"backfill":        "migrate internal/rowstream internal/shardhash",
			"verify":          "migrate internal/store internal/shardsql",
			"cutover":         "migrate internal/store",
			"internal/store":  "migrate github.com/jackc/pgx/v5",
			"internal/pgtest": "internal/localpg",
		}, ""},
		{"backfill to verify", map[string]string{"backfill": "verify"}, "backfill → verify"},
		{"backfill to a package below", map[string]string{"backfill": "cutover/journal"}, "backfill → cutover/journal"},
		{"a package below backfill", map[string]string{"backfill/throttle": "auditlog"}, "backfill/throttle → auditlog"},
		{"verify to the hash, over others", map[string]string{
			"verify": "internal/layout", "internal/layout": "internal/placement", "internal/placement": "internal/shardhash",
		}, "verify → internal/layout → internal/placement → internal/shardhash"},
		{"verify to the log", map[string]string{"verify": "auditlog"}, "verify → auditlog"},
		{"verify to cutover", map[string]string{"verify": "cutover"}, "verify → cutover"},
		{"cutover to backfill", map[string]string{"cutover": "backfill"}, "cutover → backfill"},
		{"cutover to the log", map[string]string{"cutover": "auditlog"}, "cutover → auditlog"},
		{"the log to verify", map[string]string{"auditlog": "verify"}, "auditlog → verify"},
		{"migrate outward", map[string]string{"migrate": "internal/postgres"}, "migrate → internal/postgres"},
		{"migrate to pgx", map[string]string{"migrate": "github.com/jackc/pgx/v5/pgconn"}, "migrate → github.com/jackc/pgx/v5/pgconn"},
		{"to cmd", map[string]string{"internal/store": "cmd/shardctl"}, "internal/store → cmd/shardctl"},
		{"the hashes", map[string]string{"internal/shardsql": "internal/shardhash"}, "internal/shardsql → internal/shardhash"},
		{"to test support", map[string]string{"internal/store": "internal/pgtest"}, "internal/store → internal/pgtest"},
		{"servers in production", map[string]string{"auditlog": "internal/localpg"}, "auditlog → internal/localpg"},
		{"a name that only begins alike", map[string]string{"backfill": "verifying auditlogs"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := own(c.imports).Violations(Rules)
			for i, line := range got {
				way, _, _ := strings.Cut(line, " (")
				got[i] = strings.ReplaceAll(way, Module+"/", "")
			}
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("violations %q, want %q", got, want)
			}
		})
	}
}
