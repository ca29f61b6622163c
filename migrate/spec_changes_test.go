package migrate

import (
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	before, failures := decode(t, base)
	if failures != nil {
		t.Fatal(failures)
	}
	for _, c := range []struct{ old, new, text string }{
		{"migration: blocks", "migration: blocks2", "migration was blocks, is blocks2"},
		{"count: 4", "count: 4\n  hash: postgres", ""},
		{`db0: 0-1, db1: "2,3"`, `db0: "0,2", db1: "1,3"`, "shards.placement.db0 was 0-1, is 0,2; shards.placement.db1 was 2-3, is 1,3"},
		{`"shard_%03d"`, `"shard_%04d"`, "shards.schema was shard_%03d, is shard_%04d"},
		{"key: workspace_id", "key: account_id", "tables.public.block.key was workspace_id, is account_id"},
		{"via: block_id}", "via: block_id, store_as: w}", "tables.public.comment.key.store_as was not given, is w"},
		{"via: block_id}", "via: block_id}\n    orphans: {shard: 1}", "tables.public.comment.orphans was refuse, is {shard: 1}"},
		{"key: {from: public.block, via: block_id}", "key: workspace_id", "tables.public.comment.key was not given, is workspace_id; tables.public.comment.key.from was public.block, is not given; tables.public.comment.key.via was block_id, is not given"},
		{"key: workspace_id", "key: workspace_id\n    rollback: none", "tables.public.block.rollback was full, is none"},
		{"  - name: public.plan\n    everywhere: true\n", "", "tables.public.plan was removed"},
		{"  - name: public.plan\n", "  - name: public.price\n    everywhere: true\n  - name: public.plan\n", "tables.public.price was added"},
		{"tables:\n  - name: public.block\n    key: workspace_id\n  - name: public.comment\n    key: {from: public.block, via: block_id}\n",
			"tables:\n  - name: public.comment\n    key: {from: public.block, via: block_id}\n  - name: public.block\n    key: workspace_id\n", "the order of tables has changed"},
		{"\n  db0: {dsn: \"${DB0}\"}\n  db1: {dsn: \"${DB1}\"}", "\n  db1: {dsn: \"${DB1}\"}\n  db0: {dsn: \"${DB0}\"}", "the order of databases has changed"},
		{`"app_%03d"`, `"web_%03d"`, "topology[0].entries was app_%03d primary, is web_%03d primary"},
	} {
		after, failures := decode(t, bend(t, c.old, c.new))
		if failures != nil {
			t.Fatalf("%s: %v", c.new, failures)
		}
		var texts []string
		for _, change := range Changes(before.Redacted(), after.Redacted()) {
			texts = append(texts, change.Text)
			if change.Harmless {
				t.Errorf("%s is called harmless", change.Text)
			}
		}
		if got := strings.Join(texts, "; "); got != c.text {
			t.Errorf("%s: got %q, want %q", c.new, got, c.text)
		}
		refused := RefuseChanges(before.Redacted(), after.Redacted())
		if changed := c.text != ""; (before.Digest() != after.Digest()) != changed || (refused != nil) != changed {
			t.Errorf("%s: digests or the refusal %v do not show the change", c.new, refused)
		}
		if refused != nil && (refused.Exit != ExitRefused || !strings.Contains(refused.Error(), c.text)) {
			t.Errorf("the refusal is %v", refused)
		}
	}
}

func TestHarmlessChanges(t *testing.T) {
	before, failures := decode(t, base)
	if failures != nil {
		t.Fatal(failures)
	}
	after, failures := decode(t, strings.NewReplacer(
		"dsn: ${SOURCE}", "dsn: ${ELSEWHERE}\n  read_dsn: ${REPLICA}",
		`db0: {dsn: "${DB0}"}`, `db0: {dsn: "${DB9}", router: {host: db0.internal}, reader: {host: r, port: 1}}`,
		"${ADMIN}", "${ADMIN2}", "databases.ini", "other.ini", "topology.json", "t.json",
	).Replace(base)+`capture: {log_soft_limit: 1GB, log_hard_limit: 2GB}
throttle: {max_replica_lag: 2s, max_catchup_lag: 2s, max_source_active: 1, max_rate: 2, schedule: "01:00-02:00"}
cutover: {max_pause: 1s, verify_max_age: 1h, rollback_window: 1h}
complete: {everywhere_owner: none}
`)
	if failures != nil {
		t.Fatal(failures)
	}
	changes := Changes(before.Redacted(), after.Redacted())
	for _, c := range changes {
		if !c.Harmless {
			t.Errorf("%s is not called harmless", c.Text)
		}
	}
	if len(changes) != 15 {
		t.Errorf("got %d changes: %v", len(changes), changes)
	}
	equal(t, before.Digest(), after.Digest())
	if refused := RefuseChanges(before.Redacted(), after.Redacted()); refused != nil {
		t.Error(refused)
	}
}

func TestDigestIsStable(t *testing.T) {
	s, failures := decode(t, base)
	if failures != nil {
		t.Fatal(failures)
	}
	// A migration under way has this in its state: it may only change together
	// with a way to read the old one.
	equal(t, s.Digest(), "sha256:d1edd48d7c12b9207cf8bc6f7da8eda86ef92abbb23ce5d651bf84157b2d59ea")
}
