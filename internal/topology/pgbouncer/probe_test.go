package pgbouncer_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

func testProbeRefusesWhatCannotBeReached(t *testing.T, dbs []*pgtest.Database) {
	closed, err := localpg.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		router migrate.Address
		text   string
	}{
		"nobody listens":   {migrate.Address{Port: uint16(closed)}, "no query through it reaches"},
		"no such database": {migrate.Address{DBName: "no_such_database"}, "no_such_database"},
		"no such host":     {migrate.Address{Host: "no-such-host.invalid"}, "no-such-host.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 1, lines(2))
			before := w.file(0)
			w.spec.Databases[1].Router = c.router
			_, err := w.router().Probe(within(t, 10*time.Second), w.document(1, "db0 db1"), nil)
			wantCode(t, err, "router.probe", c.text)
			if strings.Contains(err.Error(), w.dbs[1].Name) {
				t.Errorf("db0 is blamed too: %v", err)
			}
			if got := w.file(0); got != before {
				t.Errorf("the file was left as %q", got)
			}
			w.wantServed()
		})
	}
}

func testProbeLeavesTheFileAsItWas(t *testing.T, dbs []*pgtest.Database) {
	for name, file := range map[string]string{
		"CRLF, no end":          "[databases]\r\napp_000 = {source} \r\napp_001 = {source}",
		"on the section's line": "[databases] app_000 = {source} min_pool_size=3 pool_size=9\napp_001 = {source}\n",
		"of a killed probe":     "[databases]\napp_000 = {source}\nshardctl_probe_blocks_0 = host=gone dbname=x\nshardctl_probe_blocks_17 = host='a b'\napp_001 = {source}\nshardctl_probe_blocks_1 = host=h",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 1, file)
			want := strings.ReplaceAll(file, "{source}", w.source())
			if name == "of a killed probe" {
				want = "[databases]\napp_000 = " + w.source() + "\napp_001 = " + w.source()
			}
			findings, err := w.router().Probe(t.Context(), w.document(1, "db0"), nil)
			if err != nil || len(findings) > 0 || w.file(0) != want {
				t.Errorf("%v, %v\ngot  %q\nwant %q", findings, err, w.file(0), want)
			}
			for _, row := range w.admin(0, "SHOW DATABASES") {
				if strings.HasPrefix(string(row[0]), "shardctl_probe") {
					t.Errorf("the pooler still has %s", row[0])
				}
			}
		})
	}
}

// testProbeLogin is about who logs in at the server.
func testProbeLogin(t *testing.T, dbs []*pgtest.Database) {
	for name, c := range map[string]struct {
		entries string
		client  bool // a client of user postgres is connected
		refused bool
		finding string
	}{
		"the admin user is unknown there":      {"app_000 = {source}\napp_001 = {source}\n", false, false, "router.probe_login"},
		"a client was seen, who is known":      {"app_000 = {source}\napp_001 = {source}\n", true, false, ""},
		"the entries name one who is unknown":  {"app_000 = {source} user=nobody_there\napp_001 = {source} user=nobody_there\n", false, true, ""},
		"the entries name one who is known":    {"app_000 = {source} user=postgres\napp_001 = {source} user=postgres\n", false, false, ""},
		"the entries' own, with another admin": {"app_000 = {source} user=postgres password=x\napp_001 = {source} user=postgres\n", true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 0, "")
			b := newPooler(t, localpg.PgBouncerOptions{Databases: strings.ReplaceAll(c.entries, "{source}", w.source()),
				Users: []string{"pooler_admin"}, Settings: []string{"admin_users = pooler_admin, postgres"}})
			w.poolers = append(w.poolers, b)
			w.spec.Topology[0].Instances = []migrate.RouterInstance{{DatabasesFile: b.DatabasesFile,
				AdminDSN: migrate.Secret(strings.ReplaceAll(b.AdminDSN(), "postgres@", "pooler_admin@"))}}
			if c.client {
				w.leadsTo(0, "app_000")
			}
			findings, err := w.router().Probe(within(t, 10*time.Second), w.document(1, "db0", "db1"), nil)
			if f := (*migrate.Failure)(nil); c.refused != errors.As(err, &f) || err != nil && f.Code != "router.probe" {
				t.Errorf("got %v", err)
			}
			found := ""
			for _, f := range findings {
				found = f.ID
			}
			if found != c.finding {
				t.Errorf("findings %+v", findings)
			}
		})
	}
}

func testProbeOfAFileThatCannotBeWritten(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	r := w.router()
	if err := os.Remove(w.poolers[0].DatabasesFile); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Probe(t.Context(), w.document(1), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// testProbeAsksItsScopeAlone: a database that is down does not keep the others from
// being switched.
func testProbeAsksItsScopeAlone(t *testing.T, dbs []*pgtest.Database) {
	w := newWorld(t, dbs, 2, 1, lines(2))
	w.spec.Databases[1].Router = migrate.Address{Host: "no-such-host.invalid"}
	doc := w.document(1, "db0 db1")
	if findings, err := w.router().Probe(within(t, 10*time.Second), doc, topology.Scope{0}); err != nil || len(findings) > 0 {
		t.Error(errors.Join(err), findings)
	}
	_, err := w.router().Probe(within(t, 10*time.Second), doc, topology.Scope{1})
	wantCode(t, err, "router.probe", "no-such-host.invalid")
}
