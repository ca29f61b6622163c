package cutover

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// keepSequences is the spec's word for "each database goes on from the source's value".
const keepSequences = "keep"

// lane of a database: its place in the spec, from 1. Lane 0 is the source's, kept
// free for the time in which it still owns some shards.
func (w *window) lane(name string) lane {
	for i, d := range w.cfg.Databases {
		if d.Name == name {
			return lane{no: int64(i + 1), of: int64(len(w.cfg.Databases) + 1)}
		}
	}
	panic("cutover: lane of unknown database " + name)
}

func (w *window) sourceSequences(ctx context.Context) ([]sequence, error) {
	return loadSequences(ctx, w.side, w.tables.sourceOIDs())
}

// setLanes gives every sequence of every database its lane's increment. It is done
// before the window and while the database is closed: nobody draws from them.
func (w *window) setLanes(ctx context.Context) error {
	if w.cfg.Layout.Spec.Sequences == keepSequences || len(w.cfg.Databases) == 1 {
		return nil
	}
	sequences, err := w.sourceSequences(ctx)
	if err != nil {
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
			if w.cfg.Layout.Spec.Sequences != keepSequences && len(w.cfg.Databases) > 1 {
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
	highest := make([]sequence, len(sequences))
	copy(highest, sequences)
	for _, name := range w.cfg.databaseNames() {
		theirs := w.targets(sequences)
		if err := readValues(ctx, w.databases[name], theirs); err != nil {
			return fmt.Errorf("database %s: %w", name, err)
		}
		for i, t := range theirs {
			if sequences[i].past(t.Last, highest[i].Last) {
				highest[i].Last, highest[i].Called = t.Last, true
			}
		}
	}
	batch := &pgx.Batch{}
	for i, s := range sequences {
		if highest[i].Last > s.Max || highest[i].Last < s.Min {
			return migrate.Refuse("sequence.exhausted", s.Schema+"."+s.Name, fmt.Sprintf("a database has drawn %d, outside the source's bounds", highest[i].Last), "widen the sequence on the source")
		}
		queueSetval(batch, s, highest[i].Last, highest[i].Called)
	}
	return sendBatch(ctx, w.side, batch, "set the source's sequences")
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
