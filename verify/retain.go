package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

// Retained is a snapshot whose later log entries a standing pass still needs.
type Retained struct {
	Database  string
	Direction store.Direction
	Snapshot  string
}

const (
	// retainFor is how long a chain keeps the log that gives no sign of life or does not
	// move on: what keeps it from that must not fill the disk.
	retainFor = 10 * time.Minute
	// longRound is how long a single round keeps the log, for the same reason.
	longRound = time.Hour
	// levelEvery is how often a chain gives a sign of life that has nothing to compare.
	levelEvery = time.Minute
)

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

// keeper keeps the log for a round that is under way.
type keeper struct {
	v     *Verifier
	of    *group
	began time.Time
	last  time.Time
}

func (v *Verifier) newKeeper(of *group) *keeper { return &keeper{v: v, of: of, began: time.Now()} }

// beat is called before each page. Chains that are held give no sign of life beyond
// their time: nothing says that their next round will end.
func (k *keeper) beat(ctx context.Context) error {
	now := time.Now()
	if now.Sub(k.last) < k.v.limits.beat || now.Sub(k.began) > longRound {
		return nil
	}
	k.last = now
	const alive = `at = clock_timestamp() WHERE coalesce(held > clock_timestamp() - $5::interval, true)`
	return k.v.touch(ctx, k.of, alive, retainFor)
}

// hold leaves chains where they are, with all that is on record: their next round compares
// the same again, and what was written since. Since when that goes on is noted, so that
// state tells and the log is not kept for ever.
func (v *Verifier) hold(ctx context.Context, of *group) error {
	return v.touch(ctx, of, `held = coalesce(held, clock_timestamp()) WHERE true`)
}

// touch changes the chains of a group that are still where its round began.
func (v *Verifier) touch(ctx context.Context, of *group, change string, args ...any) error {
	l, names := of.links[0], make([]string, len(of.links))
	for i, l := range of.links {
		names[i] = l.database.Name
	}
	sql := "UPDATE shardctl.verify_round SET " + change + " AND migration = $1 AND direction = $2 AND database = ANY ($3) AND snapshot::text = $4"
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, sql, append([]any{v.migration(), l.direction, names, l.from.Snapshot}, args...)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("note that a round goes on: %w", err)
	}
	return nil
}
