package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
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
			if owners[d.Name].Owner == d.Name && !t.Everywhere() {
				reverse.tables = append(reverse.tables, t)
			} else {
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
		l.from, l.begun = rounds[roundOf{l.database.Name, l.direction}]
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

func (v *Verifier) readRounds(ctx context.Context) (map[roundOf]store.Position, error) {
	out := map[roundOf]store.Position{}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		const sql = `SELECT database, direction, snapshot::text, system_identifier FROM shardctl.verify_round WHERE migration = $1`
		rows, err := conn.Query(ctx, sql, v.migration())
		if err != nil {
			return err
		}
		var of roundOf
		var p store.Position
		_, err = pgx.ForEachRow(rows, []any{&of.database, &of.direction, &p.Snapshot, &p.SystemIdentifier}, func() error {
			out[of] = p
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
		l.from, l.begun = store.Position{Snapshot: store.FirstSnapshot, SystemIdentifier: l.to.SystemIdentifier}, true
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
	since = clock_timestamp(), at = clock_timestamp()`
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

// advance ends a round. A round that another process ended meanwhile stays: then
// some keys are looked at twice. A chain forward that was ended meanwhile stays ended;
// one in reverse begins with its first round.
func (v *Verifier) advance(ctx context.Context, tx pgx.Tx, l *link) error {
	const move = `UPDATE shardctl.verify_round SET snapshot = $5::text::pg_snapshot, at = clock_timestamp()
	WHERE migration = $1 AND database = $2 AND direction = $3 AND snapshot::text = $4`
	args := []any{v.migration(), l.database.Name, l.direction, l.from.Snapshot, l.to.Snapshot}
	tag, err := tx.Exec(ctx, move, args...)
	if err == nil && tag.RowsAffected() == 0 && l.direction == store.Reverse {
		const first = `INSERT INTO shardctl.verify_round (migration, database, direction, system_identifier, snapshot, since)
		VALUES ($1, $2, $3, $4, $5::text::pg_snapshot, '-infinity') ON CONFLICT DO NOTHING`
		_, err = tx.Exec(ctx, first, v.migration(), l.database.Name, l.direction, l.to.SystemIdentifier, l.to.Snapshot)
	}
	if err != nil {
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
	numbers := make([]int, len(l.tables))
	for i, t := range l.tables {
		numbers[i] = t.No
	}
	// A database that was prepared anew begins with the first position again. Lost may be
	// an entry whose transaction a low-water mark covers and the last round does not: one
	// of those that were running then, or one from its end up to the mark's.
	const sql = `SELECT pg_snapshot_xmax($4::text::pg_snapshot) < pg_snapshot_xmax($3::text::pg_snapshot),
	EXISTS (SELECT FROM shardctl.low_water w, (SELECT $3::text::pg_snapshot AS s) r WHERE w.migration = $1 AND w.table_no = ANY ($2)
	AND (EXISTS (SELECT FROM pg_snapshot_xip(r.s) AS x WHERE pg_visible_in_snapshot(x, w.snapshot))
	OR pg_snapshot_xmax(w.snapshot)::text::numeric - pg_snapshot_xmax(r.s)::text::numeric
	 > (SELECT count(*) FROM pg_snapshot_xip(w.snapshot) AS x WHERE x >= pg_snapshot_xmax(r.s))))`
	var back, lost bool
	err := l.log.with(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, sql, v.migration(), numbers, l.from.Snapshot, l.to.Snapshot).Scan(&back, &lost)
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for what the log of %s has lost: %w", l.log.Name, err)
	case back:
		return "the database was prepared anew", nil
	case lost:
		return "the log was rotated past what had been compared", nil
	}
	return "", nil
}

// busy picks the tables of which the log has entries beyond a snapshot.
func (v *Verifier) busy(ctx context.Context, s *server, b builder, tables []*layout.Table, from string) ([]*layout.Table, error) {
	var out []*layout.Table
	err := v.persist(ctx, s, func() error {
		out = nil
		return s.with(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, b.busy(tables, running(from)), from)
			if err != nil {
				return err
			}
			var i int
			_, err = pgx.ForEachRow(rows, []any{&i}, func() error { out = append(out, tables[i]); return nil })
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look into the logs of %s: %w", s.Name, err)
	}
	return out, nil
}

// Retained is a snapshot whose later log entries a standing pass still needs.
type Retained struct {
	Database  string
	Direction store.Direction
	Snapshot  string
}

// retainFor is how long a chain keeps the log that does not move on: what keeps it
// from that must not fill the disk.
const retainFor = 10 * time.Minute

// Retain lists how far the logs have been compared, forward the source's and in
// reverse the databases' own. A rotation that goes further makes the passes stale
// that rest on it, nothing worse.
func Retain(ctx context.Context, source postgres.Querier, migration string) ([]Retained, error) {
	if there, err := hasState(ctx, source); err != nil || !there {
		return nil, err
	}
	const sql = `SELECT database, direction, snapshot::text FROM shardctl.verify_round WHERE migration = $1 AND at > clock_timestamp() - $2::interval`
	rows, err := source.Query(ctx, sql, migration, retainFor)
	if err != nil {
		return nil, fmt.Errorf("read how far the logs were compared: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (out Retained, err error) {
		err = r.Scan(&out.Database, &out.Direction, &out.Snapshot)
		return out, err
	})
}

func hasState(ctx context.Context, q postgres.Querier) (there bool, err error) {
	err = q.QueryRow(ctx, "SELECT to_regclass('shardctl.verify_pass') IS NOT NULL AND to_regclass('shardctl.verify_round') IS NOT NULL").Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for verification's state: %w", err)
	}
	return there, nil
}
