package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// keepSequences is the spec's word for "each database goes on from the source's value".
const keepSequences = "keep"

// laneOf gives a database's lane: its place in the spec, from 1. Lane 0 is the source's,
// for the time in which it owns some of the shards.
func laneOf(spec *migrate.Spec, name string) lane {
	place := slices.IndexFunc(spec.Databases, func(d migrate.Database) bool { return d.Name == name })
	return lane{no: int64(place + 1), of: int64(len(spec.Databases) + 1)}
}

func (w *window) lane(name string) lane { return laneOf(w.cfg.Layout.Spec, name) }

// laned reports whether writers draw from lanes at all.
func (w *window) laned() bool {
	return w.cfg.Layout.Spec.Sequences != keepSequences && len(w.cfg.Layout.Spec.Databases) > 1
}

func (w *window) sourceSequences(ctx context.Context) ([]sequence, error) {
	return shardedSequences(ctx, w.side, w.cfg.Layout)
}

// shardedSequences are the source's sequences that get lanes.
func shardedSequences(ctx context.Context, source postgres.Querier, l *layout.Layout) ([]sequence, error) {
	sequences, err := loadSequences(ctx, source, newTables(l).sourceOIDs())
	if err != nil {
		return nil, err
	}
	return sequences, ownIncrements(ctx, source, l.Spec, sequences)
}

// setLanes gives every sequence of the switch's databases its lane's increment. It is
// done before the window and while the database is closed: nobody draws from them.
// Where the source goes on beside databases, it gets its lane first.
func (w *window) setLanes(ctx context.Context) error {
	if !w.laned() {
		return nil
	}
	sequences, err := w.sourceSequences(ctx)
	if err != nil {
		return err
	}
	if err := w.roomInLanes(ctx, sequences); err != nil {
		return err
	}
	if err := w.setLiveLanes(ctx, sequences); err != nil || w.command == Back { // theirs were set on the way forward
		return err
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		for _, s := range sequences {
			t := w.tables.targetSequence(s)
			batch.Queue(fmt.Sprintf("ALTER SEQUENCE %s INCREMENT BY %d", postgres.Table(t.Schema, t.Name), s.step(w.lane(name))))
		}
		return sendBatch(ctx, conn, batch, "set sequence lanes")
	})
}

// setLiveLanes puts into their lanes those that draw meanwhile: the source, and databases
// that the switch does not move. Each begins past what any of them has drawn.
func (w *window) setLiveLanes(ctx context.Context, sequences []sequence) error {
	owning, err := w.owning(ctx)
	if err != nil {
		return err
	}
	drawn, err := w.drawn(ctx, slices.Concat(w.cfg.databaseNames(), owning), sequences)
	if err != nil {
		return err
	}
	connections, err := maxConnections(ctx, w.side)
	if err != nil {
		return err
	}
	if err := w.laneSource(ctx, sequences, drawn, connections); err != nil {
		return err
	}
	return w.laneOthers(ctx, drawn, connections)
}

// roomInLanes refuses lanes that would begin outside their sequence's bounds: in the
// window it would be found too late. The source's lane, where it needs one, comes first:
// it is refused before the source's step is changed.
func (w *window) roomInLanes(ctx context.Context, sequences []sequence) error {
	if w.command == Back {
		return nil // no lane is begun; where the source needs one, it is tried before it is kept
	}
	connections, err := maxConnections(ctx, w.side)
	if err != nil {
		return err
	}
	partly, err := w.partly(ctx)
	if err != nil {
		return err
	}
	own := laneOf(w.cfg.Layout.Spec, store.OwnerSource)
	for _, s := range sequences {
		if partly && !s.inLane(own) {
			if s.Last, err = s.laneStart(own, connections); err != nil {
				return err
			}
		}
		for _, name := range w.cfg.databaseNames() {
			if _, err := s.laneStart(w.lane(name), connections); err != nil {
				return err
			}
		}
	}
	return nil
}

