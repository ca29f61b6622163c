package migrate

import (
	"fmt"
	"strings"
	"testing"
)

// chain is a spec whose tables t1, t2, … each look up their key in the one before.
func chain(length int, first string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - {name: t0, key: %s}\n", first)
	for i := 1; i < length; i++ {
		fmt.Fprintf(&b, "  - {name: t%d, key: {from: public.t%d, via: up}}\n", i, i-1)
	}
	head, rest, _ := strings.Cut(base, "  - name: public.block")
	_, tail, _ := strings.Cut(rest, "topology:")
	return head + b.String() + "topology:" + tail
}

func TestChainLength(t *testing.T) {
	if _, failures := decode(t, chain(MaxChain+1, "k")); failures != nil {
		t.Errorf("a chain of %d parents: %v", MaxChain, failures)
	}
	_, failures := decode(t, chain(MaxChain+4, "k"))
	if len(failures) != 1 || failures[0].Code != "spec.key_chain" || failures[0].Object != "line 18: tables[5].key.from" {
		t.Errorf("one table is too far down: %v", failures)
	}
}

func TestCycleIsReportedOnce(t *testing.T) {
	_, failures := decode(t, chain(6, "{from: t3, via: up}"))
	if len(failures) != 1 || failures[0].Code != "spec.key_cycle" || failures[0].Object != "line 13: tables[0].key.from" {
		t.Errorf("got %v", failures)
	}
}

func TestKeysWithOneShard(t *testing.T) {
	one := strings.NewReplacer("count: 4", "count: 1", `{db0: 0-1, db1: "2,3"}`, "{db0: 0}", "  db1: {dsn: \"${DB1}\"}\n", "", `"app_%03d"`, "app",
		"    key: workspace_id\n", "", "    key: {from: public.block, via: block_id}\n", "").Replace(base)
	s, failures := decode(t, one)
	if failures != nil {
		t.Fatal(failures)
	}
	equal(t, s.Tables[0].Key, Key{})
	equal(t, s.LocationsOf("db0"), []Location{{"db0", "shard_000"}})
	_, failures = decode(t, strings.Replace(one, "name: public.comment", "name: public.comment\n    key: {from: public.block, via: block_id}", 1))
	if len(failures) != 1 || failures[0].Code != "spec.keyless_parent" {
		t.Errorf("a parent without a key: %v", failures)
	}
}

func TestAnUnreadableParentIsReportedOnce(t *testing.T) {
	_, failures := decode(t, bend(t, "    key: workspace_id", "    key: [workspace_id]"))
	if len(failures) != 1 || failures[0].Code != "spec.wrong_type" {
		t.Errorf("got %v", failures)
	}
	_, failures = decode(t, bend(t, "name: public.block", "name: a.b.c"))
	if len(failures) != 1 || failures[0].Code != "spec.bad_name" {
		t.Errorf("got %v", failures)
	}
}
