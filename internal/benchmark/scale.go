package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/sleep"
)

// The shape of the scale suite: a schema for each of 480 logical shards, on 32 databases
// of four servers.
const (
	scaleShards    = 480
	scaleDatabases = 32
	scaleServers   = 4
)

const scaleTables = `  - {name: public.block, key: workspace_id}
  - {name: public.comment, key: {from: public.block, via: block_id}}
  - {name: public.workspace, everywhere: true}
`

// figures is what a whole journey of many shards took.
type figures struct {
	Name        string             `json:"name"`
	Shards      int                `json:"shards"`
	Databases   int                `json:"databases"`
	Rows        int                `json:"rows"`
	Seconds     map[string]float64 `json:"seconds"`
	IdleTickMS  float64            `json:"idle_tick_ms"` // p99
	StatusMS    float64            `json:"status_ms"`
	PauseMS     map[string]float64 `json:"pause_ms"` // that the pooler was held, and that clients saw
	Connections map[string]float64 `json:"connections"`
	Stated      map[string]any     `json:"stated,omitempty"` // by plan
	Failed      int                `json:"failed_requests"`
	Lost        int                `json:"lost"`
}

// scaleSuite takes 480 logical shards on 32 databases there and back.
func scaleSuite(ctx context.Context, o options) error {
	return within(ctx, o, scaleServers, func(w *world) error { return w.scaled(ctx) })
}

func (w *world) scaled(ctx context.Context) (err error) {
	if err := w.load(ctx); err != nil {
		return err
	}
	s := shape{shards: scaleShards, databases: scaleDatabases, schema: "shard_%03d", tables: scaleTables}
	for i := range scaleDatabases {
		if err := runSQL(ctx, w.targets[i%scaleServers].DSN("postgres"), "CREATE DATABASE "+s.name(i)); err != nil {
			return err
		}
	}
	if s.pooler, err = w.pooler(ctx, scaleShards); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.pooler.Close()) }()
	if err := w.writeSpec(s); err != nil {
		return err
	}
	j := &scaleJourney{w: w, figures: figures{Name: "scale", Shards: scaleShards, Databases: scaleDatabases, Rows: w.o.rows,
		Seconds: map[string]float64{}, PauseMS: map[string]float64{}, Connections: map[string]float64{}}}
	if err := j.play(ctx, s.pooler); err != nil {
		return err
	}
	return printLine(j.figures)
}

// scaleJourney is the journey under way.
type scaleJourney struct {
	w *world
	figures
}

func (j *scaleJourney) play(ctx context.Context, pooler *localpg.PgBouncer) error {
	var plan struct {
		Findings []struct{ ID, Message string }
	}
	if err := j.w.shardctl.read(ctx, &plan, "plan"); err != nil {
		return err
	}
	j.Stated = map[string]any{}
	for _, f := range plan.Findings {
		if strings.HasPrefix(f.ID, "connections") {
			j.Stated[f.ID] = f.Message
		}
	}
	for _, args := range [][]string{{"prepare"}, {"topology", "push", "--yes"}, {"install"}} {
		if err := j.timed(ctx, args[0], args...); err != nil {
			return err
		}
	}
	catchup, err := j.w.shardctl.start(ctx, "catchup", "--log-level", "trace")
	if err != nil {
		return err
	}
	err = j.switched(ctx, pooler)
	if err := errors.Join(err, catchup.stop()); err != nil {
		return err
	}
	j.IdleTickMS = idleTicks(catchup.Stderr())
	return nil
}

// timed runs one command, with what it holds open meanwhile.
func (j *scaleJourney) timed(ctx context.Context, name string, args ...string) error {
	watching, stop := context.WithCancel(ctx)
	most := make(chan float64, 1)
	go func() { most <- j.mostConnections(watching) }()
	took, err := j.w.shardctl.run(ctx, args...)
	stop()
	j.Connections[name] = <-most
	j.Seconds[name] = round(took.Seconds())
	say("  %-9s %6.1f s, %3.0f connections", name, took.Seconds(), j.Connections[name])
	return err
}

// mostConnections is the most sessions of shardctl on all servers at once, looked at ten
// times a second.
func (j *scaleJourney) mostConnections(ctx context.Context) (most float64) {
	for ctx.Err() == nil {
		sum := 0.0
		for _, c := range j.w.servers() {
			n, err := value(ctx, c.DSN("postgres"), "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardctl %'")
			if err == nil {
				sum += n
			}
		}
		most = max(most, sum)
		_ = sleep.For(ctx, 100*time.Millisecond) // its end is looked at above
	}
	return most
}

func (j *scaleJourney) switched(ctx context.Context, pooler *localpg.PgBouncer) error {
	if err := j.timed(ctx, "backfill", "backfill"); err != nil {
		return err
	}
	crowd, err := j.w.startCrowd(ctx, pooler, scaleShards)
	if err != nil {
		return err
	}
	err = j.thereAndBack(ctx, crowd)
	if err := errors.Join(err, crowd.end()); err != nil {
		return err
	}
	j.Lost, err = j.w.lost(ctx, crowd)
	return err
}

func (j *scaleJourney) thereAndBack(ctx context.Context, crowd *crowd) error {
	started := time.Now()
	if _, err := j.w.shardctl.run(ctx, "status"); err != nil {
		return err
	}
	j.StatusMS = round(time.Since(started).Seconds() * 1000)
	if err := j.timed(ctx, "verify", "verify"); err != nil {
		return err
	}
	for _, command := range []string{"cutover", "rollback"} {
		var report struct {
			Pause struct{ Router float64 } `json:"pause_ms"`
		}
		s := span{start: time.Now()}
		if err := j.w.shardctl.read(ctx, &report, command, "--yes"); err != nil {
			return err
		}
		s.end = time.Now()
		if err := sleep.For(ctx, time.Second); err != nil { // requests of the second after it count too
			return err
		}
		seen := crowd.line(command, []span{s})
		j.Seconds[command], j.PauseMS[command], j.PauseMS[command+"_clients"] = round(s.end.Sub(s.start).Seconds()), round(report.Pause.Router), seen.Max
		j.Failed = seen.Failed
		say("  %-9s %6.1f s, held %.0f ms, clients waited %.0f ms", command, j.Seconds[command], report.Pause.Router, seen.Max)
	}
	return nil
}

// idleTicks is how long ticks took that found nothing, p99, by catchup's log.
func idleTicks(log string) float64 {
	var idle samples
	for line := range strings.Lines(log) {
		var e struct {
			Level, Message string
			Took           float64
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Level == "trace" && e.Message == "tick" {
			idle = append(idle, e.Took)
		}
	}
	return round(idle.quantile(0.99))
}
