package restart

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/verify"
)

// defaultWritersWait bounds the wait for transactions that may have written without being
// recorded. Nothing of the application waits meanwhile.
const defaultWritersWait = 30 * time.Second

// Config is what Run needs.
type Config struct {
	Layout    *layout.Layout
	Source    *pgx.Conn
	Databases map[string]*pgx.Conn // of those to start anew; they become an applier's sessions

	// reached is a control point for tests, before each step and after the last; nil in
	// production. An error ends the run there, as a kill would.
	reached     func(step, database string) error
	writersWait time.Duration // for tests. Defaults to 30 s
}

func (c Config) migration() string { return c.Layout.Spec.Migration }

func (c Config) at(step, database string) error {
	if c.reached == nil {
		return nil
	}
	return c.reached(step, database)
}

// Run starts databases anew that Look has judged.
func Run(ctx context.Context, cfg Config, subjects []Subject) error {
	term, err := cfg.takeOver(ctx, subjects)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := cfg.forget(ctx, s.Name); err != nil {
			return err
		}
	}
	start, err := cfg.start(ctx)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := cfg.at("empty", s.Name); err != nil {
			return err
		}
		if err := cfg.empty(ctx, s.Name, term, start); err != nil {
			return fmt.Errorf("start %s anew: %w", s.Name, err)
		}
		if err := cfg.at("end gap", s.Name); err != nil {
			return err
		}
		if err := auditlog.SourceSide(cfg.Layout).EndGap(ctx, cfg.Source, s.Name); err != nil {
			return err
		}
	}
	return cfg.at("done", "")
}

// takeOver draws a term and raises the source's rows to it. A source that went back in
// time would draw one that a database has seen already.
func (c Config) takeOver(ctx context.Context, subjects []Subject) (term int64, err error) {
	if err := c.at("take over", ""); err != nil {
		return 0, err
	}
	var seen int64
	for _, s := range subjects {
		seen = max(seen, s.term)
	}
	if err := store.SkipTerms(ctx, c.Source, seen); err != nil {
		return 0, err
	}
	if term, err = store.NextTerm(ctx, c.Source); err != nil {
		return 0, err
	}
	for _, s := range subjects {
		if err := store.RaiseOwnershipTerm(ctx, c.Source, c.migration(), s.Name, term); err != nil {
			return 0, err
		}
	}
	return term, nil
}

func (c Config) forget(ctx context.Context, name string) error {
	if err := c.at("forget", name); err != nil {
		return err
	}
	if err := verify.InvalidateDatabase(ctx, c.Source, c.migration(), name); err != nil {
		return err
	}
	return backfill.Reopen(ctx, c.Source, c.migration(), name)
}

// start makes the position from which copies begin.
func (c Config) start(ctx context.Context) (store.Position, error) {
	var p store.Position
	if err := c.at("resume", ""); err != nil {
		return p, err
	}
	side := auditlog.SourceSide(c.Layout)
	if _, err := side.ResumeOverGap(ctx, c.Source); err != nil {
		return p, err
	}
	if err := c.at("await writers", ""); err != nil {
		return p, err
	}
	if err := side.AwaitWriters(ctx, c.Source, cmp.Or(c.writersWait, defaultWritersWait)); err != nil {
		return p, err
	}
	if err := c.at("mark", ""); err != nil {
		return p, err
	}
	id, err := postgres.ReadIdentity(ctx, c.Source)
	if err != nil {
		return p, err
	}
	if err := c.Source.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&p.Snapshot); err != nil {
		return p, fmt.Errorf("read the source's snapshot: %w", err)
	}
	m, err := store.WriteMarker(ctx, c.Source, c.migration(), p.Snapshot)
	if err != nil {
		return p, err
	}
	p.SystemIdentifier, p.Timeline, p.Marker, p.Tick, p.LSN = id.SystemIdentifier, id.Timeline, m.ID, m.Tick, m.LSN
	// A replica that is read must have replayed the marker, or it would lack what is
	// neither beyond the position nor in its rows.
	return p, store.SetInstallLSN(ctx, c.Source, c.migration())
}
