package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/sleep"
)

// switched is one line of the cutover suite: pauses as the clients saw them.
type switched struct {
	Name     string  `json:"name"`
	N        int     `json:"n"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms,omitempty"` // of 100 and more
	Max      float64 `json:"max_ms"`
	Failed   int     `json:"failed_requests"`
	Lost     *int    `json:"lost"`     // null where it was not looked at
	Requests int     `json:"requests"` // fewest of a client within a second of a switch
	Entries  int     `json:"entries"`
}

// cutoverSuite switches there and back again and again under eight clients, and holds
// and releases the pooler as often without a switch.
func cutoverSuite(ctx context.Context, o options) error {
	return within(ctx, o, 4, func(w *world) error { return w.manySwitches(ctx) })
}

func (w *world) manySwitches(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		shards, rounds int
	}{{16, w.o.rounds}, {480, max(w.o.rounds/5, 1)}} {
		if name := fmt.Sprintf("entries_%d", c.shards); w.o.wants(name) {
			if err := w.switches(ctx, c.shards, c.rounds); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// switches measures one number of entries.
func (w *world) switches(ctx context.Context, shards, rounds int) (err error) {
	pooler, err := w.pooler(ctx, shards)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pooler.Close()) }()
	if err := w.writeSpec(shape{shards: shards, schema: "public", tables: blockOnly, pooler: pooler}); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	say("copy for %d entries", shards)
	if _, err := w.copyOnce(ctx, "fast"); err != nil {
		return err
	}
	catchup, err := w.shardctl.start(ctx, "catchup")
	if err != nil {
		return err
	}
	crowd, err := w.startCrowd(ctx, pooler, shards)
	if err != nil {
		return errors.Join(err, catchup.stop())
	}
	spans, turnErr := w.turns(ctx, pooler, rounds)
	crowdErr := crowd.end()
	if ctx.Err() != nil && len(spans["rollback"]) > 0 { // stopped by hand: what there is counts
		say("stopped after %d rounds", len(spans["rollback"]))
		for _, name := range []string{"cutover", "rollback", "bare"} {
			line := crowd.line(name, spans[name])
			line.Entries = shards
			if err := printLine(line); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(turnErr, crowdErr, catchup.stop()); err != nil {
		return err
	}
	if err := w.sayStepTimes(ctx); err != nil {
		return err
	}
	lost, err := w.lost(ctx, crowd)
	if err != nil {
		return err
	}
	for _, name := range []string{"cutover", "rollback", "bare"} {
		line := crowd.line(name, spans[name])
		line.Lost, line.Entries = &lost, shards
		if err := printLine(line); err != nil {
			return err
		}
	}
	return w.end(ctx)
}

// turns switches there and back, and takes the time of each.
func (w *world) turns(ctx context.Context, pooler *localpg.PgBouncer, rounds int) (map[string][]span, error) {
	spans := map[string][]span{}
	take := func(name string, do func() error) error {
		if err := sleep.For(ctx, 1100*time.Millisecond); err != nil { // so that each has a second of its own before and after
			return err
		}
		started := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		spans[name] = append(spans[name], span{started, time.Now()})
		return nil
	}
	for n := range rounds {
		if _, err := w.shardctl.run(ctx, "verify"); err != nil {
			return spans, err
		}
		for _, command := range []string{"cutover", "rollback"} {
			if err := take(command, func() error { _, err := w.shardctl.run(ctx, command, "--yes"); return err }); err != nil {
				return spans, err
			}
		}
		if err := take("bare", func() error { return bareHold(ctx, pooler) }); err != nil {
			return spans, err
		}
		if (n+1)%10 == 0 {
			say("  %d of %d rounds", n+1, rounds)
		}
	}
	return spans, nil
}

// sayStepTimes says how long each step took for which clients were held, by the journal.
func (w *world) sayStepTimes(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, w.source.DSN(appName))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const sql = `SELECT command || ', median ms of each step: ' || string_agg(step || ' ' || ms, ', ' ORDER BY place) FROM (
		SELECT command, step, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY (detail->>'ms')::numeric)::numeric, 1) AS ms, avg(extract(epoch FROM at - first)) AS place
		FROM (SELECT *, min(at) OVER (PARTITION BY attempt) AS first FROM shardctl.journal) j
		WHERE command IN ('cutover', 'rollback') AND outcome = 'ok' AND step NOT LIKE 'gate%' GROUP BY command, step) s GROUP BY command ORDER BY command`
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range lines {
		say("  %s", line)
	}
	return err
}

// pooler starts a pooler with an entry for each shard, all on the source.
func (w *world) pooler(ctx context.Context, shards int) (*localpg.PgBouncer, error) {
	var b strings.Builder
	for s := range shards {
		fmt.Fprintf(&b, "app_%03d = host=127.0.0.1 port=%d dbname=%s pool_size=2\n", s, w.source.Port(), appName)
	}
	return localpg.NewPgBouncer(ctx, localpg.PgBouncerOptions{Databases: b.String(), Settings: []string{"max_client_conn = 500", "query_wait_timeout = 60"}})
}

func printLine(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", line)
	return err
}
