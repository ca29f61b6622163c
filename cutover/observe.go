package cutover

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/postgres"
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
	owners   []store.Ownership        // the source's word
	controls map[string]store.Control // of the databases that answer
	closed   map[string]bool          // is the database's fence up?
	epoch    int64                    // the highest anywhere
}

// observe reads the standing. A database with a higher epoch than the source
// means that the source went back in time: nothing may go on.
func (w *window) observe(ctx context.Context) (standing, error) {
	s := standing{controls: map[string]store.Control{}, closed: map[string]bool{}}
	var err error
	if s.owners, err = store.LoadOwnership(ctx, w.side, w.cfg.migration()); err != nil {
		return s, err
	}
	if databases := len(w.cfg.Layout.Spec.Databases); len(s.owners) != databases {
		return s, fmt.Errorf("ownership of %s: %d rows for %d databases", w.cfg.migration(), len(s.owners), databases)
	}
	for _, o := range s.owners {
		s.epoch = max(s.epoch, o.Epoch)
	}
	sourceEpoch := s.epoch
	for _, name := range w.cfg.databaseNames() {
		if err := w.look(ctx, name, &s); err != nil {
			return s, migrate.At(name, err)
		}
	}
	w.leftover = nil
	for _, name := range w.others {
		err := w.look(ctx, name, &s)
		if err != nil && !postgres.Transient(err) {
			return s, migrate.At(name, err)
		}
		if err == nil && !s.agrees(name) {
			w.leftover = append(w.leftover, name)
		}
	}
	if s.epoch > sourceEpoch {
		return s, store.SourceBehind(s.epoch, sourceEpoch)
	}
	return s, nil
}

// look reads one database's standing.
func (w *window) look(ctx context.Context, name string, s *standing) error {
	c, err := store.LoadControl(ctx, w.databases[name], w.cfg.migration())
	if err != nil {
		return err
	}
	closed, err := w.tables.closed(ctx, w.databases[name], name)
	if err != nil {
		return err
	}
	s.controls[name], s.closed[name] = c, closed
	s.epoch = max(s.epoch, c.Epoch)
	return nil
}

// owned reports whether the source's word is that every one of some databases owns its
// shards (all), and whether none of them does (none).
func (s standing) owned(databases []string) (all, none bool) {
	all, none = true, true
	for _, o := range s.owners {
		if !slices.Contains(databases, o.Database) {
			continue
		}
		if o.Owner == store.OwnerSource {
			all = false
		} else {
			none = false
		}
	}
	return all, none
}

// settled reports whether every database that answers agrees with the source and its
// fence is as its owner demands.
func (s standing) settled() bool {
	for name := range s.controls {
		if !s.agrees(name) {
			return false
		}
	}
	return true
}

// agrees reports it of one database that was looked at.
func (s standing) agrees(name string) bool {
	c := s.controls[name]
	for _, o := range s.owners {
		if o.Database == name {
			return c.Owner == o.Owner && c.Epoch == o.Epoch && s.closed[name] == (o.Owner == store.OwnerSource)
		}
	}
	return false
}