// LaneRoom refuses sequences of the source that have too few values left for lanes: a
// failure for each.
func LaneRoom(ctx context.Context, l *layout.Layout, source postgres.Querier) error {
	sequences, err := shardedSequences(ctx, source, l)
	if err != nil {
		return err
	}
	connections, err := maxConnections(ctx, source)
	if err != nil {
		return err
	}
	var full migrate.Failures
	for _, s := range sequences {
		for _, d := range l.Spec.Databases {
			var f *migrate.Failure
			if _, err := s.laneStart(laneOf(l.Spec, d.Name), connections); errors.As(err, &f) {
				full = append(full, f)
				break
			}
		}
	}
	if len(full) > 0 {
		return full
	}
	return nil
}

// sequencesForward moves every database's sequences past the source's values.
// They are never lowered, so that a lane goes on where it was after a rollback.
func (w *window) sequencesForward(ctx context.Context) error {
	sequences, err := w.sourceSequences(ctx)
	if err != nil || len(sequences) == 0 {
		return err
	}
	connections, err := maxConnections(ctx, w.side)
	if err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		theirs := w.targets(sequences)
		if err := readValues(ctx, conn, theirs); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		for i, s := range sequences {
			value, called := s.Last, s.Called
			if w.laned() {
				if s.past(theirs[i].Last, s.Last) && !w.lane(name).holds(theirs[i].Last, s.Increment) {
					s.Last = theirs[i].Last // it drew in another lane's place, under another step
				}
				start, err := s.laneStart(w.lane(name), connections)
				if err != nil {
					return err
				}
				value, called = start, false
			}
			queueSetval(batch, theirs[i], value, called)
		}
		return sendBatch(ctx, conn, batch, "set sequences")
	})
}

// sequencesBack moves the source's sequences past what every database has drawn.
func (w *window) sequencesBack(ctx context.Context) error {
	sequences, err := w.sourceSequences(ctx)
	if err != nil || len(sequences) == 0 {
		return err
	}
	highest, err := w.drawn(ctx, w.cfg.databaseNames(), sequences)
	if err != nil {
		return err
	}
	connections, err := maxConnections(ctx, w.side)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for i, s := range sequences {
		if highest[i].Last == s.Last {
			continue
		}
		value, called, ok := highest[i].Last, highest[i].Called, true
		if own := laneOf(w.cfg.Layout.Spec, store.OwnerSource); s.Step == s.step(own) {
			// The source may draw meanwhile: past the margin its own values are not met.
			value, ok = s.start(own, value, connections)
			called = false
		}
		if !ok || value > s.Max || value < s.Min {
			return migrate.Refuse("sequence.exhausted", s.Schema+"."+s.Name, fmt.Sprintf("a database has drawn %d, from where the source cannot go on within its bounds", highest[i].Last), "widen the sequence on the source")
		}
		queueSetval(batch, s, value, called)
	}
	return sendBatch(ctx, w.side, batch, "set the source's sequences")
}

// drawn gives the source's sequences as they would stand if what the databases have drawn
// were drawn from them.
func (w *window) drawn(ctx context.Context, databases []string, sequences []sequence) ([]sequence, error) {
	out := slices.Clone(sequences)
	for _, name := range databases {
		theirs := w.targets(sequences)
		if err := readValues(ctx, w.databases[name], theirs); err != nil {
			return nil, fmt.Errorf("database %s: %w", name, err)
		}
		for i, t := range theirs {
			if out[i].past(t.Last, out[i].Last) {
				out[i].Last, out[i].Called = t.Last, true
			}
		}
	}
	return out, nil
}

// targets are the databases' sequences that stand for the source's, values unread.
func (w *window) targets(sequences []sequence) []sequence {
	out := make([]sequence, len(sequences))
	for i, s := range sequences {
		out[i] = w.tables.targetSequence(s)
	}
	return out
}

// queueSetval sets a sequence if that moves it on.
func queueSetval(batch *pgx.Batch, now sequence, value int64, called bool) {
	if now.past(now.Last, value) || (now.Last == value && (now.Called || !called)) {
		return
	}
	batch.Queue("SELECT setval($1::text::regclass, $2, $3)", postgres.Table(now.Schema, now.Name), value, called)
}

func maxConnections(ctx context.Context, q postgres.Querier) (n int64, err error) {
	if err = q.QueryRow(ctx, "SELECT current_setting('max_connections')::bigint").Scan(&n); err != nil {
		return 0, fmt.Errorf("read max_connections: %w", err)
	}
	return n, nil
}
