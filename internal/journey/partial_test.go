package journey

import (
	"strings"
	"testing"
	"time"
)

// TestOneDatabaseAtATime moves three databases one after the other, takes one back while
// another stays, and goes on from there, under writers that see none of it.
func TestOneDatabaseAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "onebyone", home: []int{0, 1, 2, 0, 1}, schema: "shard_%03d", storeAs: true, servers: 2, blocks: 20_000, writers: 4, pace: 30 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	c.keepShards()
	if doc := w.refused(t, 64, "cutover", "--yes", "--database", "db9"); !strings.Contains(text(doc, "hint"), "db0, db1, db2") {
		t.Errorf("an unknown database: %v", doc)
	}
	on := map[string]bool{}
	for _, s := range []struct{ command, databases, phase string }{
		{"cutover", "db1", "partly_cut_over"},
		{"cutover", "db0", "partly_cut_over"},
		{"rollback", "db1", "partly_cut_over"},
		{"cutover", "", "cut_over"},
		{"rollback", "db0,db2", "partly_cut_over"},
		{"rollback", "", "rolled_back"},
		{"cutover", "db2", "partly_cut_over"},
		{"cutover", "", "cut_over"},
	} {
		j.turnSome(s.command, s.databases, s.phase, on)
	}
	j.verify()
	j.complete()
	c.databasesServe(t, false)
	c.finish(t)
	w.noSecrets(t)
}

// turnSome switches some databases and looks at who owns what afterwards.
func (j *trip) turnSome(command, databases, phase string, on map[string]bool) {
	t, w := j.t, j.w
	args := []string{command, "--yes"}
	names := strings.Split(databases, ",")
	if databases == "" {
		names = nil
		for i := range w.databases() {
			if on[w.database(i)] != (command == "cutover") {
				names = append(names, w.database(i))
			}
		}
	} else {
		args = append(args, "--database", databases)
	}
	j.verify()
	from := time.Now()
	doc := w.must(t, args...)
	j.c.acknowledge(t, 5)
	if got := list(doc["databases"]); text(doc, "outcome") != "done" || got != strings.Join(names, ",") {
		t.Fatalf("%v: of %s: %v", args, got, doc)
	}
	t.Logf("%v: routers held %s ms, the longest request took %s", args, text(doc, "pause_ms.router"), j.c.longest(from, time.Now()).Round(time.Millisecond))
	for _, name := range names {
		on[name] = command == "cutover"
	}
	w.catchupRuns(t)
	status := w.status(t, phase)
	moved := 0
	for i := range w.databases() {
		owner := "source"
		if on[w.database(i)] {
			owner = w.database(i)
			moved += len(w.shardsOf(i))
		}
		j.ownedBy(i, owner)
	}
	if got, _ := status["cutover"].(map[string]any)["shards_moved"].(float64); int(got) != moved {
		t.Errorf("after %v %v shards are said to have moved, not %d", args, got, moved)
	}
	if available := text(status, "rollback.available"); (available == "true") != (moved > 0) {
		t.Errorf("after %v rollback is available: %s", args, available)
	}
	if problems, _ := status["problems"].([]any); len(problems) > 0 {
		t.Errorf("after %v status tells of %v", args, problems)
	}
	j.again(args...)
	j.alive()
	j.c.bothFollow(t)
}

func (s shape) shardsOf(database int) (shards []int) {
	for shard, home := range s.home {
		if home == database {
			shards = append(shards, shard)
		}
	}
	return shards
}

// list joins the texts of a JSON array.
func list(v any) string {
	items, _ := v.([]any)
	names := make([]string, len(items))
	for i, item := range items {
		names[i], _ = item.(string)
	}
	return strings.Join(names, ",")
}

// bothFollow compares all sides with the books where the application writes to some of
// either.
func (c *crowd) bothFollow(t testing.TB) {
	t.Helper()
	c.rest(func() {
		c.compare(t, "the source", lag, c.sourceDiffers)
		c.compare(t, "the databases", lag, c.databasesDiffer)
		c.compare(t, "the copies of the everywhere table", lag, c.copiesDiffer)
	})
	if t.Failed() {
		t.FailNow()
	}
}
