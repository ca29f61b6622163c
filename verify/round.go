package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/store"
)

// A chain of rounds compares each key that was written since it began, soon after
// it was applied. A round ends at a position of the database, which is durable;
// the next begins there. A pass that began within the chain stays true for as
// long as the chain does not break.

// link is one database's log in one direction, and how far it was compared.
type link struct {
	database  *server
	direction store.Direction
	holder    *server // of the position: the side that is brought up to date
	log       *server // whose log it is
	tables    []*layout.Table
	from      store.Position // the end of the last round; only Snapshot and SystemIdentifier
	to        store.Position // how far the database was brought by now
	begun     bool           // there was a chain
	first     bool           // which begins with its log and is not on record yet
	due       bool           // a round that ends tells so, also if there was nothing to compare
}

// links lists what is to be compared for some databases: forward what the source
// owns, in reverse what a database owns; and who owns what.
func (v *Verifier) links(ctx context.Context, databases []*server) ([]*link, map[string]store.Ownership, error) {
	owners, err := v.readOwners(ctx)
	if err != nil {
		return nil, nil, err
	}
	rounds, err := v.readRounds(ctx)
	if err != nil {
		return nil, nil, err
	}
	var out []*link
	for _, d := range databases {
		forward := &link{database: d, direction: store.Forward, holder: d, log: v.source}
		reverse := &link{database: d, direction: store.Reverse, holder: v.source, log: d}
		for _, t := range v.cfg.Layout.Tables {
			switch moved := owners[d.Name].Owner == d.Name && !t.Everywhere(); {
			case moved && t.Returns():
				reverse.tables = append(reverse.tables, t)
			case !moved:
				forward.tables = append(forward.tables, t)
			}
		}
		// A forward link without tables still moves on, lest it keep the log for nothing.
		out = append(out, forward)
		if len(reverse.tables) > 0 {
			out = append(out, reverse)
		}
	}
	for _, l := range out {
		slices.SortStableFunc(l.tables, func(a, b *layout.Table) int { return len(a.Chain()) - len(b.Chain()) }) // parents first
		c, begun := rounds[roundOf{l.database.Name, l.direction}]
		l.from, l.begun, l.due = c.end, begun, c.due
	}
	return out, owners, nil
}

func (v *Verifier) readOwners(ctx context.Context) (map[string]store.Ownership, error) {
	owners := map[string]store.Ownership{}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		all, err := store.LoadOwnership(ctx, conn, v.migration())
		for _, o := range all {
			owners[o.Database] = o
		}
		return err
	})
	return owners, err
}

// roundOf names a chain.
type roundOf struct {
	database  string
	direction store.Direction
}

// chain is where one stands.
type chain struct {
	end store.Position // of its last round
	due bool           // it is held, or its last sign of life is old
}

func (v *Verifier) readRounds(ctx context.Context) (map[roundOf]chain, error) {
	out := map[roundOf]chain{}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		const sql = `SELECT database, direction, snapshot::text, system_identifier, held IS NOT NULL OR at < clock_timestamp() - $2::interval
		FROM shardctl.verify_round WHERE migration = $1`
		rows, err := conn.Query(ctx, sql, v.migration(), levelEvery)
		if err != nil {
			return err
		}
		var of roundOf
		var c chain
		_, err = pgx.ForEachRow(rows, []any{&of.database, &of.direction, &c.end.Snapshot, &c.end.SystemIdentifier, &c.due}, func() error {
			out[of] = c
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the last rounds: %w", err)
	}
	return out, nil
}

// ready reads how far a link's database was brought, and says why the link cannot be
// compared; "" if it can.
func (v *Verifier) ready(ctx context.Context, l *link) (reason string, err error) {
	if l.to, err = v.loadPosition(ctx, l.holder, l.database.Name, l.direction); err != nil {
		return "", err
	}
	if !l.begun && l.direction == store.Reverse {
		// A reverse log begins empty with the switch before which all was compared, so that
		// its chain begins with it.
		l.from, l.begun, l.first = store.Position{Snapshot: store.FirstSnapshot, SystemIdentifier: l.to.SystemIdentifier}, true, true
	}
	if !l.begun {
		return noRounds, nil
	}
	return v.broken(ctx, l)
}

// begin starts a chain at the present position, in the place of one that broke.
func (v *Verifier) begin(ctx context.Context, l *link) error {
	const sql = `INSERT INTO shardctl.verify_round (migration, database, direction, system_identifier, snapshot) VALUES ($1, $2, $3, $4, $5::text::pg_snapshot)
	ON CONFLICT (migration, database, direction) DO UPDATE SET system_identifier = excluded.system_identifier, snapshot = excluded.snapshot,
	since = clock_timestamp(), at = clock_timestamp(), held = NULL`
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, sql, v.migration(), l.database.Name, l.direction, l.to.SystemIdentifier, l.to.Snapshot)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin the rounds of %s: %w", l.database.Name, err)
	}
	return nil
}

