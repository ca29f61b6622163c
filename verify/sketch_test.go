package verify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// compare fills a sketch with two sets and takes it apart.
func compare(rows int64, source, target []element) ([]residue, bool) {
	s := newSketch(rows, maxCells)
	s.add(source, 1)
	s.add(target, -1)
	return s.peel()
}

func someElements(seed uint64, n int) []element {
	random := rand.New(rand.NewPCG(seed, 1))
	out := make([]element, n)
	for i := range out {
		out[i] = element{random.Uint64(), random.Uint64()}
	}
	return out
}

func TestSketchGivesExactlyTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		both := someElements(seed, rapid.IntRange(0, 3000).Draw(t, "both"))
		more := someElements(seed+1, rapid.IntRange(0, 400).Draw(t, "more"))
		less := someElements(seed+2, rapid.IntRange(0, 400).Draw(t, "less"))
		// A changed row has the same key on both sides.
		for i := range min(len(more), len(less)) / 2 {
			less[i].key = more[i].key
		}
		left, whole := compare(int64(len(both)), slices.Concat(both, more), slices.Concat(less, both))
		if !whole {
			t.Fatalf("%d differences did not come apart", len(more)+len(less))
		}
		want := map[residue]int{}
		for _, e := range more {
			want[residue{e, 1}]++
		}
		for _, e := range less {
			want[residue{e, -1}]++
		}
		for _, r := range left {
			want[r]--
		}
		for r, n := range want {
			if n != 0 {
				t.Errorf("element %v: off by %d", r, n)
			}
		}
	})
}

func TestSketchSeesARowThatIsThereTwice(t *testing.T) {
	rows := someElements(1, 1000)
	left, whole := compare(1000, rows, append(slices.Clone(rows), rows[7]))
	if !whole || len(left) != 1 || left[0] != (residue{rows[7], -1}) {
		t.Errorf("left %v, whole %v", left, whole)
	}
}

func TestSketchSeesARowThatIsLeftOverSeveralTimes(t *testing.T) {
	rows := someElements(1, 1000)
	for copies := 1; copies <= maxCopies; copies++ {
		more := slices.Repeat(rows[7:12], copies)
		left, whole := compare(1000, rows[12:], append(slices.Clone(rows[12:]), more...))
		if !whole || len(left) != len(more) || left[0].side != -1 || !slices.Contains(more, left[0].element) {
			t.Errorf("%d copies: left %v, whole %v", copies, left, whole)
		}
	}
	if _, whole := compare(1000, slices.Repeat(rows[:1], maxCopies+1), nil); whole {
		t.Error("more copies than can be told came apart")
	}
}

// A sum over the columns stays the same when two rows swap a column's values; the
// sketch must not.
func TestSketchSeesASwap(t *testing.T) {
	source := []element{{1, 1000 + 31*5}, {2, 2000 + 31*9}}
	target := []element{{1, 1000 + 31*9}, {2, 2000 + 31*5}}
	left, whole := compare(1000, source, target)
	if !whole || len(left) != 4 {
		t.Errorf("left %v, whole %v", left, whole)
	}
}

func TestSketchThatIsTooSmallSaysSoAndComesApartInSlices(t *testing.T) {
	rows := someElements(1, 40_000)
	s := newSketch(1, maxCells)
	s.add(rows, 1)
	n := s.differing()
	if n < 36_000 || n > 44_000 {
		t.Errorf("estimated %d differences, there are %d", n, len(rows))
	}
	if _, whole := s.peel(); whole {
		t.Fatal("came apart, though there is far too much in it")
	}
	total, parts := 0, s.slicesFor(n)
	for i := range parts {
		s.cut(parts, i)
		s.add(rows, 1)
		left, whole := s.peel()
		if !whole {
			t.Errorf("slice %d of %d did not come apart", i, parts)
		}
		total += len(left)
	}
	if total != len(rows) {
		t.Errorf("slices gave %d of %d differences", total, len(rows))
	}
}

func BenchmarkSketchAdd(b *testing.B) {
	s, rows := newSketch(10_000_000, maxCells), someElements(1, 1<<16)
	for b.Loop() {
		s.add(rows, 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
}
