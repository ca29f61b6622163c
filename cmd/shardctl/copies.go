package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// sourceLook bounds how long a command that can do without the source waits for it.
const sourceLook = 10 * time.Second

// copies is what the databases know of a migration whose source cannot be reached.
type copies struct {
	spec     *migrate.Spec
	err      error // why the source cannot be asked
	found    map[string]store.Copy
	captured map[string]bool  // databases that have a reverse log
	silent   map[string]error // databases that did not answer, or have no state
}

// openOrCopies opens a session, or reads the databases' copies where the source cannot
// be reached and they have any; one of the two is not nil.
func (a *app) openOrCopies(ctx context.Context, purpose string) (*session, *copies, error) {
	spec, err := migrate.Load(a.File)
	if err != nil {
		return nil, nil, err
	}
	look, cancel := context.WithTimeout(ctx, sourceLook)
	defer cancel()
	s, err := a.openSpec(look, spec, purpose)
	if err == nil || ctx.Err() != nil || !silent(err) && !refused(err) {
		return s, nil, err
	}
	c := readCopies(ctx, spec, purpose)
	if c.err = err; len(c.found) == 0 {
		return nil, nil, err
	}
	return nil, c, nil
}

// silent reports whether nobody answered at a server's address; refused whether a
// server did, and gave no session.
func silent(err error) bool {
	return connectCode(err) == "connect.failed" || errors.Is(err, context.DeadlineExceeded)
}

func refused(err error) bool { return connectCode(err) == "connect.refused" }

func connectCode(err error) string {
	var f *migrate.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

func readCopies(ctx context.Context, spec *migrate.Spec, purpose string) *copies {
	c := &copies{spec: spec, found: map[string]store.Copy{}, captured: map[string]bool{}, silent: map[string]error{}}
	for _, d := range spec.Databases {
		if err := c.read(ctx, d, purpose); err != nil {
			c.silent[d.Name] = err
		}
	}
	return c
}

func (c *copies) read(ctx context.Context, d migrate.Database, purpose string) error {
	return c.on(ctx, d, purpose, func(ctx context.Context, conn *pgx.Conn) error {
		one, err := store.LoadCopy(ctx, conn, c.spec.Migration)
		if err != nil {
			return err
		}
		if c.captured[d.Name], err = auditlog.Captured(ctx, layout.ByName(c.spec), d.Name, conn); err != nil {
			return err
		}
		c.found[d.Name] = one
		return nil
	})
}

// on runs a short look at a database.
func (c *copies) on(ctx context.Context, d migrate.Database, purpose string, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := postgres.Connect(ctx, postgres.Target{Name: d.Name, DSN: d.DSN}, purpose)
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	return fn(ctx, conn)
}

// owners are the newest that any database knows, in the spec's order.
func (c *copies) owners() []store.Ownership {
	newest := store.Newest(c.found)
	slices.SortStableFunc(newest, func(a, b store.Ownership) int { return c.place(a.Database) - c.place(b.Database) })
	return newest
}

func (c *copies) place(database string) int {
	return slices.IndexFunc(c.spec.Databases, func(d migrate.Database) bool { return d.Name == database })
}

// unknownPhase is what the copies cannot tell: all shards are the source's.
const unknownPhase migrate.Phase = "unknown"

// phase is where the migration stands, as far as the databases know.
func (c *copies) phase() migrate.Phase {
	owners := c.owners()
	moved := 0
	for _, o := range owners {
		if o.Owner != store.OwnerSource {
			moved++
		}
	}
	captured := false
	for _, there := range c.captured {
		captured = captured || there
	}
	switch {
	case moved == 0 && maxEpoch(owners) > 1:
		return migrate.RolledBack
	case moved == 0 || len(owners) < len(c.spec.Databases):
		return unknownPhase
	case moved < len(owners):
		return migrate.PartlyCutOver
	case captured || len(c.silent) > 0:
		return migrate.CutOver
	}
	return migrate.Completed
}

func maxEpoch(owners []store.Ownership) (epoch int64) {
	for _, o := range owners {
		epoch = max(epoch, o.Epoch)
	}
	return epoch
}

// lost reports whether the migration was completed without its source.
func (c *copies) lost() bool {
	for _, one := range c.found {
		if !one.SourceLost {
			return false
		}
	}
	return len(c.silent) == 0
}

// note tells on standard error that an answer is the copies', and who is missing.
func (a *app) note(c *copies) {
	missing := make([]string, 0, len(c.silent))
	for _, d := range c.spec.Databases {
		if c.silent[d.Name] != nil {
			missing = append(missing, d.Name)
		}
	}
	text := "note: the source cannot be asked; this is what the databases' own copies of the state say"
	if len(missing) > 0 {
		text += ", without " + strings.Join(missing, ", ")
	}
	fmt.Fprintf(a.err, "%s (%v)\n", text, c.err)
}
