package cutover_test

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// fresh begins to measure anew.
func (c *crowd) fresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.allRefused, c.longest = c.all+c.writes, c.allRefused+c.refused, max(c.longest, c.worst)
	c.writes, c.refused, c.worst = 0, 0, 0
}

// sound judges what a switch that was hit, and its like that was run again, have left.
func (s *stage) sound(c trial) {
	t := s.t
	t.Helper()
	if s.gate.holds() {
		t.Errorf("%s: clients are held at the end", c)
	}
	s.crowd.breathe()
	s.crowd.still.Lock()
	defer s.crowd.still.Unlock()
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	for _, what := range s.crowd.wrong {
		t.Errorf("%s: %s", c, what)
	}
	if s.crowd.refused > 0 && c.blow == noTarget {
		t.Errorf("%s: %d writes of released clients were refused", c, s.crowd.refused)
	}
	s.late = ""
	if limit := s.pause + time.Second; s.crowd.worst > limit {
		s.late = fmt.Sprintf("%s: a write took %s, more than %s", c, s.crowd.worst, limit)
	}
	s.exact(c)
	s.oneWriter(c)
}

// breathe waits until each client that goes on has written twice: the wait for one hold is
// over for all of them before the next one begins.
func (c *crowd) breathe() {
	before := c.written()
	pgtest.Eventually(c.t, patience, func() bool {
		now := c.written()
		for n := range now {
			if now[n] < before[n]+2 && !c.broken() {
				return false
			}
		}
		return true
	})
}

// written is how many writes of each client were acknowledged.
func (c *crowd) written() [crowdSize]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by
}

func (c *crowd) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.wrong) > 0
}

// exact compares the ledger with the rows of the owners.
func (s *stage) exact(c trial) {
	t := s.t
	t.Helper()
	there := map[int64]item{}
	for shard, name := range s.cfg.Layout.Spec.Shards.Placement {
		d, table := s.home(name, shard)
		if s.owner(name) == store.OwnerSource {
			d, table = s.source, "item"
		}
		for _, row := range d.Rows(t, "SELECT id, owner, body FROM "+table) {
			var id int64
			var i item
			_, err := fmt.Sscanf(row, "%d|%d|%s", &id, &i.owner, &i.body)
			must(t, err)
			if s.crowd.shardOf[i.owner] == shard {
				there[id] = i
			} else if d != s.source {
				t.Errorf("%s: row %d of owner %d is in shard %d", c, id, i.owner, shard)
			}
		}
	}
	for id, want := range s.crowd.rows {
		if got := there[id]; got != want {
			t.Errorf("%s: row %d is %+v, acknowledged was %+v", c, id, got, want)
		}
	}
	for id, got := range there {
		if _, known := s.crowd.rows[id]; !known {
			t.Errorf("%s: row %d is %+v, which was deleted or never written", c, id, got)
		}
	}
}

func (s *stage) home(name string, shard int) (*pgtest.Database, string) {
	return map[string]*pgtest.Database{"db0": s.db0, "db1": s.db1}[name], fmt.Sprintf("s_%d.item", shard)
}

func (s *stage) owner(database string) string {
	return s.source.Value(s.t, "SELECT owner FROM shardctl.ownership WHERE database = $1", database)
}

// oneWriter sees that each shard has one side that takes writes.
func (s *stage) oneWriter(c trial) {
	t := s.t
	t.Helper()
	tried := map[string]bool{}
	for owner, shard := range s.crowd.shardOf {
		name := s.cfg.Layout.Spec.Shards.Placement[shard]
		if tried[name] {
			continue
		}
		tried[name] = true
		d, table := s.home(name, shard)
		here := s.takes(s.source, fmt.Sprintf("INSERT INTO item (owner, body) VALUES (%d, 'x'); DELETE FROM item WHERE body = 'x'", owner))
		there := s.takes(d, fmt.Sprintf("INSERT INTO %s (owner, body) VALUES (%d, 'x'); DELETE FROM %s WHERE body = 'x'", table, owner, table))
		if onSource := s.owner(name) == store.OwnerSource; here != onSource || there == onSource {
			t.Errorf("%s: %s owns the shards of %s; the source takes writes: %v, the database: %v", c, s.owner(name), name, here, there)
		}
	}
}

// takes reports whether a write is not refused by a fence.
func (s *stage) takes(d *pgtest.Database, sql string) bool {
	_, err := s.probes[d].Exec(s.t.Context(), sql)
	if err != nil && postgres.SQLState(err) != "25006" {
		s.t.Errorf("%s: %v", sql, err)
	}
	return err == nil
}
