package journey

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestBlockedSwitches makes one obstacle after the other in one world, tries the switch, and
// takes the obstacle away. Each attempt must be refused, or given up in time, with the cause
// named and all where it was; the first one without an obstacle succeeds.
func TestBlockedSwitches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "blocked", home: []int{0, 1, 0}, schema: "shard_%03d", storeAs: true, servers: 2, blocks: 300, writers: 2, pace: 40 * time.Millisecond})
	c := w.startCrowd(t)
	c.keepShards() // placement guards would refuse more once the databases serve
	s := &siege{trip: trip{t: t, w: w, c: c}, whole: t}
	for _, args := range [][]string{{"prepare"}, {"topology", "push", "--yes"}, {"install"}} {
		w.must(t, args...)
	}
	s.catchup = w.begin(t, "catchup")
	w.must(t, "backfill")
	s.attempts("cutover", slices.Concat(unverified, transactions, routing, standing, servers, disks))
	w.catchupRuns(t)
	s.turn("cutover", "cut_over")
	c.databasesServe(t, true)
	s.attempts("rollback", wayBack)
	s.turn("rollback", "rolled_back")
	c.sourceServes(t, true)
	c.finish(t)
}

// siege is a migration on which obstacles are put.
type siege struct {
	trip
	whole *testing.T // what outlives an obstacle is its
	last  string     // how the last obstacle's attempt ended
}

// obstacle is one thing that forbids a switch.
type obstacle struct {
	name string
	code int
	says []string // parts of the message, besides what put gives
	put  func(*siege) (names []string, undo func())
}

// allowance is what an attempt may need besides its gates.
const attemptPause = time.Second

func (s *siege) attempts(command string, all []obstacle) {
	for _, o := range all {
		start := time.Now()
		s.whole.Run(command+" "+o.name, func(t *testing.T) {
			s.t, s.w.t = t, t
			defer func() { s.t, s.w.t = s.whole, s.whole }()
			s.attempt(command, o)
		})
		s.t.Logf("%6.2f s  %s %s: %s", time.Since(start).Seconds(), command, o.name, s.last)
		if strings.HasPrefix(s.last, "exit 0") || s.whole.Failed() && os.Getenv("KEEP_GOING") == "" {
			s.whole.FailNow()
		}
	}
}

func (s *siege) attempt(command string, o obstacle) {
	t, w := s.t, s.w
	names, undo := o.put(s)
	before := s.stand()
	from := time.Now()
	code, doc := w.run(t, command, "--yes", "--max-pause", attemptPause.String())
	took := time.Since(from)
	message := said(doc)
	s.last = fmt.Sprintf("exit %d in %.1f s: %s", code, took.Seconds(), message)
	if after := s.stand(); after != before {
		t.Errorf("after an attempt that failed the world is not as before:\n%s\n%s", before, after)
	}
	undo()
	if code == 0 {
		t.Fatalf("nothing was in the way: %v", doc)
	}
	s.c.healthy(t)
	if code != o.code {
		t.Errorf("exit %d, want %d: %v", code, o.code, doc)
	}
	for _, part := range append(names, o.says...) {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not named: %s", part, message)
		}
	}
	if !strings.HasSuffix(message, ")") {
		t.Errorf("no hint: %s", message)
	}
	if longest := s.c.longest(from, time.Now()); longest > attemptPause+time.Second {
		t.Errorf("a writer waited %s", longest)
	}
}

// said is the one line that an operator reads of a command that failed.
func said(doc binary.Document) string {
	if reason := text(doc, "reason"); reason != "" && reason != "<nil>" {
		return reason
	}
	line := text(doc, "error.message")
	if object := text(doc, "error.object"); object != "" {
		line = object + ": " + line
	}
	if hint := text(doc, "error.hint"); hint != "" {
		line += " (" + hint + ")"
	}
	return line
}

// stand is all that decides where traffic goes.
func (s *siege) stand() string {
	w := s.w
	var b strings.Builder
	note := func(what string, lines []string) { fmt.Fprintf(&b, "%s: %s\n", what, strings.Join(lines, "; ")) }
	const owners = "SELECT format('%s is of %s in epoch %s', database, owner, epoch) FROM shardctl.%s WHERE migration = 'blocked' ORDER BY 1"
	const fences = "SELECT format('%s of %s: %s', tgname, tgrelid::regclass, tgenabled) FROM pg_trigger WHERE tgname LIKE 'shardctl%' ORDER BY 1"
	note("phase", w.texts(w.sourceDSN(), "SELECT phase FROM shardctl.migration"))
	note("source", w.texts(w.sourceDSN(), strings.Replace(owners, "%s W", "ownership W", 1)))
	note("fences", w.texts(w.sourceDSN(), fences))
	for i := range w.databases() {
		if !w.targetOf(i).Running() {
			continue
		}
		note(w.database(i), w.texts(w.databaseDSN(i), strings.Replace(owners, "%s W", "control W", 1)))
		note("fences", w.texts(w.databaseDSN(i), fences))
	}
	for _, file := range []string{w.topologyFile(), w.bouncer.DatabasesFile} {
		content, err := os.ReadFile(file)
		must(s.t, err)
		note(file, []string{string(content)})
	}
	note("held", s.held())
	return b.String()
}

// held lists the pooler's entries that are paused.
func (s *siege) held() (names []string) {
	s.console("SHOW DATABASES", func(row map[string]string) {
		if row["paused"] == "1" {
			names = append(names, row["name"])
		}
	})
	return names
}

// console asks the pooler's console.
func (s *siege) console(command string, each func(row map[string]string)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), binary.Patience)
	defer cancel()
	cfg, err := pgx.ParseConfig(s.w.bouncer.AdminDSN())
	must(s.t, err)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	must(s.t, err)
	defer func() { _ = conn.Close(ctx) }()
	results := conn.PgConn().Exec(ctx, command)
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			row := map[string]string{}
			for i, f := range rows.FieldDescriptions() {
				row[f.Name] = string(rows.Values()[i])
			}
			if each != nil {
				each(row)
			}
		}
	}
	must(s.t, results.Close())
}
