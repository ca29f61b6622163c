package rehearsal

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/migrate"
)

const written = `version: 1
migration: odd
source: {dsn: "postgres://u:secret@far/app", read_dsn: "postgres://far2/app"}
databases:
  zeta: {dsn: "postgres://u:secret@z/app", router: {host: z.internal}}
  alpha: {dsn: "postgres://u:secret@a/app"}
shards: {count: 6, schema: "s_%d", hash: postgres, placement: {zeta: "0,3-4", alpha: [1, 2, 5]}}
tables:
  - {name: '"Odd $${X}"."T: a"', as: t, key: 'K "1"', version: v, null_keys: {shard: 3}}
  - {name: child, key: {from: '"Odd $${X}"."T: a"', via: p, store_as: k}, orphans: skip, null_keys: skip, rollback: none}
  - {name: lookup, everywhere: true}
sequences: keep
throttle: {max_rate: 5, schedule: "22:00-06:00"}
complete: {everywhere_owner: none}
topology:
  - {driver: pgbouncer, instances: [{admin_dsn: "postgres://pgb/pgbouncer", databases_file: /etc/d.ini}], entries: [{database: "app_%03d"}, {database: "ro_%03d", to: reader}]}
  - {driver: file, path: /srv/topology.json}
  - {driver: postgres, dsn: "postgres://u:secret@far/routing"}
  - {driver: exec, command: [/etc/hook, "--now"]}
`

func decode(t *testing.T, text []byte) *migrate.Spec {
	t.Helper()
	spec, err := migrate.Decode("spec.yaml", text, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return spec
}

// TestDocumentMeansTheSame: the rehearsal's spec differs in servers, files and what
// spares a production source, and in nothing else.
func TestDocumentMeansTheSame(t *testing.T) {
	t.Parallel()
	real := decode(t, []byte(written))
	text, err := document(real, place{source: "postgres://here/source", databases: map[string]string{"zeta": "postgres://here/z", "alpha": "postgres://here/a"},
		poolers: map[int]pooler{0: {"postgres://here/pgbouncer", "/tmp/d.ini"}}, files: map[int]string{1: "/tmp/t.json", 3: "/tmp/h.json"}, maxPause: 7 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	local := decode(t, text)
	if !reflect.DeepEqual(local.Tables, real.Tables) || !reflect.DeepEqual(local.Shards, real.Shards) || !slices.Equal(local.DatabaseNames(), real.DatabaseNames()) ||
		local.Migration != real.Migration || local.Sequences != real.Sequences || local.Complete != real.Complete || !reflect.DeepEqual(local.Topology[0].Entries, real.Topology[0].Entries) {
		t.Errorf("the spec means something else:\n%s", text)
	}
	for _, d := range local.Databases {
		if d.Router != (migrate.Address{}) || d.DSN.Reveal()[:15] != "postgres://here" {
			t.Errorf("%s leads to a real server:\n%s", d.Name, text)
		}
	}
	if local.Source.ReadDSN != "" || local.Source.DSN != "postgres://here/source" || local.Throttle.MaxRate != 0 || local.Cutover.MaxPause != 7*time.Second ||
		local.Topology[0].Instances[0].DatabasesFile != "/tmp/d.ini" || local.Topology[1].Path != "/tmp/t.json" ||
		local.Topology[2].DSN != "postgres://here/source" || local.Topology[3].Driver != "file" || local.Topology[3].Path != "/tmp/h.json" {
		t.Errorf("servers, files or settings:\n%s", text)
	}
}

// TestConnectEnvironment: TLS settings of a DSN reach pg_dump, in both forms of one.
func TestConnectEnvironment(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://u:p@127.0.0.1:5/d?sslmode=disable&options=-cwork_mem%3D1MB", "host=127.0.0.1 port=5 user=u password='p' dbname=d sslmode = disable options='-cwork_mem=1MB'"} {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		got := connectEnvironment(c, dsn)
		slices.Sort(got)
		want := []string{"PGDATABASE=d", "PGHOST=127.0.0.1", "PGOPTIONS=-cwork_mem=1MB", "PGPASSWORD=p", "PGPORT=5", "PGSSLMODE=disable", "PGUSER=u"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", dsn, got)
		}
	}
}
