package verify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
)

// entryPage is how many log entries are read at a time, so that neither memory
// nor the age of a snapshot grows with the log.
const entryPage = 4000

// entry is a key that the log names.
type entry struct {
	hash  int64
	key   key
	moved bool // its children may have changed places with it
}

// window is a stretch of a log: what position from does not cover and snapshot to
// sees.
type window struct{ from, to string }

// now gives the window from a position up to the present.
func (s *server) now(ctx context.Context, from string) (window, error) {
	w := window{from: from}
	err := s.with(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&w.to)
	})
	if err != nil {
		return w, fmt.Errorf("take a snapshot of %s: %w", s.Name, err)
	}
	return w, nil
}

// entries reads the log of a table on one server, page by page, and hands each
// page's keys on, each once in its page. A page needs no snapshot in common with
// the last: what the window's end sees was committed before, and stays. It reports
// whether the table was truncated in the window.
func (v *Verifier) entries(ctx context.Context, s *server, b builder, t *layout.Table, w window, take func([]entry) error) (truncated bool, err error) {
	for segment := range logschema.Segments {
		for _, running := range []bool{true, false} {
			at := cursor{xid: "0"}
			for more := true; more; {
				var page []entry
				err := v.persist(ctx, s, func() error {
					next := at
					page, err = readPage(ctx, s, b.entries(t, segment, running, entryPage), w, &next)
					if err == nil {
						more, at = next.rows == entryPage, next
					}
					return err
				})
				if err != nil {
					return false, fmt.Errorf("read the log of %s on %s: %w", t.Name(), s.Name, err)
				}
				truncated = truncated || at.truncated
				if len(page) == 0 {
					continue
				}
				if err := take(page); err != nil {
					return false, err
				}
			}
		}
	}
	return truncated, nil
}

// cursor is where a page ended.
type cursor struct {
	xid       string
	seq       int64
	rows      int
	truncated bool // a TRUNCATE was among the entries so far
}

func readPage(ctx context.Context, s *server, query string, w window, at *cursor) ([]entry, error) {
	var page []entry
	seen := map[string]int{}
	at.rows = 0
	err := s.readLog(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, w.from, w.to, at.xid, at.seq)
		if err != nil {
			return err
		}
		var op string
		var moved bool
		var hashes [2]*int64
		var keys [2]key
		_, err = pgx.ForEachRow(rows, []any{&at.xid, &at.seq, &op, &moved, &hashes[0], &keys[0], &hashes[1], &keys[1]}, func() error {
			at.rows++
			at.truncated = at.truncated || op == "T"
			for i, k := range keys {
				if hashes[i] == nil {
					continue
				}
				if n, ok := seen[k.id()]; ok {
					page[n].moved = page[n].moved || moved
					continue
				}
				seen[k.id()] = len(page)
				page = append(page, entry{hash: *hashes[i], key: append(key{}, k...), moved: moved})
			}
			return nil
		})
		return err
	})
	return page, err
}
