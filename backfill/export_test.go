package backfill

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
)

// Control points of a run, for tests: see Signals.

func (c *Config) OnNoted(f func(Chunk))              { c.Signals.Noted = f }
func (c *Config) OnOpened(f func(Chunk))             { c.Signals.Opened = f }
func (c *Config) OnBefore(f func(Chunk, string))     { c.Signals.Before = f }
func (c *Config) OnJudged(f func(Chunk, string))     { c.Signals.Judged = f }
func (c *Config) OnCommitted(f func(Chunk, string))  { c.Signals.Committed = f }
func (c *Config) OnBuilding(f func(database string)) { c.Signals.Building = f }
func (c *Config) SetChunkPages(n int64)              { c.Signals.Pages = n }
func (c *Config) PretendVersion(n int)               { c.Signals.Version = n }

// Growth is what the choice of a mode learns from the source.
func Growth(ctx context.Context, source *pgx.Conn, l *layout.Layout) (s Situation, err error) {
	open := &session{open: func(context.Context) (*pgx.Conn, error) { return source, nil }}
	err = growth(ctx, open, l.Spec.Migration, &s, logs(l))
	return s, err
}

// Pending reports whether the logs hold an entry that a snapshot does not cover.
func Pending(ctx context.Context, source *pgx.Conn, l *layout.Layout, snapshot string) (bool, error) {
	lag, err := lagOf(ctx, source, pendingSQL(logs(l)), store.Position{Snapshot: snapshot}, l.Spec.Migration)
	return lag > 0, err
}
