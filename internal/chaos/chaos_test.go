package main

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shortSeed kills a command, stops one, crashes a database and cuts a connection at its
// COMMIT, in half a minute.
const shortSeed = 1

// TestOneSeed is the short form of make chaos.
func TestOneSeed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	rec, err := run(t.Context(), options{seed: shortSeed}, &out)
	if err != nil || !rec.clean() {
		t.Errorf("%v: %+v\n%s", err, rec, &out)
	}
	if rec.Faults < 2 || rec.Acknowledged < leastWrites || rec.Seeds != 1 {
		t.Errorf("%d seeds with %d faults and %d acknowledged writes prove little\n%s", rec.Seeds, rec.Faults, rec.Acknowledged, &out)
	}
}

// TestPlansHoldEveryKind: of thirty seeds enough hold each kind, and a plan is decided by
// its seed.
func TestPlansHoldEveryKind(t *testing.T) {
	t.Parallel()
	rec := newRecord(&strings.Builder{})
	rec.complete(thirty())
	if want := len(kinds) + 1; len(rec.Missing) != want {
		t.Errorf("of thirty seeds in which nothing hit, only these are missed: %v", rec.Missing)
	}
	for _, p := range thirty() {
		if again := planOf(p.seed); p.String() != again.String() {
			t.Errorf("seed %d: %s, and %s", p.seed, p, again)
		}
		for _, f := range p.faults {
			if !p.plays(f.stage) {
				t.Errorf("seed %d: %s, which it does not play", p.seed, f)
			}
		}
	}
}

func thirty() (plans []plan) {
	for seed := range uint64(30) {
		plans = append(plans, planOf(seed+1))
	}
	return plans
}

// TestARunWithoutAKindIsNotClean: enough plans hold each kind, and one never hit.
func TestARunWithoutAKindIsNotClean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		plans  []plan
		change func(*record)
		clean  bool
	}{
		{"all hit", thirty(), func(*record) {}, true},
		{"too few seeds", thirty()[:2], func(r *record) { r.ByKind[ddl] = 0 }, true},
		{"not possible here", thirty(), func(r *record) { r.ByKind[ddl], r.NotPossible[ddl] = 0, "for the test" }, true},
		{"one never hit", thirty(), func(r *record) { r.ByKind[ddl] = 0 }, false},
		{"the failover never hit", thirty(), func(r *record) { r.ByKind[failover] = 0 }, false},
		{"a seed failed", nil, func(r *record) { r.Failed = []uint64{7} }, false},
		{"a row was lost", nil, func(r *record) { r.add(verdict{lost: 1}) }, false},
	} {
		rec := newRecord(&strings.Builder{})
		for _, k := range append(kindsOnly(), failover) {
			rec.ByKind[k] = 1
		}
		c.change(rec)
		rec.complete(c.plans)
		if rec.clean() != c.clean {
			t.Errorf("%s: %+v", c.name, rec)
		}
	}
}
