package journey

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestSourceLost loses the source after a cutover, at the worst moment: one database had
// not been opened yet and does not know that it owns its shards, and the pooler holds its
// clients. From the databases' copies the migration is completed all the same; no row of
// theirs is lost, and what only the source could refuse is not in the way any more.
func TestSourceLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "lost", home: []int{0, 1, 0}, schema: "shard_%03d", storeAs: true, blocks: 1_500, writers: 3, pace: 30 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.start()
	j.copyRows()
	c.keepShards()
	j.cutover()
	c.acknowledge(t, 10)
	if failure := w.refused(t, 4, "complete", "--source-lost", "--yes"); failure["code"] != "source.reachable" {
		t.Errorf("a living source is refused with %v", failure)
	}
	w.status(t, "cut_over")
	c.rest(func() {
		for _, x := range c.writers {
			x.noPlans = true // the source's entry leads nowhere from here on
		}
	})
	c.databasesServe(t, true)
	j.end()
	c.rest(func() {
		w.source.Stop(t, "kill")
		j.knowsWithoutSource("cut_over", 1)
		w.halfOpened(1)
		w.console("PAUSE")
		if got := w.refused(t, 64, "complete", "--source-lost"); got["code"] != "usage.confirm" {
			t.Errorf("without --yes: %v", got)
		}
		w.must(t, "complete", "--source-lost", "--yes")
	})
	c.acknowledge(t, 20)
	c.databasesServe(t, false)
	j.knowsWithoutSource("completed", 0)
	j.completeWithoutSource()
	if doc := w.must(t, "complete", "--source-lost", "--yes"); text(doc, "outcome") != "nothing to do" {
		t.Errorf("again: %v", doc)
	}
	w.source.Start(t)
	j.risen()
	c.acknowledge(t, 10)
	c.databasesServe(t, false)
	c.finish(t)
	w.noSecrets(t)
}

// risen: a source that comes back to life thinks that it may be rolled back to. A
// rollback to it changes nothing.
func (j *trip) risen() {
	t, w := j.t, j.w
	doc := w.must(t, "status")
	if problems := text(doc, "problems"); !strings.Contains(problems, "completed without the source") || text(doc, "rollback.available") != "false" {
		t.Errorf("status of a source that was declared lost: %v", doc)
	}
	before := w.catalogs()
	if code, doc := w.run(t, "rollback", "--yes"); code == 0 {
		t.Errorf("rollback to a source that was declared lost: %v", doc)
	} else {
		t.Logf("rollback to a source that was declared lost: exit %d: %v", code, doc)
	}
	w.unchanged(t, before, "a rollback to a source that was declared lost")
}

// halfOpened makes a database as it is between the source's commit and its opening.
func (w *world) halfOpened(database int) {
	dsn := w.databaseDSN(database)
	closing := w.texts(dsn, "SELECT closing FROM shardctl."+w.migration+"_switch WHERE NOT everywhere ORDER BY place")
	w.exec(dsn, strings.Join(closing, ";")+"; UPDATE shardctl.control SET owner = 'source', epoch = epoch - 1; DELETE FROM shardctl.ownership")
}

// console runs a command of the pooler's console.
func (w *world) console(command string) {
	config, err := pgx.ParseConfig(w.bouncer.AdminDSN())
	must(w.t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	ctx, cancel := context.WithTimeout(context.Background(), binary.Patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	must(w.t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, command)
	must(w.t, err)
}

// knowsWithoutSource asks what can be asked while the source is gone.
func (j *trip) knowsWithoutSource(phase string, code int) {
	t, w := j.t, j.w
	got, doc := w.run(t, "status")
	w.statusHasKeys(t, doc)
	_, failed := doc["error"]
	if got != code || failed != (code != 0) || text(doc, "phase") != phase || text(doc, "cutover.state") != "done" || text(doc, "rollback.available") != "false" {
		t.Errorf("status without the source: exit %d: %v", got, doc)
	}
	if plain := binary.Begin(t, w.env, "status", "-f", w.spec).Wait(t); plain.Code != code || !strings.Contains(plain.Stdout, "owner db1") || code != 0 && !strings.Contains(plain.Stderr, "cannot connect") {
		t.Errorf("status as text: %s", plain)
	}
	for i := range w.databases() {
		j.ownedBy(i, w.database(i))
	}
	shards, _ := w.must(t, "topology", "show")["shards"].([]any)
	for i, s := range shards {
		shard, _ := s.(map[string]any)
		if text(shard, "port") != strconv.Itoa(w.targetOf(w.home[i]).Port()) {
			t.Errorf("without the source shard %d is said to be at %v", i, shard)
		}
	}
}

// completeWithoutSource looks at what is left on the databases: no reverse log, open
// copies of the everywhere table, guards, and the journal of what was done.
func (j *trip) completeWithoutSource() {
	t, w := j.t, j.w
	for i := range w.databases() {
		dsn := w.databaseDSN(i)
		left := w.texts(dsn, fmt.Sprintf(`SELECT tgname || ' on ' || tgrelid::regclass FROM pg_trigger WHERE tgname IN ('shardctl_%[1]s_capture', 'shardctl_%[1]s_truncate')
			UNION ALL SELECT relname FROM pg_class WHERE relname LIKE '%[1]s\_log\_%%' UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE '%[1]s\_capture\_%%'`, w.migration))
		if len(left) > 0 {
			t.Errorf("%s still has %v", w.database(i), left)
		}
		if err := asApplication(w, dsn, "INSERT INTO public.plan (name) VALUES ('own')"); err != nil {
			t.Errorf("the application may not write its own copy on %s: %v", w.database(i), err)
		}
		told := w.texts(dsn, "SELECT outcome FROM shardctl.journal WHERE command = 'complete --source-lost' ORDER BY at")
		if len(told) == 0 || told[len(told)-1] != "ok" {
			t.Errorf("the journal of %s says %v", w.database(i), told)
		}
	}
	for key, shard := range j.c.writers[0].places {
		other := j.otherLocation(shard)
		j.refusedTo(w.databaseDSN(other.database), other.schema, key, "")
		break
	}
}

// TestSourceLostTooEarly: as long as the source owns the shards, what the databases have
// is a copy.
func TestSourceLostTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "early", home: []int{0, 1}, schema: "shard_%03d", blocks: 100, writers: 1})
	w.must(t, "prepare")
	w.source.Stop(t, "kill")
	before := w.texts(w.databaseDSN(0), catalogSQL)
	if failure := w.refused(t, 4, "complete", "--source-lost", "--yes"); failure["code"] != "source.owns" || failure["object"] != "db0" {
		t.Errorf("refused with %v", failure)
	}
	if after := w.texts(w.databaseDSN(0), catalogSQL); len(after) != len(before) {
		t.Errorf("a refused complete --source-lost changed the catalog")
	}
	if code, doc := w.run(t, "status"); code != 1 || text(doc, "phase") != "unknown" || text(doc, "cutover.state") != "none" {
		t.Errorf("status: exit %d: %v", code, doc)
	}
	w.source.Start(t)
	w.status(t, "prepared")
}
