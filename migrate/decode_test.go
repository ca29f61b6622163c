package migrate

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// password is planted wherever a spec may hold one.
const password = "pl4nted-passw0rd"

// environment gives each variable a DSN of its own, with the password in it.
func environment(name string) (string, bool) {
	if strings.HasPrefix(name, "UNSET") {
		return "", false
	}
	return "postgres://app:" + password + "@" + strings.ToLower(name) + "/app", true
}

// base is a small spec that is right; the tests bend one part of it.
const base = `version: 1
migration: blocks
source:
  dsn: ${SOURCE}
databases:
  db0: {dsn: "${DB0}"}
  db1: {dsn: "${DB1}"}
shards:
  count: 4
  schema: "shard_%03d"
  placement: {db0: 0-1, db1: "2,3"}
tables:
  - name: public.block
    key: workspace_id
  - name: public.comment
    key: {from: public.block, via: block_id}
  - name: public.plan
    everywhere: true
topology:
  - driver: pgbouncer
    instances:
      - {admin_dsn: "${ADMIN}", databases_file: /etc/pgbouncer/databases.ini}
    entries:
      - {database: "app_%03d"}
  - driver: file
    path: topology.json
`

func decode(t *testing.T, text string) (*Spec, Failures) {
	t.Helper()
	spec, err := Decode("shardctl.yaml", []byte(text), environment)
	if err == nil {
		return spec, nil
	}
	var failures Failures
	if !errors.As(err, &failures) || len(failures) == 0 || spec != nil {
		t.Fatalf("Decode gives %v and %T: %v", spec, err, err)
	}
	for _, f := range failures {
		if f.Exit != ExitUsage || !strings.HasPrefix(f.Code, "spec.") || f.Object == "" || f.Message == "" {
			t.Errorf("not a failure an operator can act on: %#v", f)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", err, failures), password) {
		t.Errorf("the password shows in: %v", err)
	}
	return nil, failures
}

// bend replaces a part of base, which must be there exactly once.
func bend(t *testing.T, old, new string) string {
	t.Helper()
	if strings.Count(base, old) != 1 {
		t.Fatalf("%q stands %d times in base", old, strings.Count(base, old))
	}
	return strings.Replace(base, old, new, 1)
}

func TestDefaults(t *testing.T) {
	s, failures := decode(t, base)
	if failures != nil {
		t.Fatal(failures)
	}
	equal(t, s.Capture, Capture{Engine: "trigger", LogSoftLimit: 10 << 30, LogHardLimit: 50 << 30})
	equal(t, s.Throttle, Throttle{MaxReplicaLag: time.Second, MaxCatchupLag: 30 * time.Second})
	equal(t, s.Cutover, CutoverSettings{MaxPause: 2 * time.Second, VerifyMaxAge: 24 * time.Hour, RollbackWindow: 4 * time.Hour})
	equal(t, s.Complete, CompleteSettings{EverywhereOwner: "source"})
	equal(t, s.Sequences, "stride")
	equal(t, s.Shards, Shards{Count: 4, Schema: "shard_%03d", Hash: "postgres", Placement: []string{"db0", "db0", "db1", "db1"}})
	equal(t, s.Source.DSN.Reveal(), "postgres://app:"+password+"@source/app")
	refuse := Stray{Policy: "refuse"}
	equal(t, s.Tables, []Table{
		{Name: TableName{"public", "block"}, As: "block", Key: Key{Column: "workspace_id"}, Rollback: "full", Orphans: refuse, NullKeys: refuse},
		{Name: TableName{"public", "comment"}, As: "comment", Key: Key{From: TableName{"public", "block"}, Via: "block_id"}, Rollback: "full", Orphans: refuse, NullKeys: refuse},
		{Name: TableName{"public", "plan"}, As: "plan", Rollback: "full", Orphans: refuse, NullKeys: refuse, Everywhere: true},
	})
	equal(t, s.Topology[0].Entries, []RouterEntry{{Database: "app_%03d", To: "primary"}})
	equal(t, s.Topology[1], Router{Driver: "file", Path: "topology.json"})
}

func TestEverySetting(t *testing.T) {
	s, failures := decode(t, base+`capture: {engine: trigger, log_soft_limit: 512MB, log_hard_limit: 1073741824}
throttle: {max_replica_lag: 0, max_catchup_lag: 1m30s, max_source_active: 7, max_rate: 10000, schedule: "22:00-06:00"}
sequences: keep
cutover: {max_pause: 500ms, verify_max_age: 1h, rollback_window: 0s}
complete: {everywhere_owner: none}
`)
	if failures != nil {
		t.Fatal(failures)
	}
	equal(t, s.Capture, Capture{Engine: "trigger", LogSoftLimit: 512 << 20, LogHardLimit: 1 << 30})
	equal(t, s.Throttle, Throttle{MaxCatchupLag: 90 * time.Second, MaxSourceActive: 7, MaxRate: 10000, Schedule: "22:00-06:00"})
	equal(t, s.Cutover, CutoverSettings{MaxPause: 500 * time.Millisecond, VerifyMaxAge: time.Hour})
	equal(t, s.Sequences, "keep")
	equal(t, s.Complete.EverywhereOwner, "none")
}

func ExampleDecode() {
	file, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	spec, err := Decode("example.yaml", file, environment)
	if err != nil {
		fmt.Println(err)
		return
	}
	comment, _ := spec.Table(TableName{"public", "comment"})
	fmt.Println(spec.LocationOf(17), spec.LocationOf(479))
	fmt.Println(comment.Name, "finds", comment.Key.StoreAs, "in", spec.Root(comment).Name)
	fmt.Println(spec.Source.DSN, spec.Capture.Engine, spec.Cutover.MaxPause)
	// Output:
	// db0.shard_017 db1.shard_479
	// public.comment finds workspace_id in public.block
	// *** trigger 2s
}

func TestTablesAndHooksAsRouters(t *testing.T) {
	s, failures := decode(t, base+`  - driver: postgres
    dsn: ${DB0}
  - {driver: postgres, dsn: "${DB0}", table: routing.document, channel: moved}
  - {driver: exec, command: /etc/hook}
  - {driver: exec, command: [env, A=b, /etc/hook], timeout: 700ms}
`)
	if failures != nil {
		t.Fatal(failures)
	}
	dsn := s.Databases[0].DSN
	equal(t, s.Topology[2:], []Router{
		{Driver: "postgres", DSN: dsn, Table: TableName{"shardctl_topology", "topology"}, Channel: "shardctl_topology"},
		{Driver: "postgres", DSN: dsn, Table: TableName{"routing", "document"}, Channel: "moved"},
		{Driver: "exec", Command: []string{"/etc/hook"}, Timeout: 5 * time.Second},
		{Driver: "exec", Command: []string{"env", "A=b", "/etc/hook"}, Timeout: 700 * time.Millisecond},
	})
	stored := fmt.Sprintf("%+v", s.Redacted())
	if strings.Contains(stored, password) || strings.Contains(stored, "/etc/hook") || !strings.Contains(stored, "routing.document moved") {
		t.Errorf("stored: %s", stored)
	}
	moved, failures := decode(t, base+`  - {driver: postgres, dsn: "${DB1}"}
  - {driver: postgres, dsn: "${DB0}", table: routing.other, channel: moved}
  - {driver: exec, command: /etc/another, timeout: 9s}
  - {driver: exec, command: /etc/hook}
`)
	if failures != nil {
		t.Fatal(failures)
	}
	if refused := RefuseChanges(s.Redacted(), moved.Redacted()); refused != nil || s.Digest() != moved.Digest() {
		t.Errorf("how a router is reached may change at any time: %v", refused)
	}
}