// beginChains starts the chains that lack or broke, so that a pass begins within all
// of them.
func (v *Verifier) beginChains(ctx context.Context) error {
	if err := v.ensureState(ctx); err != nil {
		return err
	}
	links, _, err := v.links(ctx, v.databases)
	if err != nil {
		return err
	}
	for _, l := range links {
		if reason, err := v.ready(ctx, l); err != nil {
			return err
		} else if reason != "" {
			if err := v.begin(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends a chain that broke: passes that began before no longer count. A new one
// begins with the next full pass; in reverse, where none is demanded, at once.
func (v *Verifier) end(ctx context.Context, l *link) error {
	if l.direction == store.Reverse {
		return v.begin(ctx, l)
	}
	const sql = `DELETE FROM shardctl.verify_round WHERE migration = $1 AND database = $2 AND direction = $3`
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, sql, v.migration(), l.database.Name, l.direction)
		return err
	})
	if err != nil {
		return fmt.Errorf("end the rounds of %s: %w", l.database.Name, err)
	}
	return nil
}

// enter records a chain that begins with its log, so that the log is kept from now on.
func (v *Verifier) enter(ctx context.Context, l *link) error {
	if !l.first {
		return nil
	}
	const sql = `INSERT INTO shardctl.verify_round (migration, database, direction, system_identifier, snapshot, since)
	VALUES ($1, $2, $3, $4, $5::text::pg_snapshot, '-infinity') ON CONFLICT DO NOTHING`
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, sql, v.migration(), l.database.Name, l.direction, l.from.SystemIdentifier, l.from.Snapshot)
		return err
	})
	if err != nil {
		return fmt.Errorf("record the rounds of %s: %w", l.database.Name, err)
	}
	return nil
}

// advance ends a round. A round that another process ended meanwhile stays: then
// some keys are looked at twice. A chain that was ended meanwhile stays ended.
func (v *Verifier) advance(ctx context.Context, tx pgx.Tx, l *link) error {
	const move = `UPDATE shardctl.verify_round SET snapshot = $5::text::pg_snapshot, at = clock_timestamp(), held = NULL
	WHERE migration = $1 AND database = $2 AND direction = $3 AND snapshot::text = $4`
	if _, err := tx.Exec(ctx, move, v.migration(), l.database.Name, l.direction, l.from.Snapshot, l.to.Snapshot); err != nil {
		return fmt.Errorf("end a round of %s: %w", l.database.Name, err)
	}
	return nil
}

// broken says why a link's log no longer has all that was written since the last
// round; "" if it has.
func (v *Verifier) broken(ctx context.Context, l *link) (string, error) {
	if l.from.SystemIdentifier != l.to.SystemIdentifier {
		return "the log is another server's", nil
	}
	// A database that was prepared anew begins with the first position again.
	const sql = "SELECT pg_snapshot_xmax($4::text::pg_snapshot) < pg_snapshot_xmax($3::text::pg_snapshot), " + rotated
	var back, lost bool
	err := l.log.with(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, sql, v.migration(), numbers(l.tables), l.from.Snapshot, l.to.Snapshot).Scan(&back, &lost)
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for what the log of %s has lost: %w", l.log.Name, err)
	case back:
		return "the database was prepared anew", nil
	case lost:
		return wasRotated, nil
	}
	return "", nil
}

// busy picks the tables of which the log has entries beyond a snapshot. Lost says that
// entries may have been taken away before.
func (v *Verifier) busy(ctx context.Context, s *server, b builder, tables []*layout.Table, from string) (out []*layout.Table, lost bool, err error) {
	err = v.persist(ctx, s, func() error {
		out = nil
		batch := &pgx.Batch{}
		batch.Queue(b.busy(tables, running(from)), from).Query(func(rows pgx.Rows) error {
			var i int
			_, err := pgx.ForEachRow(rows, []any{&i}, func() error { out = append(out, tables[i]); return nil })
			return err
		})
		b.askRotated(batch, tables, from, &lost)
		return s.with(ctx, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, batch).Close() })
	})
	if err != nil {
		return nil, false, fmt.Errorf("look into the logs of %s: %w", s.Name, err)
	}
	return out, lost, nil
}
