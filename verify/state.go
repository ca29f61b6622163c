package verify

import (
	"context"
	_ "embed" // the query
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed judgement.sql
var judgementSQL string

// State is where verification stands, for status and for the gate of a switch.
type State struct {
	State        Status          `json:"state"`
	Coverage     float64         `json:"coverage"`
	RowsCompared int64           `json:"rows_compared"`
	Differences  int64           `json:"differences"`
	Unsettled    int64           `json:"unsettled"`
	At           *time.Time      `json:"at"` // the end of the last full pass
	Reason       string          `json:"reason,omitempty"`
	Databases    []DatabaseState `json:"databases,omitempty"`
}

// DatabaseState is where verification of one database stands.
type DatabaseState struct {
	Name        string `json:"name"`
	State       Status `json:"state"`
	Differences int64  `json:"differences"`
	Unsettled   int64  `json:"unsettled"`
	Reason      string `json:"reason,omitempty"` // why it is not clean
}

// lastPass is the newest full pass.
type lastPass struct {
	started   time.Time
	finished  *time.Time
	beatAge   time.Duration
	age       time.Duration // since its end
	truncated bool
	reason    string
}

// ReadState tells where verification of a migration stands, from the source alone.
// A pass older than maxAge is stale; zero is no limit.
func ReadState(ctx context.Context, source postgres.Querier, migration string, maxAge time.Duration) (State, error) {
	s := State{State: None, Reason: "there was no full pass"}
	there, err := hasState(ctx, source)
	if err != nil || !there {
		return s, err
	}
	last, err := s.readPass(ctx, source, migration)
	if err != nil {
		return s, err
	}
	rows, err := source.Query(ctx, judgementSQL, migration)
	if err != nil {
		return s, fmt.Errorf("read the state of verification: %w", err)
	}
	var d DatabaseState
	var is standing
	_, err = pgx.ForEachRow(rows, []any{&d.Name, &is.sameEpoch, &is.chained, &is.held, &d.Differences, &d.Unsettled}, func() error {
		d.State, d.Reason = verdictOf(last, maxAge, is, d.Differences, d.Unsettled)
		s.Databases = append(s.Databases, d)
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the state of verification: %w", err)
	}
	s.summarize()
	return s, nil
}

// readPass reads the newest full pass and what all passes together looked at.
func (s *State) readPass(ctx context.Context, q postgres.Querier, migration string) (*lastPass, error) {
	const sql = `SELECT p.started_at, p.finished_at, clock_timestamp() - p.heartbeat_at, coalesce(clock_timestamp() - p.finished_at, '0'), p.truncated, p.reason, p.coverage,
	(SELECT coalesce(sum(t.rows), 0)::bigint FROM shardctl.verify_pass_table t WHERE t.migration = p.migration AND t.pass = p.pass)
	FROM shardctl.verify_pass p WHERE p.migration = $1 AND p.mode = 'full' ORDER BY p.started_at DESC LIMIT 1`
	p := &lastPass{}
	err := q.QueryRow(ctx, sql, migration).Scan(&p.started, &p.finished, &p.beatAge, &p.age, &p.truncated, &p.reason, &s.Coverage, &s.RowsCompared)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last pass: %w", err)
	}
	s.At = p.finished
	return p, nil
}

// standing is whether the last full pass still speaks of a database.
type standing struct {
	sameEpoch bool
	chained   bool // all that was written since is known
	held      bool // but the rounds since do not get through with it
}

// verdictOf is what the last full pass says of one database now.
func verdictOf(p *lastPass, maxAge time.Duration, is standing, differences, unsettled int64) (Status, string) {
	switch {
	case p != nil && p.finished == nil && p.beatAge < beatStale:
		return Running, "a pass is under way"
	case differences > 0:
		return Differences, fmt.Sprintf("%d rows differ", differences)
	case p == nil:
		return None, "there was no full pass"
	case p.finished == nil:
		return Partial, "the last pass was interrupted"
	case p.reason != "":
		return Partial, p.reason
	case unsettled > int64(defaults.unsettled):
		return Partial, fmt.Sprintf("%d keys went on changing and could not be compared", unsettled)
	case !is.sameEpoch:
		return Stale, "its shards changed hands since the last pass"
	case !is.chained:
		return Stale, "what was written since the last pass is no longer known"
	case is.held:
		return Partial, "more keys than can be kept go on changing, and what was written since the last pass could not be compared"
	case maxAge > 0 && p.age > maxAge:
		return Stale, fmt.Sprintf("the last pass ended %s ago", p.age.Round(time.Second))
	}
	return Clean, ""
}

// worst is the order in which one database's state speaks for all.
var worst = []Status{Running, Differences, None, Partial, Stale, Clean}

func (s *State) summarize() {
	if len(s.Databases) == 0 {
		return
	}
	first := slices.MinFunc(s.Databases, func(a, b DatabaseState) int { return slices.Index(worst, a.State) - slices.Index(worst, b.State) })
	s.State, s.Reason = first.State, first.Reason
	if s.Reason != "" && len(s.Databases) > 1 {
		s.Reason = first.Name + ": " + first.Reason
	}
	for _, d := range s.Databases {
		s.Differences += d.Differences
		s.Unsettled += d.Unsettled
	}
}

func hasState(ctx context.Context, q postgres.Querier) (there bool, err error) {
	err = q.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('shardctl.verify_round') AND attname = 'held')").Scan(&there)
	if err != nil {
		return false, fmt.Errorf("look for verification's state: %w", err)
	}
	return there, nil
}

