package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
)

// judge decides, key by key, whether source and databases differ in one table.
type judge struct {
	v         *Verifier
	b         builder
	t         *layout.Table
	databases []*server
	places    map[*server][]place
	owners    map[string]store.Ownership

	maybe     []openKey      // differ at sight, but an entry that is not applied yet may be why
	at        map[string]int // where in maybe a key is
	most      int            // so many of them are kept
	overflow  int64          // of which there are more
	found     []Difference
	seen      map[string]bool // found ones
	truncated bool
	looked    int
}

// openKey is a key that is undecided on some databases.
type openKey struct {
	key key
	on  []*server
}

func keysOf(open []openKey) []key {
	keys := make([]key, len(open))
	for i, o := range open {
		keys[i] = o.key
	}
	return keys
}

func (v *Verifier) newJudge(b builder, t *layout.Table, databases []*server) *judge {
	j := &judge{v: v, b: b, t: t, databases: databases, places: map[*server][]place{}, at: map[string]int{}, seen: map[string]bool{},
		most: 4 * max(v.limits.unsettled, 1)}
	for _, d := range databases {
		j.places[d] = v.places(t, d)
	}
	return j
}

// check looks at keys. What cannot be decided now is kept for finish.
func (j *judge) check(ctx context.Context, keys []key) error {
	undecided, err := j.pass(ctx, keys, false)
	if err != nil {
		return err
	}
	j.keep(undecided)
	if len(j.maybe) > j.most {
		if undecided, err = j.pass(ctx, keysOf(j.maybe), false); err != nil {
			return err
		}
		j.keepOnly(undecided)
	}
	if over := len(j.maybe) - j.most; over > 0 {
		j.overflow += int64(over)
		for _, o := range j.maybe[j.most:] {
			delete(j.at, o.key.id())
		}
		j.maybe = j.maybe[:j.most]
	}
	return nil
}

// keep adds undecided keys, each once and as it was seen last: a row that changes all the
// time is named on every page of the log.
func (j *judge) keep(undecided []openKey) {
	for _, o := range undecided {
		if at, ok := j.at[o.key.id()]; ok {
			j.maybe[at] = o
			continue
		}
		j.at[o.key.id()] = len(j.maybe)
		j.maybe = append(j.maybe, o)
	}
}

func (j *judge) keepOnly(undecided []openKey) {
	j.maybe = nil
	clear(j.at)
	j.keep(undecided)
}

// finish looks again at what was undecided, with longer and longer pauses. What
// still is at the end stays in maybe: it is unsettled.
func (j *judge) finish(ctx context.Context, rounds int) error {
	pause := j.v.limits.backoff
	for round := 1; round <= rounds && len(j.maybe) > 0; round++ {
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
		pause *= 2
		j.owners = nil // they may have changed hands meanwhile
		undecided, err := j.pass(ctx, keysOf(j.maybe), round == rounds)
		if err != nil {
			return err
		}
		j.keepOnly(undecided)
	}
	return nil
}

// unsettled counts the keys that could not be decided.
func (j *judge) unsettled() int64 { return int64(len(j.maybe)) + j.overflow }

// pass compares keys and confirms what differs; it gives the undecided ones.
func (j *judge) pass(ctx context.Context, keys []key, last bool) (undecided []openKey, err error) {
	if err := j.knowOwners(ctx); err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(keys, j.v.limits.keys) {
		suspects, err := j.compare(ctx, batch, false)
		if err != nil {
			return nil, err
		}
		left, err := j.confirm(ctx, suspects, last)
		if err != nil {
			return nil, err
		}
		undecided = append(undecided, left...)
		j.looked += len(batch)
	}
	return undecided, nil
}

// knowOwners reads who owns what, once. Confirmation asks again, in its snapshot.
func (j *judge) knowOwners(ctx context.Context) (err error) {
	if j.owners == nil {
		j.owners, err = j.v.readOwners(ctx)
	}
	return err
}

// reverse reports whether a database owns this table's rows. Everywhere tables
// belong to the source until the migration is complete.
func (j *judge) reverse(d *server) bool {
	return !j.t.Everywhere() && j.owners[d.Name].Owner == d.Name
}

// suspect is a key that differs on some databases.
type suspect struct {
	key   key
	pairs map[*server]pairing // those that are not clean
	home  bool                // on some database the row is where it should be
}

// compare reads both sides as they are now. Equal rows are equal: that both were
// read a moment apart takes nothing from it. Unequal ones may be about to change.
func (j *judge) compare(ctx context.Context, keys []key, thorough bool) ([]suspect, error) {
	var source [][]row
	there := make([][][]row, len(j.databases))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + j.v.limits.streams)
	g.Go(func() (err error) {
		source, err = j.read(gctx, j.v.source, keys, thorough)
		return err
	})
	for i, d := range j.databases {
		g.Go(func() (err error) {
			there[i], err = j.read(gctx, d, keys, thorough)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var suspects []suspect
	for i, k := range keys {
		s := suspect{key: k, pairs: map[*server]pairing{}}
		for n, d := range j.databases {
			p := j.pair(d, one(source[i]), there[n][i])
			s.home = s.home || p.home
			if !p.clean() {
				s.pairs[d] = p
			}
		}
		if len(s.pairs) > 0 {
			suspects = append(suspects, s)
		}
	}
	return suspects, nil
}

func (j *judge) read(ctx context.Context, s *server, keys []key, thorough bool) (rows [][]row, err error) {
	err = j.v.persist(ctx, s, func() error {
		return s.with(ctx, func(conn *pgxpool.Conn) error {
			rows, err = lookup(ctx, conn, j.b, j.t, j.places[s], keys, thorough)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look up rows of %s on %s: %w", j.t.Name(), s.Name, err)
	}
	return rows, nil
}

func (j *judge) pair(d *server, source *row, there []row) pairing {
	return pair(j.v.cfg.Layout, j.t, d, j.places[d], j.reverse(d), source, there)
}

// one is the only row under a primary key of the source.
func one(rows []row) *row {
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// confirm asks for each suspect on each database where it differs. A key counts
// when it is decided everywhere; in the last round what is decided counts alone.
func (j *judge) confirm(ctx context.Context, suspects []suspect, last bool) (undecided []openKey, err error) {
	decided := make([]map[*server]pairing, len(suspects))
	open := make([][]*server, len(suspects))
	for i := range decided {
		decided[i] = map[*server]pairing{}
	}
	for _, d := range j.databases {
		var keys []key
		var index []int
		for i, s := range suspects {
			if _, ok := s.pairs[d]; ok {
				keys, index = append(keys, s.key), append(index, i)
			}
		}
		verdicts, err := j.confirmOn(ctx, d, keys)
		if err != nil {
			return nil, err
		}
		for n, i := range index {
			if verdicts[n].decided {
				decided[i][d] = verdicts[n].pairing
			} else {
				open[i] = append(open[i], d)
			}
		}
	}
	for i, s := range suspects {
		if len(open[i]) == 0 || last {
			j.report(s.home, slices.Collect(maps.Values(decided[i])))
		}
		if len(open[i]) > 0 {
			if !last {
				open[i] = append(open[i], unclean(decided[i])...)
			}
			undecided = append(undecided, openKey{s.key, open[i]})
		}
	}
	return undecided, nil
}

// unclean are databases on which a key that is not decided everywhere is known to differ: as
// long as that is not reported, it is open there, too.
func unclean(decided map[*server]pairing) (out []*server) {
	for d, p := range decided {
		if !p.clean() {
			out = append(out, d)
		}
	}
	return out
}
