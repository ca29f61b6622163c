package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
)

// Who is the process that acts, as journal and leases name it.
type Who struct {
	OSUser string
	Host   string
	PID    int
}

// Myself names the running process.
func Myself() Who {
	w := Who{PID: os.Getpid(), OSUser: "?", Host: "?"}
	if u, err := user.Current(); err == nil {
		w.OSUser = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		w.Host = h
	}
	return w
}

// Journal writes the steps of one attempt of a command.
type Journal struct {
	Migration string
	Command   string
	Attempt   uuid.UUID
	who       Who
}

// NewJournal starts the journal of a new attempt.
func NewJournal(migration, command string) *Journal {
	return &Journal{Migration: migration, Command: command, Attempt: uuid.New(), who: Myself()}
}

// Entry is one row of the journal.
type Entry struct {
	ID      uuid.UUID       `json:"-"`
	At      time.Time       `json:"at"`
	Attempt uuid.UUID       `json:"attempt"`
	Command string          `json:"command"`
	Step    string          `json:"step"`
	Outcome string          `json:"outcome"` // "started", "ok", "failed", …
	OSUser  string          `json:"os_user"`
	Host    string          `json:"host"`
	PID     int             `json:"pid"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// Record writes one row, which is durable then. Detail is marshalled to JSON and holds
// no secret; nil is no detail.
func (j *Journal) Record(ctx context.Context, q postgres.Querier, step, outcome string, detail any) error {
	return j.write(ctx, q, insertEntry, step, outcome, detail)
}

// RecordLazily writes one row as Record does, without waiting for the disk: it is durable
// with the next commit of the server that waits, and until then a crash of the server, not of
// the command, may take it. Not inside a transaction, whose commit would not wait either.
func (j *Journal) RecordLazily(ctx context.Context, q postgres.Querier, step, outcome string, detail any) error {
	return j.write(ctx, q, insertLazily, step, outcome, detail)
}

func (j *Journal) write(ctx context.Context, q postgres.Querier, sql, step, outcome string, detail any) error {
	e := Entry{ID: uuid.New(), Attempt: j.Attempt, Command: j.Command, Step: step, Outcome: outcome, OSUser: j.who.OSUser, Host: j.who.Host, PID: j.who.PID}
	if detail != nil {
		raw, err := json.Marshal(detail)
		if err != nil {
			return fmt.Errorf("journal %s: %w", step, err)
		}
		e.Detail = raw
	}
	if _, err := q.Exec(ctx, sql, e.values(j.Migration)...); err != nil {
		return fmt.Errorf("journal %s: %w", step, err)
	}
	return nil
}

const (
	selectEntry = `INSERT INTO shardctl.journal (migration, id, at, attempt, command, step, outcome, os_user, host, pid, detail)
	SELECT $1::text, $2::uuid, coalesce($3::timestamptz, clock_timestamp()), $4::uuid, $5::text, $6::text, $7::text, $8::text, $9::text, $10::int, $11::jsonb`

	insertEntry = selectEntry + ` ON CONFLICT DO NOTHING`

	// One statement: a setting of its own would cost a round trip while clients are held.
	insertLazily = selectEntry + ` FROM set_config('synchronous_commit', 'off', true) ON CONFLICT DO NOTHING`
)

func (e Entry) values(migration string) []any {
	var at *time.Time // the server's clock for a new row
	if !e.At.IsZero() {
		at = &e.At
	}
	return []any{migration, [16]byte(e.ID), at, [16]byte(e.Attempt), e.Command, e.Step, e.Outcome, e.OSUser, e.Host, e.PID, e.Detail}
}

// QueueEntry adds the copy of a row to a batch; a row that is there stays.
func QueueEntry(batch *pgx.Batch, migration string, e Entry) {
	batch.Queue(insertEntry, e.values(migration)...)
}

// ReadJournal gives a migration's rows, oldest first; limit 0 is all.
func ReadJournal(ctx context.Context, q postgres.Querier, migration string, limit int) ([]Entry, error) {
	sql := `SELECT id, at, attempt, command, step, outcome, os_user, host, pid, detail FROM shardctl.journal WHERE migration = $1 ORDER BY at`
	if limit > 0 {
		sql = fmt.Sprintf(`SELECT * FROM (%s DESC LIMIT %d) newest ORDER BY at`, sql, limit)
	}
	rows, err := q.Query(ctx, sql, migration)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e Entry, err error) {
		err = r.Scan((*[16]byte)(&e.ID), &e.At, (*[16]byte)(&e.Attempt), &e.Command, &e.Step, &e.Outcome, &e.OSUser, &e.Host, &e.PID, &e.Detail)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return out, nil
}

// LeftHeld names the command of the last switch that began to hold the routers, if
// neither it nor its watchdog has noted since that they were released; else "".
func LeftHeld(ctx context.Context, q postgres.Querier, migration string) (command string, err error) {
	const sql = `SELECT coalesce((SELECT CASE WHEN EXISTS (
	  SELECT FROM shardctl.journal r WHERE r.migration = $1 AND r.at > p.at AND r.step IN ('resume', 'undo') AND r.outcome = 'ok') THEN '' ELSE p.command END
	FROM shardctl.journal p WHERE p.migration = $1 AND p.step = 'pause' AND p.outcome = 'started' ORDER BY p.at DESC LIMIT 1), '')`
	if err = q.QueryRow(ctx, sql, migration).Scan(&command); err != nil {
		return "", fmt.Errorf("read journal: %w", err)
	}
	return command, nil
}

// HeldWindow is a switch that holds the routers.
type HeldWindow struct {
	Attempt   uuid.UUID
	Command   string   // "" if none does
	Databases []string // that it moves
	MaxPause  time.Duration
}

// Held reads which switch holds the routers, as LeftHeld does.
func Held(ctx context.Context, q postgres.Querier, migration string) (h HeldWindow, err error) {
	if h.Command, err = LeftHeld(ctx, q, migration); err != nil || h.Command == "" {
		return h, err
	}
	const sql = `SELECT attempt, ARRAY(SELECT jsonb_array_elements_text(detail->'databases')), coalesce((detail->>'max_pause_ms')::bigint, 0)
	FROM shardctl.journal WHERE migration = $1 AND step = 'pause' AND outcome = 'started' ORDER BY at DESC LIMIT 1`
	var ms int64
	if err := q.QueryRow(ctx, sql, migration).Scan((*[16]byte)(&h.Attempt), &h.Databases, &ms); err != nil {
		return h, fmt.Errorf("read journal: %w", err)
	}
	h.MaxPause = time.Duration(ms) * time.Millisecond
	return h, nil
}

// SwitchTried reports whether a switch was begun at any time, and no removal after it:
// from then on the databases have no word on how it ended.
func SwitchTried(ctx context.Context, q postgres.Querier, migration string) (tried bool, err error) {
	const sql = `SELECT EXISTS (SELECT FROM shardctl.journal s WHERE s.migration = $1 AND s.command IN ('cutover', 'rollback')
	  AND NOT EXISTS (SELECT FROM shardctl.journal a WHERE a.migration = $1 AND a.command = 'abort' AND a.step = $2 AND a.at > s.at))`
	if err = q.QueryRow(ctx, sql, migration, StepRemove).Scan(&tried); err != nil {
		return false, fmt.Errorf("read journal: %w", err)
	}
	return tried, nil
}

// StepRemove is the step of abort that cannot be taken back.
const StepRemove = "remove"
