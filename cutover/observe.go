package cutover

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Direction of a switch.
type Direction string

// The directions.
const (
	Forward Direction = "cutover"
	Back    Direction = "rollback"
)

// standing is where a switch stands, read from ownership and control rows and
// the catalogs: never from a journal.
type standing struct {
	owners   []store.Ownership // the source's word
	controls map[string]store.Control
	closed   map[string]bool // is the database's fence up?
	epoch    int64           // the highest anywhere
}

// observe reads the standing. A database with a higher epoch than the source
// means that the source went back in time: nothing may go on.
func (w *window) observe(ctx context.Context) (standing, error) {
	s := standing{controls: map[string]store.Control{}, closed: map[string]bool{}}
	var err error
	if s.owners, err = store.LoadOwnership(ctx, w.side, w.cfg.migration()); err != nil {
		return s, err
	}
	if len(s.owners) != len(w.cfg.Databases) {
		return s, fmt.Errorf("ownership of %s: %d rows for %d databases", w.cfg.migration(), len(s.owners), len(w.cfg.Databases))
	}
	for _, o := range s.owners {
		s.epoch = max(s.epoch, o.Epoch)
	}
	sourceEpoch := s.epoch
	for _, name := range w.cfg.databaseNames() {
		conn := w.databases[name]
		if s.controls[name], err = store.LoadControl(ctx, conn, w.cfg.migration()); err != nil {
			return s, fmt.Errorf("database %s: %w", name, err)
		}
		if s.closed[name], err = w.tables.closed(ctx, conn, name); err != nil {
			return s, fmt.Errorf("database %s: %w", name, err)
		}
		s.epoch = max(s.epoch, s.controls[name].Epoch)
	}
	if s.epoch > sourceEpoch {
		return s, &migrate.Failure{Code: "epoch.source_behind", Object: "source", Exit: migrate.ExitAmbiguous,
			Message: fmt.Sprintf("a database knows epoch %d, the source only %d: the source went back in time", s.epoch, sourceEpoch),
			Hint:    "do not open the source for writes; find out what it lost, then decide"}
	}
	return s, nil
}

// owned reports whether the source's word is that every database owns its shards
// (all), and whether none does (none).
func (s standing) owned() (all, none bool) {
	all, none = true, true
	for _, o := range s.owners {
		if o.Owner == store.OwnerSource {
			all = false
		} else {
			none = false
		}
	}
	return all, none
}

// settled reports whether every database agrees with the source and its fence is
// as its owner demands.
func (s standing) settled() bool {
	for _, o := range s.owners {
		c := s.controls[o.Database]
		if c.Owner != o.Owner || c.Epoch != o.Epoch || s.closed[o.Database] != (o.Owner == store.OwnerSource) {
			return false
		}
	}
	return true
}
