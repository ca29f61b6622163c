package cutover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
)

// crowd is clients that write, each to owners of its own, and a ledger of all that was
// acknowledged.
type crowd struct {
	t       *testing.T
	r       *rig
	gate    *turnstile
	path    string      // of the topology
	shardOf map[int]int // by owner
	still   sync.RWMutex

	mu      sync.Mutex
	rows    map[int64]item
	worst   time.Duration  // that a write took, waiting included
	by      [crowdSize]int // writes that each client had acknowledged
	writes  int
	refused int // writes of those that a router leads
	wrong   []string

	all, allRefused int // before the last switch
	longest         time.Duration
}

// item is a row as it was acknowledged.
type item struct {
	owner int
	body  string
}

const (
	crowdSize = 4
	owners    = 40
	pace      = 25 * time.Millisecond
)

// startCrowd starts the clients. The last of them is one that no router leads: it goes to
// a side directly, and to the other when it is refused.
func (r *rig) startCrowd(gate *turnstile) *crowd {
	t := r.t
	t.Helper()
	c := &crowd{t: t, r: r, gate: gate, path: r.cfg.Layout.Spec.Topology[0].Path, shardOf: map[int]int{}, rows: map[int64]item{}}
	for _, row := range r.source.Rows(t, "SELECT k, "+r.cfg.Layout.ShardSQL(r.cfg.Layout.Tables[0], "k")+" FROM generate_series(1, 40) k") {
		var k, shard int
		_, err := fmt.Sscanf(row, "%d|%d", &k, &shard)
		must(t, err)
		c.shardOf[k] = shard
	}
	for _, row := range r.source.Rows(t, "SELECT id, owner, body FROM item") {
		var id int64
		var i item
		_, err := fmt.Sscanf(strings.ReplaceAll(row, "|", " "), "%d %d %s", &id, &i.owner, &i.body)
		must(t, err)
		c.rows[id] = i
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for n := range crowdSize {
		w := &client{crowd: c, no: n, random: rand.New(rand.NewPCG(1, uint64(n))), conns: map[string]*pgx.Conn{}, alone: n == crowdSize-1, moved: map[string]bool{}}
		for name, d := range map[string]*pgtest.Database{"source": r.source, "db0": r.db0, "db1": r.db1} {
			w.conns[name] = d.Connect(t)
		}
		group.Go(func() { w.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return c
}

// client is one of the crowd.
type client struct {
	*crowd
	no     int
	random *rand.Rand
	conns  map[string]*pgx.Conn
	alone  bool            // no router leads it
	moved  map[string]bool // the databases that it was served by last, if alone
	count  int
}

func (w *client) run(ctx context.Context) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		w.still.RLock()
		err := w.write(ctx, next.C)
		w.still.RUnlock()
		if err != nil && ctx.Err() == nil {
			w.note(fmt.Sprintf("client %d: %v", w.no, err))
			return
		}
	}
}

func (c *crowd) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, what)
}

// write is one write, tried until it is acknowledged.
func (w *client) write(ctx context.Context, next <-chan time.Time) error {
	owner := w.random.IntN(owners/crowdSize)*crowdSize + w.no + 1
	w.count++
	s := w.draw(owner, fmt.Sprintf("c%d-%d", w.no, w.count))
	for start := time.Now(); ; {
		err := w.try(ctx, s)
		if postgres.SQLState(err) == "25006" || w.astray(err) && time.Since(start) < patience/4 {
			w.turnAway(owner)
			<-next // it asks no faster than it writes
			continue
		}
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.writes++
			w.by[w.no]++
			w.worst = max(w.worst, time.Since(start))
		}
		return err
	}
}

// astray reports whether a client that no router leads has met what the side that does not
// own the shard does not know yet, before its fence: a row, or a number that was drawn.
func (w *client) astray(err error) bool {
	return w.alone && (errors.Is(err, pgx.ErrNoRows) || postgres.SQLState(err) == "23505")
}

// turnAway follows a refusal: a client that no router leads tries the other side.
func (w *client) turnAway(owner int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alone {
		w.refused++
		return
	}
	name := w.r.cfg.Layout.Spec.Shards.Placement[w.shardOf[owner]]
	w.moved[name] = !w.moved[name]
}

// statement is a write that was not acknowledged yet; id 0 inserts, no body deletes.
type statement struct {
	owner int
	id    int64
	body  string
}

func (w *client) draw(owner int, body string) statement {
	w.mu.Lock()
	defer w.mu.Unlock()
	var theirs []int64
	for id, i := range w.rows {
		if i.owner == owner {
			theirs = append(theirs, id)
		}
	}
	if len(theirs) == 0 || len(theirs) < 6 && w.random.IntN(3) == 0 {
		return statement{owner: owner, body: body}
	}
	id := theirs[w.random.IntN(len(theirs))]
	if len(theirs) > 3 && w.random.IntN(3) == 0 {
		return statement{owner: owner, id: id}
	}
	return statement{owner: owner, id: id, body: body}
}

func (w *client) try(ctx context.Context, s statement) error {
	shard := w.shardOf[s.owner]
	if !w.alone {
		if err := w.gate.enter(ctx, shard); err != nil {
			return err
		}
		defer w.gate.leave(shard)
	}
	place, table, err := w.home(shard)
	if err != nil {
		return err
	}
	return w.send(ctx, w.conns[place], table, s)
}

// home is where the shard's writes go.
func (w *client) home(shard int) (place, table string, err error) {
	var doc topology.Topology
	place, table = w.r.cfg.Layout.Spec.Shards.Placement[shard], fmt.Sprintf("s_%d.item", shard)
	switch {
	case w.alone && w.moved[place]:
		return place, table, nil
	case w.alone:
		return "source", "item", nil
	}
	content, err := os.ReadFile(w.path)
	if err == nil {
		err = json.Unmarshal(content, &doc)
	}
	if err != nil {
		return "", "", err
	}
	if doc.Shards[shard].Database == store.OwnerSource {
		return "source", "item", nil
	}
	return place, table, nil
}

// send writes, and notes what was acknowledged.
func (w *client) send(ctx context.Context, conn *pgx.Conn, table string, s statement) error {
	id := s.id
	var err error
	switch {
	case s.id == 0:
		err = conn.QueryRow(ctx, "INSERT INTO "+table+" (owner, body) VALUES ($1, $2) RETURNING id", s.owner, s.body).Scan(&id)
	case s.body == "":
		err = conn.QueryRow(ctx, "DELETE FROM "+table+" WHERE id = $1 AND owner = $2 RETURNING id", id, s.owner).Scan(&id)
	default:
		err = conn.QueryRow(ctx, "UPDATE "+table+" SET body = $3 WHERE id = $1 AND owner = $2 RETURNING id", id, s.owner, s.body).Scan(&id)
	}
	if err != nil {
		return fmt.Errorf("%s: row %d of owner %d: %w", table, s.id, s.owner, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.rows[id]; there && s.id == 0 {
		return fmt.Errorf("%s: number %d was drawn twice", table, id)
	}
	if w.rows[id] = (item{owner: s.owner, body: s.body}); s.body == "" {
		delete(w.rows, id)
	}
	return nil
}
