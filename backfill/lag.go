package backfill

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
)

// measure looks at the source, and at how far catch-up of each database is.
func (r *run) measure(ctx context.Context) (hindrance, error) {
	spec := r.cfg.Layout.Spec
	var l load
	err := r.watch.with(ctx, func(conn *pgx.Conn) (err error) {
		l, err = readLoad(ctx, conn, spec.Migration, logs(r.cfg.Layout))
		return err
	})
	if err != nil {
		return hindrance{}, err
	}
	if spec.Throttle.MaxCatchupLag > 0 {
		if err := r.measureLag(ctx, &l); err != nil {
			return hindrance{}, err
		}
	}
	h := hinders(l, spec.Throttle, spec.Capture.LogSoftLimit)
	h.peers = l.processes
	if h.kind == "log" {
		select {
		case r.overfull <- struct{}{}:
		default:
		}
	}
	return h, nil
}

// measureLag finds the database whose catch-up lags most. One whose ticks wait
// does not count, nor one that is out of reach: nothing is copied to it either.
func (r *run) measureLag(ctx context.Context, l *load) error {
	sql := pendingSQL(logs(r.cfg.Layout))
	for name, db := range r.databases {
		var c store.Control
		var p store.Position
		err := db.with(ctx, func(conn *pgx.Conn) (err error) {
			if c, err = store.LoadControl(ctx, conn, r.cfg.migration()); err != nil || c.Held {
				return err
			}
			p, err = store.LoadPosition(ctx, conn, r.cfg.migration(), name, store.Forward)
			return err
		})
		if err != nil {
			if err := r.outages.note(name, err); err != nil {
				return err
			}
			continue
		}
		if c.Held {
			continue
		}
		err = r.watch.with(ctx, func(conn *pgx.Conn) error {
			lag, err := lagOf(ctx, conn, sql, p, r.cfg.migration())
			if lag > l.catchupLag {
				l.catchupLag, l.catchupName = lag, name
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
