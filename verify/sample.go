package verify

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
)

const (
	// neighbours is how many rows next to a drawn one, in the order of the key, are
	// compared with it: a chunk that was lost is a run of keys.
	neighbours = 32
	// misses is how many empty pages in a row end the drawing from a side.
	misses = 200
)

// Sample compares rows at random points of the data as it is, and those next to
// them: so many points on the source, and as many on the databases, where extra rows
// are. A point is a page drawn evenly from all pages with rows; every row on it is
// compared, so that dense and sparse pages give each row the same chance. A sample
// never proves that nothing is wrong; it says which rate of damage it would have found.
func (v *Verifier) Sample(ctx context.Context, points int) (*Result, error) {
	p, err := v.openPass(ctx, Sample)
	if err != nil {
		return nil, err
	}
	s := &sampling{v: v, points: points, judges: map[*layout.Table]*judge{}, pending: map[*layout.Table][]key{}}
	if err := p.during(ctx, s.run); err != nil {
		return nil, err
	}
	var found []Difference
	for _, t := range s.tables {
		j := s.judges[t]
		res := &tableResult{rows: int64(j.looked), found: j.found, truncated: j.truncated, unsettled: j.maybe, overflow: j.overflow}
		if err := p.saveTable(ctx, t, res); err != nil {
			return nil, err
		}
		p.rows += res.rows
		found = append(found, j.found...)
	}
	if err := p.finish(ctx, min(1, float64(s.read)/float64(max(s.estimated, 1)))); err != nil {
		return nil, err
	}
	r, err := v.result(ctx, p, detectable(s.drawn))
	if err != nil {
		return nil, err
	}
	// Of itself a sample speaks only of what it saw.
	r.Differences = append([]Difference{}, found...)
	r.State, r.Reason = Partial, "a sample proves no more than its rate"
	if len(found) > 0 {
		r.State, r.Reason = Differences, ""
	}
	return r, nil
}

type sampling struct {
	v         *Verifier
	points    int
	tables    []*layout.Table
	judges    map[*layout.Table]*judge
	pending   map[*layout.Table][]key
	estimated int64 // rows on the source
	drawn     int64 // independent points on the source
	read      int64 // keys taken from the source
}

// field is a relation that points are drawn from.
type field struct {
	server *server
	table  *layout.Table
	heap   heap
}

func (s *sampling) run(ctx context.Context) error {
	b, err := s.v.builder(ctx, s.v.servers())
	if err != nil {
		return err
	}
	if s.tables, err = s.v.comparable(ctx); err != nil {
		return err
	}
	var source, databases []field
	for _, t := range s.tables {
		s.judges[t] = s.v.newJudge(b, t, s.v.databases)
		heaps, err := s.v.sourceHeaps(ctx, s.v.read, t)
		if err != nil {
			return err
		}
		s.estimated += totalRows(heaps)
		for _, h := range heaps {
			source = append(source, field{s.v.read, t, h})
		}
		for _, d := range s.v.databases {
			heaps, err := s.v.targetHeaps(ctx, d, t)
			if err != nil {
				return err
			}
			for _, h := range heaps {
				databases = append(databases, field{d, t, h})
			}
		}
	}
	if s.drawn, err = s.draw(ctx, source); err != nil {
		return err
	}
	if _, err = s.draw(ctx, databases); err != nil {
		return err
	}
	for _, t := range s.tables {
		if err := s.flush(ctx, t); err != nil {
			return err
		}
		if err := s.judges[t].finish(ctx, s.v.limits.rounds); err != nil {
			return err
		}
	}
	return nil
}

// draw takes points from fields, each page with the same chance.
func (s *sampling) draw(ctx context.Context, fields []field) (drawn int64, err error) {
	var total int64
	for _, f := range fields {
		total += f.heap.pages
	}
	for missed := 0; total > 0 && drawn < int64(s.points) && missed < misses; {
		if s.v.cfg.Pause != nil {
			if err := s.v.cfg.Pause(ctx); err != nil {
				return drawn, err
			}
		}
		at := rand.Int64N(total)
		n := 0
		for ; at >= fields[n].heap.pages; n++ {
			at -= fields[n].heap.pages
		}
		hit, err := s.point(ctx, fields[n], at)
		if err != nil {
			return drawn, err
		}
		if !hit {
			missed++
			continue
		}
		drawn, missed = drawn+1, 0
		if drawn%100 == 0 {
			s.v.observe(Event{Kind: Narrowing, Table: fields[n].table.Name(), Keys: int(drawn), Total: s.points})
		}
	}
	return drawn, nil
}

// point takes all keys of a page and those that follow one of them.
func (s *sampling) point(ctx context.Context, f field, page int64) (hit bool, err error) {
	table := f.table.QualifiedSource()
	onSource := f.server == s.v.read
	if !onSource {
		table = f.heap.place.table
	}
	var keys []key
	err = s.v.persist(ctx, f.server, func() error {
		return f.server.chunk(ctx, []string{table}, func(tx pgx.Tx) error {
			found, err := findKeys(ctx, tx, pageKeys(f.table, f.heap.table, pages(f.server.version >= 140000, page, page+1, page)))
			if err != nil || len(found) == 0 {
				keys = nil
				return err
			}
			next, err := findKeys(ctx, tx, nextKeys(f.table, table, neighbours), found[rand.IntN(len(found))][0])
			keys = append(found, next...)
			return err
		})
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	if onSource {
		s.read += int64(len(keys))
	}
	s.pending[f.table] = append(s.pending[f.table], keys...)
	if len(s.pending[f.table]) >= s.v.limits.keys {
		return true, s.flush(ctx, f.table)
	}
	return true, nil
}

func findKeys(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]key, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[key])
}

func (s *sampling) flush(ctx context.Context, t *layout.Table) error {
	keys := s.pending[t]
	s.pending[t] = nil
	return s.judges[t].check(ctx, keys)
}
