package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
// database has. It says why something could not be told; "" if all was.
func (c *tableScan) narrow(ctx context.Context, j *judge, left suspects, windows []logWindow) (partial string, err error) {
	n := narrowing{scan: c, judge: j, left: left, total: len(left), windows: windows}
	err = n.run(ctx)
	switch {
	case errors.Is(err, errEnough):
		j.truncated = true
		return "", nil
	case err == nil && len(n.left) > 0:
		return fmt.Sprintf("%d rows of %s differed and could not be found again", len(n.left), c.t.Name()), nil
	}
	return "", err
}

type narrowing struct {
	scan    *tableScan
	judge   *judge
	left    suspects // of which no key is known yet
	total   int
	windows []logWindow // the logs' stretches that were not looked into yet
}

// logWindow is a stretch of one server's log.
type logWindow struct {
	server *server
	window window
}

func (n *narrowing) run(ctx context.Context) error {
	if err := n.fromLogs(ctx); err != nil {
		return err
	}
	for _, wanted := range []sides{onDatabase, onSource} {
		unfound, err := n.fromHeaps(ctx, wanted)
		if err != nil {
			return err
		}
		if len(unfound) == 0 {
			continue
		}
		// What was deleted or moved since the table was read is in the log by now. Only rows
		// that follow their parents are not, but these are on the source.
		for _, hash := range unfound {
			n.left[uint64(hash)] = onSource
		}
		for i, w := range n.windows {
			n.windows[i].window.from = w.window.to
		}
		if err := closeWindows(ctx, n.windows); err != nil {
			return err
		}
		if err := n.fromLogs(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n *narrowing) fromLogs(ctx context.Context) error {
	for _, w := range n.windows {
		if len(n.left) == 0 {
			return nil
		}
		// A log that does not name all leaves the rest to be searched for.
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

// fromHeaps searches one side for the keys that it had, and gives the hashes that it
// has no longer.
func (n *narrowing) fromHeaps(ctx context.Context, wanted sides) (unfound []int64, err error) {
	for {
		hashes := n.pick(wanted)
		if len(hashes) == 0 {
			return unfound, nil
		}
		if hashes, err = n.find(ctx, wanted, hashes); err != nil {
			return nil, err
		}
		unfound = append(unfound, hashes...)
	}
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

// find reads a side again for the keys that have these hashes, and gives those of
// which there is none. A key that one database has is judged on all.
func (n *narrowing) find(ctx context.Context, wanted sides, hashes []int64) (unfound []int64, err error) {
	v, t := n.scan.v, n.scan.t
	if wanted == onSource {
		list := func() ([]heap, error) { return v.sourceHeaps(ctx, v.read, t) }
		return n.search(ctx, v.read, list, n.scan.sourceTables(), hashes)
	}
	for _, d := range n.scan.databases {
		list := func() ([]heap, error) { return v.targetHeaps(ctx, d, t) }
		if hashes, err = n.search(ctx, d, list, nil, hashes); err != nil || len(hashes) == 0 {
			return nil, err
		}
	}
	return hashes, nil
}

// search reads a server's heaps, and again while something is wanted and one of them was
// rewritten: its rows may have moved to where the reading had been already.
func (n *narrowing) search(ctx context.Context, s *server, list func() ([]heap, error), locked []string, hashes []int64) (unfound []int64, err error) {
	heaps, err := list()
	for try := 0; err == nil && len(hashes) > 0 && try < rereads; try++ {
		if hashes, err = n.searchOnce(ctx, s, heaps, locked, hashes); err != nil {
			break
		}
		before := heaps
		if heaps, err = list(); err == nil && !rewritten(before, heaps) {
			break
		}
	}
	return hashes, err
}

func (n *narrowing) searchOnce(ctx context.Context, s *server, heaps []heap, locked []string, hashes []int64) (unfound []int64, err error) {
	found := map[int64]bool{}
	for _, h := range heaps {
		lock := locked
		if lock == nil {
			lock = []string{h.table}
		}
		var keys, chunk []entry
		err := n.scan.v.walk(ctx, reading{server: s, heap: h, locked: lock,
			read: func(tx pgx.Tx, where string) (_ int64, err error) {
				chunk, err = findEntries(ctx, tx, n.scan.b.findKeys(n.scan.t, h.table, where), hashes)
				return 0, err
			},
			done: func() {
				keys = append(keys, chunk...)
				n.tell()
			},
		})
		if err != nil {
			return nil, err
		}
		check := make([]key, len(keys))
		for i, e := range keys {
			check[i], found[e.hash] = e.key, true
		}
		if err := n.check(ctx, check); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(hashes, func(hash int64) bool { return found[hash] }), nil
}

// findEntries reads hashes with the keys that have them.
func findEntries(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]entry, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []entry
	var e entry
	_, err = pgx.ForEachRow(rows, []any{&e.hash, &e.key}, func() error {
		out = append(out, entry{hash: e.hash, key: append(key{}, e.key...)})
		return nil
	})
	return out, err
}

// check hands keys to the judge, until there is more wrong than can be listed.
func (n *narrowing) check(ctx context.Context, keys []key) error {
	if len(keys) == 0 {
		return nil
	}
	if err := n.judge.check(ctx, keys); err != nil {
		return err
	}
	n.tell()
	if n.judge.truncated {
		return errEnough
	}
	return nil
}

func (n *narrowing) tell() {
	n.scan.v.observe(Event{Kind: Narrowing, Table: n.scan.t.Name(), Keys: n.judge.looked, Total: max(n.total, n.judge.looked)})
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
