package auditlog

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSnapshotText(t *testing.T) {
	for _, text := range []string{"1:1:", "5:10:5,7", "100:100:"} {
		s, err := parseSnapshot(text)
		if err != nil || s.String() != text {
			t.Errorf("%s: %s, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "1:1", "a:1:", "1:b:", "1:9:x"} {
		if s, err := parseSnapshot(text); err == nil {
			t.Errorf("%q is taken for %s", text, s)
		}
	}
}

// drawSnapshots draws one over the first few xids, and one that may follow it: an
// xid that has ended stays so.
func drawSnapshots(t *rapid.T) (before, after snapshot) {
	open := rapid.SliceOfN(rapid.Bool(), 12, 12).Draw(t, "open")
	ends := rapid.SliceOfN(rapid.Bool(), 12, 12).Draw(t, "ends")
	reach := rapid.IntRange(1, 12).Draw(t, "reach")
	later := rapid.IntRange(reach, 12).Draw(t, "later")
	before, after = snapshot{xmax: uint64(reach)}, snapshot{xmax: uint64(later)}
	for xid := 1; xid < later; xid++ {
		if xid < reach && open[xid] {
			before.xip = append(before.xip, uint64(xid))
		}
		if open[xid] && !(xid < reach && ends[xid]) {
			after.xip = append(after.xip, uint64(xid))
		}
	}
	return before, after
}

// TestCutPositions: a cut position covers what was covered, and what the later
// snapshot covers below the cut; nothing else.
func TestCutPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, now := drawSnapshots(t)
		cut := uint64(rapid.IntRange(1, 14).Draw(t, "cut"))
		next := before.cutAt(now, cut)
		for xid := uint64(1); xid < 20; xid++ {
			want := before.covers(xid) || now.covers(xid) && xid < cut
			if next.covers(xid) != want {
				t.Fatalf("%s, read at %s, cut at %d: %s, xid %d covered: %v", before, now, cut, next, xid, !want)
			}
		}
		if !slices.IsSorted(next.xip) || next.xmin > next.xmax {
			t.Fatalf("%s is not a snapshot", next)
		}
		if again, err := parseSnapshot(next.String()); err != nil || again.String() != next.String() {
			t.Fatalf("%s does not survive its text", next)
		}
		if !next.includes(before) {
			t.Fatalf("%s does not include %s", next, before)
		}
		if !now.includes(before) || before.includes(now) != includesAll(before, now) {
			t.Fatalf("includes is wrong for %s and %s", before, now)
		}
	})
}

func includesAll(s, o snapshot) bool {
	for xid := uint64(1); xid < 20; xid++ {
		if o.covers(xid) && !s.covers(xid) {
			return false
		}
	}
	return true
}
