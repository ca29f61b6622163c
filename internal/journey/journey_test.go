package journey

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
)

// eightOnFour is the shape of the whole journey: eight shards on four databases, a schema
// for each, placed neither in order nor evenly.
var eightOnFour = shape{
	migration: "journey", home: []int{0, 1, 2, 3, 1, 0, 1, 2}, schema: "shard_%03d", always: true, storeAs: true,
	servers: 2, blocks: 190_000, writers: 8, pace: 60 * time.Millisecond,
}

// TestJourney goes forward, back and forward again with more than 300 000 rows, under
// eight writers that work through the pooler all the time.
func TestJourney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, eightOnFour)
	seen := watchProcesses(t)
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	c.keepShards()
	c.sourceServes(t, true)
	j.cutover()
	j.verify()
	c.databasesServe(t, true)
	j.forbidden()
	j.rollback()
	j.verify()
	c.sourceServes(t, true)
	j.cutover()
	j.verify()
	c.databasesServe(t, false)
	j.complete()
	c.databasesServe(t, false)
	j.end()
	c.finish(t)
	w.noSecrets(t)
	if where, looks := seen(); len(where) > 0 || looks == 0 {
		t.Errorf("the password stood in command lines (%d looks): %v", looks, where)
	}
}

// trip is one migration under way.
type trip struct {
	t       testing.TB
	w       *world
	c       *crowd
	before  catalogs
	catchup *binary.Command
	mode    string // of the backfill; "" is plan's choice
}

// start goes from nothing to installed capture.
func (j *trip) start() {
	t, w := j.t, j.w
	w.status(t, "new")
	plan := w.must(t, "plan")
	hasKeys(t, "plan", plan, planKeys)
	eachHas(t, "plan", plan, "findings", findingKeys)
	eachHas(t, "plan", plan, "steps", planStepKeys)
	if steps, _ := plan["steps"].([]any); len(steps) < 5 {
		t.Errorf("plan lists %d steps: %v", len(steps), plan)
	}
	w.unchanged(t, j.before, "plan")
	w.must(t, "prepare")
	w.status(t, "prepared")
	w.must(t, "topology", "push", "--yes")
	j.topology("source")
	w.must(t, "install")
	w.status(t, "installed")
	j.again("prepare")
	j.again("install")
	j.c.healthy(t)
}

// copyRows runs catchup from here on, and backfill beside it, and verifies.
func (j *trip) copyRows() {
	t, w := j.t, j.w
	args := []string{"backfill"}
	if j.mode != "" {
		// Fast mode is refused as soon as catchup has written a row.
		args = append(args, "--mode", j.mode)
	} else {
		j.catchup = w.begin(t, "catchup")
	}
	start := time.Now()
	copying := w.begin(t, args...)
	seen := false
	eventually(t, binary.Patience, "backfill to be seen at work or to end", func() bool {
		doc := w.must(t, "status")
		w.statusHasKeys(t, doc)
		seen = seen || text(doc, "phase") == "backfilling"
		return seen || copying.Ended()
	})
	if j.catchup == nil {
		j.catchup = w.begin(t, "catchup")
	}
	if r := copying.Wait(t); r.Code != 0 {
		t.Fatalf("%s: %s\n%s", copying, r, j.catchup.Stderr())
	}
	if !seen {
		t.Error("phase backfilling was never seen")
	}
	t.Logf("backfill took %s", time.Since(start).Round(10*time.Millisecond))
	w.status(t, "backfilled")
	j.again("backfill")
	j.verify()
	j.c.healthy(t)
	j.alive()
}

// alive fails the test if catchup has ended.
func (j *trip) alive() {
	if j.catchup.Ended() {
		j.t.Fatalf("catchup ended by itself: %s", j.catchup.Wait(j.t))
	}
}

// verify demands a clean full pass.
func (j *trip) verify() {
	t := j.t
	start := time.Now()
	code, doc := j.w.run(t, "verify")
	if code != 0 || text(doc, "state") != "clean" {
		t.Fatalf("verify: exit %d: %v\nthe oracle says of the source %q, of the databases %q", code, doc, j.c.resting(j.c.sourceDiffers), j.c.resting(j.c.databasesDiffer))
	}
	hasKeys(t, "verify", doc, verifyKeys)
	if got, _ := doc["rows_compared"].(float64); int(got) < j.w.blocks {
		t.Errorf("verify compared %v rows only", got)
	}
	status := j.w.must(t, "status")
	j.w.statusHasKeys(t, status)
	if text(status, "verify.state") != "clean" {
		t.Errorf("after a clean pass status says %v", status["verify"])
	}
	t.Logf("verify took %s", time.Since(start).Round(10*time.Millisecond))
}

