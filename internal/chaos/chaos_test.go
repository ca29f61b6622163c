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

// TestPlansHoldEveryKind: within as many seeds as complete demands a kind of, each kind is
// in two plans at least, and a plan is decided by its seed.
func TestPlansHoldEveryKind(t *testing.T) {
	t.Parallel()
	times := map[kind]int{}
	for seed := uint64(1); seed <= uint64(2*len(kinds)); seed++ {
		p := planOf(seed)
		if again := planOf(seed); p.String() != again.String() {
			t.Errorf("seed %d: %s, and %s", seed, p, again)
		}
		if p.failover {
			times[failover]++
		}
		for _, f := range p.faults {
			times[f.kind]++
			if !p.plays(f.stage) {
				t.Errorf("seed %d: %s, which it does not play", seed, f)
			}
		}
	}
	for _, k := range append([]kind{failover}, kindsOnly()...) {
		if times[k] < 2 {
			t.Errorf("%s is in %d plans", k, times[k])
		}
	}
}

// TestARunWithoutAKindIsNotClean: as many seeds as hold each kind, and one that never hit.
func TestARunWithoutAKindIsNotClean(t *testing.T) {
	t.Parallel()
	rec := newRecord(&strings.Builder{})
	for _, k := range append([]kind{failover}, kindsOnly()...) {
		rec.ByKind[k] = 1
	}
	rec.complete(2 * len(kinds))
	if !rec.clean() {
		t.Errorf("not clean: %+v", rec)
	}
	rec.ByKind[ddl] = 0
	rec.complete(2*len(kinds) - 1)
	if !rec.clean() {
		t.Errorf("too few seeds for all kinds: %+v", rec)
	}
	rec.NotPossible[ddl] = "for the test"
	rec.complete(2 * len(kinds))
	if !rec.clean() {
		t.Errorf("a kind that is not possible here: %+v", rec)
	}
	delete(rec.NotPossible, ddl)
	rec.complete(2 * len(kinds))
	if rec.clean() {
		t.Error("a kind never hit, and the run is clean")
	}
}
