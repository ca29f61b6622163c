package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
)

// suspects are the hashes of keys that a table's sketch left over, with the sides
// that had something the other had not.
type suspects map[uint64]sides

type sides uint8

const (
	onSource sides = 1 << iota
	onDatabase
)

func newSuspects(left []residue) suspects {
	out := make(suspects, len(left))
	for _, r := range left {
		if r.side > 0 {
			out[r.key] |= onSource
		} else {
			out[r.key] |= onDatabase
		}
	}
	return out
}

// errEnough ends a search: more differences were found than are listed.
var errEnough = errors.New("enough differences")

// narrow turns what the sketch left over into keys, and these into differences.
// Most were written while the table was read, and the log knows them by name.
// For the rest the databases are read again, and the source only for rows that no
// database has.
func (c *tableScan) narrow(ctx context.Context, j *judge, left suspects, windows []logWindow) error {
	n := narrowing{scan: c, judge: j, left: left, total: len(left)}
	err := n.fromLogs(ctx, windows)
	if err == nil {
		err = n.fromHeaps(ctx)
	}
	if errors.Is(err, errEnough) {
		j.truncated = true
		return nil
	}
	return err
}

type narrowing struct {
	scan  *tableScan
	judge *judge
	left  suspects
	total int
}

// logWindow is a stretch of one server's log.
type logWindow struct {
	server *server
	window window
}

func (n *narrowing) fromLogs(ctx context.Context, windows []logWindow) error {
	for _, w := range windows {
		if len(n.left) == 0 {
			return nil
		}
		_, err := n.scan.v.entries(ctx, w.server, n.scan.b, n.scan.t, w.window, func(page []entry) error {
			var keys []key
			for _, e := range page {
				if _, ok := n.left[uint64(e.hash)]; ok {
					delete(n.left, uint64(e.hash))
					keys = append(keys, e.key)
				}
			}
			return n.check(ctx, keys)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// findBatch is how many hashes are searched for in one reading of a table.
const findBatch = 20_000

func (n *narrowing) fromHeaps(ctx context.Context) error {
	for _, wanted := range []sides{onDatabase, onSource} {
		for {
			hashes := n.pick(wanted)
			if len(hashes) == 0 {
				break
			}
			if err := n.find(ctx, wanted, hashes); err != nil {
				return err
			}
		}
	}
	return nil
}

// pick takes some hashes of keys that a side has. Rows that differ are found where
// the source need not be read.
func (n *narrowing) pick(wanted sides) []int64 {
	var hashes []int64
	for hash, at := range n.left {
		if at&wanted != 0 {
			hashes = append(hashes, int64(hash))
			delete(n.left, hash)
			if len(hashes) == findBatch {
				break
			}
		}
	}
	return hashes
}

// find reads a side again for the keys that have these hashes. A hash that is not
// found any more was deleted since, which the log will tell the next round.
func (n *narrowing) find(ctx context.Context, wanted sides, hashes []int64) error {
	if wanted == onSource {
		heaps, err := n.scan.v.sourceHeaps(ctx, n.scan.v.read, n.scan.t)
		if err != nil {
			return err
		}
		return n.search(ctx, n.scan.v.read, heaps, n.scan.sourceTables(), hashes)
	}
	for _, d := range n.scan.databases {
		heaps, err := n.scan.v.targetHeaps(ctx, d, n.scan.t)
		if err != nil {
			return err
		}
		if err := n.search(ctx, d, heaps, nil, hashes); err != nil {
			return err
		}
	}
	return nil
}

func (n *narrowing) search(ctx context.Context, s *server, heaps []heap, locked []string, hashes []int64) error {
	for _, h := range heaps {
		lock := locked
		if lock == nil {
			lock = []string{h.table}
		}
		var keys, chunk []key
		err := n.scan.v.walk(ctx, reading{server: s, heap: h, locked: lock,
			read: func(tx pgx.Tx, where string) (_ int64, err error) {
				chunk, err = findKeys(ctx, tx, n.scan.b.findKeys(n.scan.t, h.table, where), hashes)
				return 0, err
			},
			done: func() { keys = append(keys, chunk...) },
		})
		if err != nil {
			return err
		}
		if err := n.check(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

func findKeys(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]key, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var keys []key
	var k key
	_, err = pgx.ForEachRow(rows, []any{&k}, func() error {
		keys = append(keys, append(key{}, k...))
		return nil
	})
	return keys, err
}

// check hands keys to the judge, until there is more wrong than can be listed.
func (n *narrowing) check(ctx context.Context, keys []key) error {
	if len(keys) == 0 {
		return nil
	}
	if err := n.judge.check(ctx, keys); err != nil {
		return err
	}
	n.scan.v.observe(Event{Kind: Narrowing, Table: n.scan.t.Name(), Keys: n.judge.looked, Total: max(n.total, n.judge.looked)})
	if n.judge.truncated {
		return errEnough
	}
	return nil
}

// windows are the logs' stretches in which rows may have been written that were
// read on one side before and on the other after: all that some database had not
// applied when the reading began.
func (c *tableScan) windows(ctx context.Context, j *judge) ([]logWindow, error) {
	if err := j.knowOwners(ctx); err != nil {
		return nil, err
	}
	var out []logWindow
	known := map[string]bool{}
	for _, d := range c.databases {
		holder, log, direction := d, c.v.source, store.Forward
		if j.reverse(d) {
			holder, log, direction = c.v.source, d, store.Reverse
		}
		p, err := c.v.loadPosition(ctx, holder, d.Name, direction)
		if err != nil {
			return nil, err
		}
		if id := fmt.Sprint(log.Name, p.Snapshot); !known[id] {
			known[id] = true
			out = append(out, logWindow{server: log, window: window{from: p.Snapshot}})
		}
	}
	return out, nil
}

// close ends the windows at the present.
func closeWindows(ctx context.Context, windows []logWindow) error {
	for i := range windows {
		w, err := windows[i].server.now(ctx, windows[i].window.from)
		if err != nil {
			return err
		}
		windows[i].window = w
	}
	return nil
}
