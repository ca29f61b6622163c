package backfill

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
)

// Control points of a run, for tests: see signals.

func (c *Config) OnNoted(f func(Chunk))              { c.signals.noted = f }
func (c *Config) OnOpened(f func(Chunk))             { c.signals.opened = f }
func (c *Config) OnBefore(f func(Chunk, string))     { c.signals.before = f }
func (c *Config) OnJudged(f func(Chunk, string))     { c.signals.judged = f }
func (c *Config) OnCommitted(f func(Chunk, string))  { c.signals.committed = f }
func (c *Config) OnBuilding(f func(database string)) { c.signals.building = f }
func (c *Config) SetChunkPages(n int64)              { c.signals.pages = n }
func (c *Config) PretendVersion(n int)               { c.signals.version = n }

// Growth is what the choice of a mode learns from the source.
func Growth(ctx context.Context, source *pgx.Conn, l *layout.Layout) (s Situation, err error) {
	open := &session{open: func(context.Context) (*pgx.Conn, error) { return source, nil }}
	err = growth(ctx, open, l.Spec.Migration, &s, logs(l))
	return s, err
}
