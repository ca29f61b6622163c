package backfill

import (
	"context"
	_ "embed" // the query
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed load.sql
var loadSQL string

// load is what the source looks like.
type load struct {
	paused      bool
	pausedBy    string
	replicas    int
	hidden      int // replicas whose state the role may not see
	behind      int // replicas that are far behind, by an unknown time
	replicaLag  float64
	active      int
	unseen      int // sessions that the role may not see
	logBytes    int64
	clock       string // "HH:MM" in the source's time zone
	processes   int
	catchupLag  time.Duration // of the database that lags most, held ones left out
	catchupName string
}

func readLoad(ctx context.Context, q postgres.Querier, migration string, logs []string) (l load, err error) {
	err = q.QueryRow(ctx, loadSQL, migration, logs).Scan(&l.paused, &l.pausedBy, &l.replicas, &l.hidden, &l.behind, &l.replicaLag,
		&l.active, &l.unseen, &l.logBytes, &l.clock, &l.processes)
	if err != nil {
		return l, fmt.Errorf("read the source's load: %w", err)
	}
	return l, nil
}

// hinders compares a load with the limits, the operator's own word first.
func hinders(l load, t migrate.Throttle, softLimit int64) hindrance {
	const grant = "the role cannot see it; GRANT pg_monitor"
	switch lag := time.Duration(l.replicaLag * float64(time.Second)); {
	case l.paused:
		return hindrance{kind: "paused", message: "paused by " + l.pausedBy + "; `shardctl backfill --resume` goes on"}
	case !inSchedule(l.clock, t.Schedule):
		return hindrance{kind: "schedule", message: fmt.Sprintf("it is %s on the source, the schedule is %s", l.clock, t.Schedule)}
	case softLimit > 0 && l.logBytes >= softLimit:
		return hindrance{kind: "log", message: fmt.Sprintf("the logs have %d MB, the soft limit is %d MB", l.logBytes>>20, softLimit>>20)}
	case t.MaxReplicaLag > 0 && l.hidden > 0:
		return hindrance{kind: "replica_lag", message: fmt.Sprintf("the lag of %d replicas is unknown: %s", l.hidden, grant)}
	case t.MaxReplicaLag > 0 && (l.behind > 0 || lag > t.MaxReplicaLag):
		return hindrance{kind: "replica_lag", message: fmt.Sprintf("a replica lags by %s, the limit is %s", measured(lag, l.behind), t.MaxReplicaLag)}
	case t.MaxCatchupLag > 0 && l.catchupLag > t.MaxCatchupLag:
		return hindrance{kind: "catchup_lag", message: fmt.Sprintf("catch-up of %s lags by %s, the limit is %s; is `shardctl catchup` running?",
			l.catchupName, l.catchupLag.Round(time.Second), t.MaxCatchupLag)}
	case t.MaxSourceActive > 0 && l.unseen > 0:
		return hindrance{kind: "source_active", message: "the number of active sessions is unknown: " + grant}
	case t.MaxSourceActive > 0 && l.active > t.MaxSourceActive:
		return hindrance{kind: "source_active", message: fmt.Sprintf("%d sessions are active on the source, the limit is %d", l.active, t.MaxSourceActive)}
	}
	return hindrance{}
}

func measured(lag time.Duration, behind int) string {
	if behind > 0 {
		return "an unknown time (it is catching up)"
	}
	return lag.Round(time.Millisecond).String()
}

// inSchedule reports whether a time of day lies in "22:00-06:00"; both ends may
// be on either side of midnight.
func inSchedule(clock, schedule string) bool {
	from, to, ok := strings.Cut(schedule, "-")
	if !ok || from == to {
		return true
	}
	if from < to {
		return clock >= from && clock < to
	}
	return clock >= from || clock < to
}

// pendingSQL asks whether the source's logs hold an entry that a position does
// not cover ($1 its snapshot), and how old that position is ($2 its marker). Entries
// from its end on and those of transactions that were running are asked for apart, each
// in the order of the index: logs are never analyzed, and all of one might be read.
func pendingSQL(logs []string) string {
	const behind = "xid >= pg_snapshot_xmax($1::text::pg_snapshot)"
	const among = "xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))"
	var parts []string
	for _, log := range logs {
		for _, condition := range []string{behind, among} {
			parts = append(parts, fmt.Sprintf("(SELECT true FROM %s WHERE %s ORDER BY xid LIMIT 1)", log, condition))
		}
	}
	return "SELECT coalesce(" + strings.Join(parts, " OR ") + ", false)" +
		", coalesce(extract(epoch FROM clock_timestamp() - (SELECT at FROM shardctl.marker WHERE id = $2)), extract(epoch FROM clock_timestamp() - (SELECT min(created_at) FROM shardctl.migration WHERE name = $3)), 0)::float8"
}

// lagOf is how far a position is behind the source; 0 when nothing is missing.
func lagOf(ctx context.Context, source *pgx.Conn, sql string, p store.Position, migration string) (time.Duration, error) {
	var pending bool
	var age float64
	if err := source.QueryRow(ctx, sql, p.Snapshot, [16]byte(p.Marker), migration).Scan(&pending, &age); err != nil {
		return 0, fmt.Errorf("read what catch-up lacks: %w", err)
	}
	if !pending {
		return 0, nil
	}
	return max(time.Duration(age*float64(time.Second)), 1), nil
}
