package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
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
	Lost     int     `json:"lost"`
	Requests int     `json:"requests"` // fewest of a client within a second of a switch
	Entries  int     `json:"entries"`
}

// cutoverSuite switches there and back again and again under eight clients, and holds
// and releases the pooler as often without a switch.
func cutoverSuite(ctx context.Context, o options) (err error) {
	w, err := newWorld(ctx, o, 4)
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	if err != nil {
		return err
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		shards, rounds int
	}{{16, o.rounds}, {480, max(o.rounds/5, 1)}} {
		if name := fmt.Sprintf("entries_%d", c.shards); o.wants(name) {
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
	if err := w.writeRouted(pooler, shards); err != nil {
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
			if err := printLine(crowd.line(name, spans[name])); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(turnErr, crowdErr, catchup.stop()); err != nil {
		return err
	}
	lost, err := w.lost(ctx, crowd)
	if err != nil {
		return err
	}
	for _, name := range []string{"cutover", "rollback", "bare"} {
		line := crowd.line(name, spans[name])
		line.Lost, line.Entries = lost, shards
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
		time.Sleep(1100 * time.Millisecond) // so that each has a second of its own before and after
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

// pooler starts a pooler with an entry for each shard, all on the source.
func (w *world) pooler(ctx context.Context, shards int) (*localpg.PgBouncer, error) {
	var b strings.Builder
	for s := range shards {
		fmt.Fprintf(&b, "app_%03d = host=127.0.0.1 port=%d dbname=%s pool_size=2\n", s, w.source.Port(), appName)
	}
	return localpg.NewPgBouncer(ctx, localpg.PgBouncerOptions{Databases: b.String(), Settings: []string{"max_client_conn = 500", "query_wait_timeout = 60"}})
}

// writeRouted describes the migration with the pooler as its router.
func (w *world) writeRouted(pooler *localpg.PgBouncer, shards int) error {
	var databases, placement []string
	for i, c := range w.targets {
		databases = append(databases, fmt.Sprintf("  db%d: {dsn: %q}", i, c.DSN(appName)))
		each := shards / len(w.targets)
		placement = append(placement, fmt.Sprintf("db%d: %d-%d", i, i*each, (i+1)*each-1))
	}
	text := fmt.Sprintf(`version: 1
migration: bench
source: {dsn: %q}
databases:
%s
shards: {count: %d, schema: public, hash: postgres, placement: {%s}}
tables:
%s
cutover: {max_pause: 5s}
topology:
  - driver: pgbouncer
    instances: [{admin_dsn: %q, databases_file: %s}]
    entries: [{database: "app_%%03d"}]
`, w.source.DSN(appName), strings.Join(databases, "\n"), shards, strings.Join(placement, ", "), strings.TrimRight(blockOnly, "\n"), pooler.AdminDSN(), pooler.DatabasesFile)
	return os.WriteFile(w.shardctl.spec, []byte(text), 0o600)
}

func printLine(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", line)
	return err
}