// again runs a finished phase once more: nothing happens, and it says so.
func (j *trip) again(args ...string) {
	t := j.t
	phase := text(j.w.must(t, "status"), "phase")
	before := j.w.catalogs()
	j.w.must(t, args...)
	diff := slices.DeleteFunc(before.difference(j.w.catalogs()), func(line string) bool {
		return strings.Contains(line, "verify_") // made by the first delta check of catchup
	})
	if len(diff) > 0 {
		t.Errorf("a second %v changed the catalog:\n%s", args, strings.Join(diff, "\n"))
	}
	j.w.status(t, phase)
}

func (j *trip) cutover() {
	t, w := j.t, j.w
	before := w.catalogs()
	phase := text(w.must(t, "status"), "phase")
	w.must(t, "cutover", "--dry-run")
	w.unchanged(t, before, "cutover --dry-run")
	w.status(t, phase)
	j.turn("cutover", "cut_over")
	for i := range w.databases() {
		j.ownedBy(i, w.database(i))
	}
	j.topology("databases")
}

func (j *trip) rollback() {
	if doc := j.w.status(j.t, "cut_over"); text(doc, "rollback.available") != "true" {
		j.t.Errorf("rollback is said not to be available: %v", doc["rollback"])
	}
	j.turn("rollback", "rolled_back")
	for i := range j.w.databases() {
		j.ownedBy(i, "source")
	}
	j.topology("source")
}

// turn switches traffic. What the clients saw of it must stay within the spec's max_pause,
// which is long enough for a machine that is busy with other tests; what an idle one takes
// is in the log.
func (j *trip) turn(command, phase string) {
	t, w := j.t, j.w
	j.c.healthy(t)
	from := time.Now()
	doc := w.must(t, command, "--yes")
	j.c.acknowledge(t, 5)
	hasKeys(t, command, doc, switchKeys)
	eachHas(t, command, doc, "steps", stepKeys)
	if text(doc, "outcome") != "done" {
		t.Fatalf("%s: %v", command, doc)
	}
	if steps, _ := doc["steps"].([]any); len(steps) < 5 {
		t.Errorf("%s lists %d steps", command, len(steps))
	}
	pause := j.c.longest(from, time.Now())
	t.Logf("%s: routers held %s ms, the longest request took %s", command, text(doc, "pause_ms.router"), pause.Round(time.Millisecond))
	if pause > maxPause {
		t.Errorf("a writer waited %s for the %s", pause, command)
	}
	w.status(t, phase)
	j.again(command, "--yes")
	j.alive()
	j.c.healthy(t)
}

// ownedBy asks route for keys of a database: shard and location as the server says.
func (j *trip) ownedBy(database int, owner string) {
	t, w := j.t, j.w
	if len(w.home) == 1 {
		return // without keys there is nothing to route by
	}
	asked := 0
	for key, shard := range j.c.writers[0].places {
		if w.home[shard] != database || asked == 2 {
			continue
		}
		asked++
		doc := w.must(t, "route", key)
		hasKeys(t, "route", doc, routeKeys)
		got := []string{text(doc, "shard"), text(doc, "schema"), text(doc, "database"), text(doc, "owner")}
		want := []string{strconv.Itoa(shard), w.schemaOf(shard), w.database(database), owner}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("route %s: %v, want %v", key, got, want)
				break
			}
		}
	}
}

// topology checks the document, the file router's copy of it, and that the pooler's file
// is otherwise as it was.
func (j *trip) topology(side string) {
	t, w := j.t, j.w
	doc := w.must(t, "topology", "show")
	hasKeys(t, "topology", doc, topologyKeys)
	eachHas(t, "topology", doc, "shards", shardKeys)
	shards, _ := doc["shards"].([]any)
	if len(shards) != len(w.home) {
		t.Errorf("the topology has %d shards: %v", len(shards), doc)
	}
	for i, s := range shards {
		shard, _ := s.(map[string]any)
		port := w.source.Port()
		if side == "databases" {
			port = w.targetOf(w.home[i]).Port()
		}
		if text(shard, "port") != strconv.Itoa(port) {
			t.Errorf("shard %d is said to be at %v, want port %d", i, shard, port)
		}
	}
	written, err := os.ReadFile(w.topologyFile())
	must(t, err)
	if copied, err := (binary.Result{Stdout: string(written)}).Document(); err != nil || text(copied, "epoch") != text(doc, "epoch") {
		t.Errorf("the topology file has epoch %s (%v), not %s", text(copied, "epoch"), err, text(doc, "epoch"))
	}
	entries, err := os.ReadFile(w.bouncer.DatabasesFile)
	must(t, err)
	for _, kept := range []string{"; kept by hand\n", w.untouchedEntry() + "\n", "pool_size=4"} {
		if !strings.Contains(string(entries), kept) {
			t.Errorf("%q is not in the pooler's file any more:\n%s", kept, entries)
		}
	}
}
