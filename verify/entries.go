package verify

import (
	"context"
	"fmt"
	"strings"

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

// running reports whether transactions were running at the position: their entries
// have lower numbers than its end.
func running(position string) bool { return !strings.HasSuffix(position, ":") }

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

// branch is one part of a table's log, and how far it was read.
type branch struct {
	query     string
	xid       string
	seq       int64
	page      []entry // the last one read
	more      bool    // it was full
	truncated bool    // there was a TRUNCATE in it
}

// entries reads the log of a table on one server, page by page, and hands each
// page's keys on, each once in its page. A page needs no snapshot in common with
// the last: what the window's end sees was committed before, and stays unless the log
// is rotated, which is looked for behind each page. It says why the log did not name
// all keys; "" if it did.
func (v *Verifier) entries(ctx context.Context, s *server, b builder, t *layout.Table, w window, take func([]entry) error) (reason string, err error) {
	var branches []branch
	for segment := range logschema.Segments {
		branches = append(branches, branch{query: b.entries(t, segment, false, entryPage), xid: "0"})
		if running(w.from) {
			branches = append(branches, branch{query: b.entries(t, segment, true, entryPage), xid: "0"})
		}
	}
	for len(branches) > 0 {
		var read []branch
		var lost bool
		err := v.persist(ctx, s, func() (err error) {
			read, lost, err = readPages(ctx, s, b, t, branches, w)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the log of %s on %s: %w", t.Name(), s.Name, err)
		}
		if lost {
			reason = wasRotated
		}
		branches = branches[:0]
		for _, br := range read {
			if br.truncated {
				reason = t.Name() + " was truncated, and the log does not name the rows"
			}
			if len(br.page) > 0 {
				if err := take(br.page); err != nil {
					return "", err
				}
			}
			if br.more {
				branches = append(branches, br)
			}
		}
	}
	return reason, nil
}

// wasRotated is why a log no longer names all that was written.
const wasRotated = "the log was rotated past what had been compared"

// readPages reads the next page of each branch, all in one round trip. Lost says that
// entries of the window may have been taken away before.
func readPages(ctx context.Context, s *server, b builder, t *layout.Table, branches []branch, w window) (out []branch, lost bool, err error) {
	out = make([]branch, len(branches))
	batch := &pgx.Batch{}
	for i, br := range branches {
		out[i] = branch{query: br.query, xid: br.xid, seq: br.seq}
		batch.Queue(br.query, w.from, w.to, br.xid, br.seq).Query(out[i].take)
	}
	b.askRotated(batch, []*layout.Table{t}, w.from, &lost)
	err = s.with(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, batch).Close() })
	return out, lost, err
}

func (b *branch) take(rows pgx.Rows) error {
	seen := map[string]int{}
	n := 0
	var op string
	var moved bool
	var hashes [2]*int64
	var keys [2]key
	_, err := pgx.ForEachRow(rows, []any{&b.xid, &b.seq, &op, &moved, &hashes[0], &keys[0], &hashes[1], &keys[1]}, func() error {
		n++
		b.truncated = b.truncated || op == "T"
		for i, k := range keys {
			if hashes[i] == nil {
				continue
			}
			if at, ok := seen[k.id()]; ok {
				b.page[at].moved = b.page[at].moved || moved
				continue
			}
			seen[k.id()] = len(b.page)
			b.page = append(b.page, entry{hash: *hashes[i], key: append(key{}, k...), moved: moved})
		}
		return nil
	})
	b.more = n == entryPage
	return err
}
