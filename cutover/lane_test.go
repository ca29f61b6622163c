package cutover

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Lanes never hand out a number of the same block twice, and one draw stands for as many
// numbers as the sequence steps by: a lane's first value is at or past the one it was
// asked for, by less than one step of the lane.
func TestLanesAreDisjoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.Int64Range(2, 33).Draw(t, "lanes")
		v := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "value")
		size := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(2, 60)).Draw(t, "increment")
		s := sequence{Increment: size}
		up := rapid.Bool().Draw(t, "up")
		if !up {
			s.Increment = -size
		}
		seen := map[int64]int64{}
		for no := range lanes {
			l := lane{no: no, of: lanes}
			first := l.first(v, s.Increment)
			if up && (first < v || first >= v+lanes*size) || !up && (first > v || first <= v-lanes*size) {
				t.Fatalf("lane %d of %d begins at %d for %d", no, lanes, first, v)
			}
			for i := range int64(5) {
				value := first + i*s.step(l)
				if !l.holds(value, s.Increment) {
					t.Fatalf("lane %d does not know its value %d", no, value)
				}
				for n := range size {
					if other, taken := seen[value+n]; taken {
						t.Fatalf("lanes %d and %d both stand for %d", other, no, value+n)
					}
					seen[value+n] = no
				}
			}
		}
	})
}

func TestALaneStaysInsideTheBounds(t *testing.T) {
	t.Parallel()
	small := sequence{Schema: "public", Name: "s", Increment: 1, Min: 1, Max: 32767, Cache: 1, Last: 31000}
	blocks, down, wide := small, small, small
	blocks.Increment, blocks.Max = 50, 90_000
	down.Increment, down.Min, down.Max, down.Last = -50, -90_000, -1, -31_000
	wide.Increment, wide.Min, wide.Max, wide.Last = 1<<40, 1, math.MaxInt64, math.MaxInt64-1<<49
	for _, c := range []struct {
		name        string
		s           sequence
		connections int64
		room        bool
	}{
		{"32000 and a little", small, 100, true},
		{"33000", small, 200, false},
		{"a margin of 1000 blocks of 50", blocks, 100, true},
		{"a margin of 1200 blocks of 50", blocks, 120, false},
		{"downwards", down, 100, true},
		{"downwards too far", down, 120, false},
		{"past the last number of all", wide, 100, false},
	} {
		start, err := c.s.laneStart(lane{no: 1, of: 3}, c.connections)
		if (err == nil) != c.room {
			t.Errorf("%s: %d, %v", c.name, start, err)
		}
	}
}

// A sequence that is moved on steps as it did, past the value, within its bounds.
func TestASequenceReachesPastAValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, last, value, want int64
	}{
		{3, 4, 9, 10 + 30}, // its margin is ten steps
		{3, 4, 10, 10 + 30},
		{-3, -4, -9, -10 - 30},
		{1, 1, 95, 95},    // no room for the margin
		{10, 1, 97, 97},   // nor for a step
		{1, 1, 101, 101},  // past the end already
		{-1, 1, -95, -95}, // downwards
	} {
		s := sequence{Step: c.step, Last: c.last, Min: -100, Max: 100, Cache: 1}
		if got := s.reach(c.value, 1); got != c.want {
			t.Errorf("by %d from %d past %d: %d, want %d", c.step, c.last, c.value, got, c.want)
		}
	}
	s := sequence{Step: 1, Last: math.MinInt64, Min: math.MinInt64, Max: math.MaxInt64, Cache: 1}
	if got := s.reach(math.MaxInt64-100, 1); got != math.MaxInt64-90 {
		t.Errorf("over the whole type: %d", got)
	}
}
