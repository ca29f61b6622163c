package auditlog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/internal/store"
)

// reversePlaces is how many places one query reads: a schema per shard must not
// cost a round trip each, nor one query the plan of hundreds of tables.
const reversePlaces = 64

// batch is one tick back.
type batch struct {
	v       *reverser
	retried []parked // a retry: these keys alone; nil is what the log has
	at      time.Time

	look      survey
	census    census
	window    window
	entries   entries
	truncated map[int]map[int]bool // by table number and location
	next      store.Position
	reached   snapshot
	in        *intake
	found     map[*staged]int64 // rows that are there
}

func (b *batch) retry() bool { return b.retried != nil }

// run reads the batch on the database and applies it to the source.
func (b *batch) run(ctx context.Context, tick *Tick) error {
	v := b.v
	if b.retry() {
		for _, k := range b.retried {
			t := v.db.a.plan.tables[k.table-1]
			for _, at := range v.db.a.plan.spots(t, v.db.place) {
				v.add(k.table, at.loc)
			}
		}
	}
	tx, now, err := v.read.open(ctx, v.readable())
	if err != nil {
		return err
	}
	b.at = now.at
	err = b.readAll(ctx, tx, now)
	v.read.end(ctx, tx)
	v.read.pace(time.Since(now.at))
	if b.in == nil {
		return err
	}
	defer b.in.abandon(ctx)
	if err == nil {
		err = b.in.err
	}
	if err != nil {
		return err
	}
	r := &restitution{b: b, tick: *tick}
	if err := r.apply(ctx); err != nil {
		return err
	}
	*tick = r.tick
	tick.At, tick.Took, tick.Number = b.at, time.Since(b.at), b.next.Tick
	if !b.retry() {
		tick.Entries, tick.Cut = b.census.entries, b.window.below > 0
		v.pos, v.after = b.next, b.reached
		v.db.committed.set(store.Reverse, v.pos)
		v.proof.see(b.census)
	}
	return nil
}

// readAll reads all tables of the batch in the tick's snapshot and stages them.
func (b *batch) readAll(ctx context.Context, tx pgx.Tx, now present) error {
	v := b.v
	a := v.db.a
	if err := checkLog(ctx, tx, a.migration(), v.db.name(), store.Reverse, v.pos, v.read.id); err != nil {
		return err
	}
	if err := b.measure(ctx, tx, now); err != nil {
		return err
	}
	conn, err := v.read.mark.get(ctx)
	if err != nil {
		return err
	}
	m, err := store.WriteMarker(ctx, conn, a.migration(), b.reached.String())
	if err != nil {
		return err
	}
	b.next = store.Position{SystemIdentifier: v.read.id.SystemIdentifier, Timeline: v.read.id.Timeline, Marker: m.ID, Snapshot: m.Snapshot, Tick: m.Tick, LSN: m.LSN}
	b.in, b.found = newIntake(ctx, &v.write, len(a.plan.home), alone), map[*staged]int64{}
	tables := slices.DeleteFunc(slices.Clone(v.read.survey.tables), func(t *tablePlan) bool {
		return !b.look.tables[t.No] && len(b.entries.extra[t.No]) == 0
	})
	// The first row begins the transaction; a staging table made in it would go with it.
	for _, t := range tables {
		if _, err := v.stage(ctx, t, b.textual()); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if err := b.readTable(ctx, tx, t); err != nil {
			return err
		}
	}
	return nil
}

// textual reports whether values are staged as text.
func (b *batch) textual() bool { return b.v.textual || b.retry() }

// measure decides what the batch is, and makes sure that all it names is locked.
func (b *batch) measure(ctx context.Context, tx pgx.Tx, now present) (err error) {
	v := b.v
	b.reached = v.after
	if b.retry() {
		b.entries = entries{condition: none, extra: byTable(b.retried)}
		return nil
	}
	survey := v.read.survey
	if b.look, err = survey.look(ctx, tx, v.after, v.read.limit); err != nil {
		return err
	}
	b.window = window{after: v.after, below: b.look.cut}
	if b.window.below > 0 {
		if b.window.below, err = survey.pastTruncates(ctx, tx, v.after, now.now, b.window.below); err != nil {
			return err
		}
	}
	b.entries = entries{condition: b.window.condition()}
	if b.census, err = survey.count(ctx, tx, v.db.a.plan, b.look, b.entries.condition); err != nil {
		return err
	}
	more, err := v.touch(ctx, tx, b.look, b.entries.condition)
	if err != nil {
		return err
	}
	if more {
		return &untouchedError{}
	}
	b.reached = now.now
	if b.window.below > 0 {
		b.reached = v.after.cutAt(now.now, b.window.below)
	}
	b.truncated = map[int]map[int]bool{}
	for _, tr := range b.census.truncates {
		for _, at := range v.db.a.plan.spots(v.db.a.plan.tables[tr.table-1], v.db.place) {
			if at.name == tr.loc {
				if b.truncated[tr.table] == nil {
					b.truncated[tr.table] = map[int]bool{}
				}
				b.truncated[tr.table][at.loc] = true
			}
		}
	}
	return nil
}

// readTable streams one table to the source.
func (b *batch) readTable(ctx context.Context, tx pgx.Tx, t *tablePlan) error {
	v := b.v
	s, err := v.stage(ctx, t, b.textual())
	if err != nil {
		return err
	}
	st := b.in.of(s)
	st.twice = len(b.truncated[t.No]) > 0
	take := func(tuple rowstream.Tuple) error {
		old, err := location(tuple, 0)
		if err != nil {
			return err
		}
		cur, err := location(tuple, 1)
		if err != nil {
			return err
		}
		if cur >= 0 {
			st.upserts[cur] = true
			b.found[st]++
		} else {
			st.deletes[old] = true
		}
		b.in.put(s, tuple)
		return nil
	}
	all := v.db.a.plan.spots(t, v.db.place)
	for part := range slices.Chunk(v.places(t), reversePlaces) {
		sql := v.db.a.plan.reverseSQL(t, b.entries, all, part, b.truncated[t.No])
		split := rowstream.NewSplitter(s.format, take)
		if _, err := tx.Conn().PgConn().CopyTo(ctx, split, fmt.Sprintf("COPY (%s) TO STDOUT (FORMAT %s)", sql, s.format)); err != nil {
			return fmt.Errorf("read %s on %s: %w", t.Name(), v.db.name(), err)
		}
		if err := split.Close(); err != nil {
			return fmt.Errorf("read %s on %s: %w", t.Name(), v.db.name(), err)
		}
	}
	b.in.endTable()
	return nil
}
