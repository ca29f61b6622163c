package backfill

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

func TestChooseMode(t *testing.T) {
	for _, c := range []struct {
		what   string
		s      Situation
		mode   Mode
		reason string
	}{
		{"empty", Situation{}, Fast, "empty"},
		{"rows", Situation{HasRows: true}, Live, "rows"},
		{"ledger", Situation{HasLedger: true}, Live, "copied already"},
		{"owner", Situation{Owns: true}, Live, "owns"},
		{"a log that would fill", Situation{Bytes: 1 << 40, LogPerSecond: 1 << 20, LogSoftLimit: 10 << 30}, Live, "log would grow"},
		{"a log that would not", Situation{Bytes: 1 << 30, LogPerSecond: 1 << 20, LogSoftLimit: 10 << 30}, Fast, "empty"},
	} {
		mode, reason := ChooseMode(c.s)
		if mode != c.mode || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %s, %s", c.what, mode, reason)
		}
	}
}

func TestWhatHinders(t *testing.T) {
	limits := migrate.Throttle{MaxReplicaLag: time.Second, MaxCatchupLag: 30 * time.Second, MaxSourceActive: 10, Schedule: "22:00-06:00"}
	quiet := load{clock: "23:30"}
	for _, c := range []struct {
		kind   string
		change func(*load)
		says   string
	}{
		{"", func(*load) {}, ""},
		{"paused", func(l *load) { l.paused, l.pausedBy = true, "ann" }, "ann"},
		{"schedule", func(l *load) { l.clock = "12:00" }, "22:00-06:00"},
		{"log", func(l *load) { l.logBytes = 11 << 20 }, "11 MB"},
		{"replica_lag", func(l *load) { l.replicas, l.replicaLag = 1, 1.5 }, "1.5s"},
		{"replica_lag", func(l *load) { l.replicas, l.hidden = 1, 1 }, "pg_monitor"},
		{"replica_lag", func(l *load) { l.replicas, l.behind = 1, 1 }, "unknown"},
		{"catchup_lag", func(l *load) { l.catchupLag, l.catchupName = time.Minute, "db1" }, "db1"},
		{"source_active", func(l *load) { l.active = 11 }, "11 sessions"},
		{"source_active", func(l *load) { l.unseen = 1 }, "pg_monitor"},
	} {
		l := quiet
		c.change(&l)
		if h := hinders(l, limits, 10<<20); h.kind != c.kind || !strings.Contains(h.message, c.says) {
			t.Errorf("%s: %+v", c.kind, h)
		}
	}
	noisy := load{replicas: 1, hidden: 1, behind: 1, replicaLag: 100, active: 100, unseen: 5, catchupLag: time.Hour, logBytes: 1 << 40, clock: "12:00"}
	if h := hinders(noisy, migrate.Throttle{}, 0); h.kind != "" {
		t.Errorf("without limits: %+v", h)
	}
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		clock, schedule string
		in              bool
	}{
		{"12:00", "", true}, {"22:00", "22:00-06:00", true}, {"05:59", "22:00-06:00", true}, {"06:00", "22:00-06:00", false},
		{"12:00", "09:00-17:00", true}, {"08:59", "09:00-17:00", false}, {"17:00", "09:00-17:00", false},
	} {
		if inSchedule(c.clock, c.schedule) != c.in {
			t.Errorf("%s in %q: %v", c.clock, c.schedule, !c.in)
		}
	}
}

// TestChunksCoverEveryPlannedPage cuts plans to their end.
func TestChunksCoverEveryPlannedPage(t *testing.T) {
	for _, pages := range []int64{0, 1, 7, 100, 1001} {
		for _, size := range []int64{1, 3, 100, 5000} {
			for _, grown := range []int64{0, 10, 100_000} {
				p := plan{number: 1, relation: "r", pages: pages, nextPage: new(int64), nextNo: 1, pagesNow: pages + grown}
				covered, chunks := int64(0), 0
				for p.nextPage != nil {
					c, next := p.cut(size)
					if c.From != covered || chunks > 2000 {
						t.Fatalf("%d pages by %d: chunk %d begins at %d, %d are covered", pages, size, c.No, c.From, covered)
					}
					if covered = pages; c.To != nil {
						covered = *c.To
					}
					p.nextPage, p.nextNo, chunks = next, p.nextNo+1, chunks+1
				}
				if covered < pages || chunks == 0 {
					t.Errorf("%d pages by %d: %d are covered by %d chunks", pages, size, covered, chunks)
				}
			}
		}
	}
}

func TestTheLastChunkDoesNotTakeInAllThatWasAdded(t *testing.T) {
	p := plan{number: 1, relation: "r", pages: 10, nextPage: new(int64), nextNo: 1, pagesNow: 1_000_000}
	if c, next := p.cut(8); c.To == nil || *c.To != 10 || next != nil {
		t.Errorf("%+v", c)
	}
	p.pagesNow = 12
	if c, _ := p.cut(8); c.To != nil {
		t.Errorf("%+v", c)
	}
}

func TestChunksAdaptToTheTimeTheyTake(t *testing.T) {
	s := newSizes(0)
	p := plan{tableNo: 1, pages: 100_000, bytes: 100_000 * 8192}
	first := s.pages(p)
	if first != startBytes/8192 {
		t.Errorf("the first chunk has %d pages", first)
	}
	chunk := func(pages int64) Chunk { return Chunk{Table: &layout.Table{No: 1}, To: &pages} }
	s.learn(chunk(100), 50*time.Millisecond, 1)
	if n := s.pages(p); n != 200 {
		t.Errorf("after a quick chunk of 100 pages: %d", n)
	}
	s.learn(chunk(200), 400*time.Millisecond, 1)
	if n := s.pages(p); n != 100 {
		t.Errorf("after a slow chunk of 200 pages: %d", n)
	}
	s.learn(chunk(100), 10*time.Millisecond, 2*chunkBytes)
	if n := s.pages(p); n != 50 {
		t.Errorf("after a chunk of twice the bytes: %d", n)
	}
	s.learn(chunk(100), time.Hour, 2*partBytes)
	if n := s.pages(p); n != 50 {
		t.Errorf("after a chunk of two parts that were long in writing: %d", n)
	}
	s.learn(chunk(1), time.Hour, 1)
	if n := s.pages(p); n != 1 {
		t.Errorf("the smallest chunk has %d pages", n)
	}
}

func TestCautionFollowsConflicts(t *testing.T) {
	w := (&caution{}).of(1)
	if w.look() {
		t.Error("the first part is looked at")
	}
	w.conflict()
	for range 1 {
		if !w.look() {
			t.Error("no look after a conflict")
		}
		w.compared(false)
	}
	if w.look() {
		t.Error("still looking after a clean part")
	}
	w.conflict()
	w.conflict()
	for range maxStreak {
		if !w.look() {
			return
		}
		w.compared(false)
	}
	if w.look() {
		t.Error("looking for ever")
	}
}
