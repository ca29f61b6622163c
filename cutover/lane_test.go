package cutover

import (
	"testing"

	"pgregory.net/rapid"
)

// Lanes never hand out the same number twice: a lane's values are congruent to
// its residue, and its first value is at or past the one it was asked for, by less
// than one step.
func TestLanesAreDisjoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.Int64Range(2, 33).Draw(t, "lanes")
		v := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "value")
		up := rapid.Bool().Draw(t, "up")
		increment := int64(1)
		if !up {
			increment = -1
		}
		seen := map[int64]int64{}
		for no := range lanes {
			l := lane{no: no, of: lanes}
			first := l.first(v, increment)
			if up && (first < v || first >= v+lanes) || !up && (first > v || first <= v-lanes) {
				t.Fatalf("lane %d of %d begins at %d for %d", no, lanes, first, v)
			}
			for i := range int64(5) {
				value := first + i*sequence{Increment: increment}.step(l)
				if other, taken := seen[value]; taken {
					t.Fatalf("lanes %d and %d both hand out %d", other, no, value)
				}
				seen[value] = no
			}
		}
	})
}

func TestALaneStaysInsideTheBounds(t *testing.T) {
	t.Parallel()
	s := sequence{Schema: "public", Name: "s", Increment: 1, Min: 1, Max: 32767, Cache: 1, Last: 31000}
	if _, err := s.laneStart(lane{no: 1, of: 3}, 100); err != nil {
		t.Errorf("32000 and a little is inside: %v", err)
	}
	if _, err := s.laneStart(lane{no: 1, of: 3}, 200); err == nil {
		t.Error("33000 is past a smallint's end and was not refused")
	}
}