// State is ReadState for this migration.
func (v *Verifier) State(ctx context.Context, maxAge time.Duration) (s State, err error) {
	err = v.onSource(ctx, func(conn *pgxpool.Conn) error {
		s, err = ReadState(ctx, conn, v.migration(), maxAge)
		return err
	})
	return s, err
}

// Gate is nil when a fresh clean full pass stands for each database, in the epoch
// of its shards. Else it says for the first that has none why not.
func (v *Verifier) Gate(ctx context.Context, databases []string, maxAge time.Duration) error {
	s, err := v.State(ctx, maxAge)
	if err != nil {
		return err
	}
	for _, name := range databases {
		i := slices.IndexFunc(s.Databases, func(d DatabaseState) bool { return d.Name == name })
		switch {
		case i < 0:
			return stale(name, "there was no full pass")
		case s.Databases[i].State == Differences:
			return migrate.Refuse("verify.differences", name, s.Databases[i].Reason, "run shardctl verify --repair, then shardctl verify")
		case s.Databases[i].State == Running:
			return migrate.Refuse("verify.running", name, s.Databases[i].Reason, "wait for it to end")
		case s.Databases[i].State != Clean:
			return migrate.Refuse("verify."+string(s.Databases[i].State), name, s.Databases[i].Reason, "run shardctl verify")
		}
	}
	return nil
}

// result reads back what a pass has found: a full one with what rounds found since
// it began.
func (v *Verifier) result(ctx context.Context, p *pass, detects Detects) (*Result, error) {
	r := &Result{Mode: p.mode, RowsCompared: p.rows, Detects: detects, Differences: []Difference{}}
	s, err := v.State(ctx, 0)
	if err != nil {
		return nil, err
	}
	r.State, r.Reason, r.Unsettled = s.State, s.Reason, s.Unsettled
	err = v.onSource(ctx, func(conn *pgxpool.Conn) error {
		const sql = `SELECT coverage, truncated FROM shardctl.verify_pass WHERE migration = $1 AND pass = $2`
		if err := conn.QueryRow(ctx, sql, v.migration(), [16]byte(p.id)).Scan(&r.Coverage, &r.Truncated); err != nil {
			return fmt.Errorf("read the pass: %w", err)
		}
		found, err := v.standing(ctx, conn)
		r.Differences = append(r.Differences, found...)
		return err
	})
	return r, err
}
