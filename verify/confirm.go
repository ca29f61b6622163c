package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// confirmBatch is how many keys are confirmed in one pair of snapshots, so that
// these stay short.
const confirmBatch = 100

// verdict is what confirmation says of one key on one database.
type verdict struct {
	pairing
	decided bool // else an entry that is not applied yet may explain it
}

// errMoved says that ownership changed hands meanwhile: nothing can be told now.
var errMoved = errors.New("ownership changed hands")

// confirmOn decides keys on one database. Looking twice decides nothing: a row that
// changes all the time differs at every look. What does decide is the position. In
// one snapshot of the side that is brought up to date stand its rows and the
// position P that they were brought to; then, in a snapshot S of the other side,
// which is later than P, its rows and its log. A key without an entry in S beyond
// P had at P the row that it has in S, so that a difference is one. The same holds
// for the parents, from which a derived key comes.
func (j *judge) confirmOn(ctx context.Context, d *server, keys []key) ([]verdict, error) {
	out := make([]verdict, 0, len(keys))
	for len(keys) > 0 {
		n := min(confirmBatch, len(keys))
		verdicts, err := j.confirmSome(ctx, d, keys[:n])
		if errors.Is(err, errMoved) || postgres.SQLState(err) == "55P03" {
			verdicts, err = make([]verdict, n), nil
		}
		if err != nil {
			return nil, fmt.Errorf("confirm differences of %s on %s: %w", j.t.Name(), d.Name, err)
		}
		out, keys = append(out, verdicts...), keys[n:]
	}
	return out, nil
}

func (j *judge) confirmSome(ctx context.Context, d *server, keys []key) ([]verdict, error) {
	reverse := j.reverse(d)
	follower, leader := d, j.v.source
	if reverse {
		follower, leader = leader, follower
	}
	var position string
	var behind, ahead [][]row
	var hit []bool
	err := j.v.persist(ctx, follower, func() error {
		return follower.frozen(ctx, j.locked(follower, false), func(tx pgx.Tx) (err error) {
			if position, err = j.position(ctx, tx, d, reverse); err != nil {
				return err
			}
			behind, err = lookup(ctx, tx, j.b, j.t, j.places[follower], keys, true)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	err = j.v.persist(ctx, leader, func() error {
		return leader.frozen(ctx, j.locked(leader, true), func(tx pgx.Tx) (err error) {
			if ahead, err = lookup(ctx, tx, j.b, j.t, j.places[leader], keys, true); err != nil {
				return err
			}
			if hit, err = touched(ctx, tx, j.b, j.t, position, keys); err != nil {
				return err
			}
			return parentTouched(ctx, tx, j.b, j.t, position, ahead, hit)
		})
	})
	if err != nil {
		return nil, err
	}
	source, there := ahead, behind
	if reverse {
		source, there = there, source
	}
	out := make([]verdict, len(keys))
	for i := range keys {
		p := j.pair(d, one(source[i]), there[i])
		out[i] = verdict{pairing: p, decided: p.clean() || !hit[i]}
	}
	return out, nil
}

// position reads, in the snapshot of the side that is brought up to date, how far
// it has been brought, and that it still is that side.
func (j *judge) position(ctx context.Context, tx pgx.Tx, d *server, reverse bool) (string, error) {
	direction, want := store.Forward, store.OwnerSource
	if reverse {
		direction, want = store.Reverse, d.Name
	}
	if !j.t.Everywhere() {
		owner, err := ownerIn(ctx, tx, j.v.migration(), d.Name, reverse)
		if err != nil {
			return "", err
		}
		if owner != want {
			return "", errMoved
		}
	}
	p, err := store.LoadPosition(ctx, tx, j.v.migration(), d.Name, direction)
	return p.Snapshot, err
}

// ownerIn reads the owner as the side that follows knows it.
func ownerIn(ctx context.Context, tx pgx.Tx, migration, database string, reverse bool) (string, error) {
	if !reverse {
		c, err := store.LoadControl(ctx, tx, migration)
		return c.Owner, err
	}
	owners, err := store.LoadOwnership(ctx, tx, migration)
	for _, o := range owners {
		if o.Database == database {
			return o.Owner, err
		}
	}
	return "", err
}

// locked are the tables that a snapshot of a server will read.
func (j *judge) locked(s *server, logs bool) []string {
	var tables []string
	chain := append([]*layout.Table{j.t}, j.t.Chain()...)
	if s == j.v.source {
		for _, t := range chain {
			tables = append(tables, t.QualifiedSource())
		}
	} else {
		tables = targetTables(j.v, j.t, j.places[s])
	}
	if logs {
		for _, t := range chain {
			for segment := range logschema.Segments {
				tables = append(tables, j.b.log(t, segment))
			}
		}
	}
	return tables
}

// frozen runs fn in one snapshot, taken after the tables are locked.
func (s *server) frozen(ctx context.Context, locked []string, fn func(pgx.Tx) error) error {
	return s.with(ctx, func(conn *pgxpool.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			// Logs are never analyzed: without this the planner would read all of them.
			if err := lockTables(ctx, tx, locked, "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
			return fn(tx)
		})
	})
}
