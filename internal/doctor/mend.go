package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

// lockWait bounds the wait for the lock in which a fence is raised, as install's.
const lockWait = 30 * time.Second

// Mend is one thing that can be set right safely.
type Mend struct {
	ID      string `json:"id"` // of the check
	Object  string `json:"object"`
	Summary string `json:"summary"` // what will be done

	apply func(context.Context) error
	stale bool // writes may have been missed: verification counts no more
}

// Mends lists what can be mended of what was found, in the order in which it has to
// be: the fences of a source that went back in time come first.
func (e *Exam) Mends() []Mend {
	var out []Mend
	if m, needed := e.mendSource(); needed {
		out = append(out, m)
	}
	for _, c := range e.Checks {
		if c.State != Broken {
			continue
		}
		switch c.ID {
		case "fence.database":
			if e.owner(c.Object) == store.OwnerSource {
				out = append(out, e.raise(c, "close its sharded tables again", fence.DatabaseTables(e.layout, c.Object), logschema.ClosedTrigger(e.name()), store.OwnerSource))
			}
		case "fence.everywhere":
			out = append(out, e.raise(c, "close its everywhere tables again", fence.EverywhereTables(e.layout, c.Object), logschema.ClosedTrigger(e.name()), ""))
		case "fence.guard":
			out = append(out, e.raise(c, "put the placement guards on again", fence.DatabaseTables(e.layout, c.Object), logschema.GuardTrigger(e.name()), c.Object))
		case "capture.stopped":
			if m, possible := e.resume(c); possible {
				out = append(out, m)
			}
		}
	}
	return out
}

// Apply does a mend. Where it may be that writes were missed, verification is made
// stale before.
func (e *Exam) Apply(ctx context.Context, m Mend) error {
	if m.stale {
		if err := verify.Invalidate(ctx, e.cfg.Source, e.name()); err != nil {
			return err
		}
	}
	return m.apply(ctx)
}

// raise makes a trigger of a database fire again, if the owner is still the one that
// it was found with; "" is any.
func (e *Exam) raise(c Check, what string, tables []string, trigger, owner string) Mend {
	database := c.Object
	return Mend{ID: c.ID, Object: database, Summary: what, stale: true, apply: func(ctx context.Context) error {
		return postgres.WithTx(ctx, e.cfg.Databases[database], pgx.TxOptions{}, func(tx pgx.Tx) error {
			if err := postgres.PreLock(ctx, tx, tables); err != nil {
				return err
			}
			control, err := store.ChangeControl(ctx, tx, e.name())
			if err != nil {
				return err
			}
			if owner != "" && control.Owner != owner {
				return migrate.Refuse("doctor.moved", database, "its shards changed hands meanwhile", "run shardctl doctor again")
			}
			if err := postgres.UpgradeLock(ctx, tx, "SHARE ROW EXCLUSIVE", tables, time.Now().Add(lockWait)); err != nil {
				return err
			}
			return fence.Raise(ctx, tx, tables, trigger)
		})
	}}
}

// resume lets capture go on that was stopped, where no gap of its log stands.
func (e *Exam) resume(c Check) (Mend, bool) {
	side, conn := auditlog.SourceSide(e.layout), e.cfg.Source
	if c.Object != side.Name() {
		side, conn = auditlog.DatabaseSide(e.layout, c.Object), e.cfg.Databases[c.Object]
	}
	blocked := slices.ContainsFunc(e.Of("gap", Broken), func(g Check) bool {
		return strings.HasSuffix(g.Object, " "+string(side.Direction())) && (c.Object == store.PlaceSource || strings.HasPrefix(g.Object, c.Object+" "))
	})
	return Mend{ID: c.ID, Object: c.Object, Summary: "record writes again", stale: true,
		apply: func(ctx context.Context) error { return side.Resume(ctx, conn) }}, !blocked
}

// Agree plans the agreed loss of a quarantined key, given as TABLE:KEY, where KEY is
// its one value, or a JSON array of its values as texts.
func (e *Exam) Agree(ctx context.Context, given string) ([]Mend, error) {
	if e.layout == nil {
		return nil, migrate.Refuse("doctor.layout", given, "the tables are not as the spec says", "mend that first")
	}
	var out []Mend
	add := func(side string, conn *pgx.Conn) error {
		keys, err := auditlog.Quarantine(ctx, conn, e.layout, 1_000_000)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if !names(given, k) {
				continue
			}
			out = append(out, Mend{ID: "quarantine", Object: k.Table + ":" + k.Key,
				Summary: fmt.Sprintf("give up the write of this key to %s as an agreed loss: %s", side, k.Reason),
				apply: func(ctx context.Context) error {
					_, err := auditlog.GiveUp(ctx, conn, e.layout, k)
					return err
				}})
		}
		return nil
	}
	if err := add("the source", e.cfg.Source); err != nil {
		return nil, err
	}
	if err := e.each(add); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, migrate.Usage("doctor.no_such_key", given, "no such key is in quarantine", "give TABLE:KEY as shardctl doctor lists it")
	}
	return out, nil
}

// names reports whether TABLE:KEY means a key in quarantine.
func names(given string, k auditlog.Parked) bool {
	key, ok := strings.CutPrefix(given, k.Table+":")
	if !ok {
		return false
	}
	var want, have []string
	if json.Unmarshal([]byte(key), &want) != nil {
		want = []string{key}
	}
	return json.Unmarshal([]byte(k.Key), &have) == nil && slices.Equal(want, have)
}
