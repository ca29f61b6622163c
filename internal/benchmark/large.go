package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
)

// largeLine is what the copy of a long, narrow table took.
type largeLine struct {
	Name      string           `json:"name"`
	Rows      int              `json:"rows"`
	Seconds   float64          `json:"seconds"`
	RowsPerS  float64          `json:"rows_per_s"`
	Peak      map[string]int64 `json:"peak_bytes"` // of each command's resident set
	Looks     int              `json:"looks"`      // at the progress
	Backwards int              `json:"backwards"`  // looks that showed less than the one before
	Unsure    int              `json:"without_eta"`
}

// largeSuite copies a narrow table of many rows and looks at its progress all the time.
func largeSuite(ctx context.Context, o options) error {
	return within(ctx, o, 2, func(w *world) error { return w.narrow(ctx) })
}

func (w *world) narrow(ctx context.Context) error {
	if err := w.loadNarrow(ctx); err != nil {
		return err
	}
	if err := w.writeSpec(shape{shards: 8, schema: "app", tables: "  - {name: public.point, key: owner}\n"}); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	line := largeLine{Name: "large", Rows: w.o.rows}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- w.watchProgress(watching, &line) }()
	took, err := w.copyOnce(ctx, "fast")
	stop()
	if err := errors.Join(err, <-watched); err != nil {
		return err
	}
	if _, err := w.verified(ctx); err != nil {
		return err
	}
	line.Seconds, line.RowsPerS, line.Peak = round(took.Seconds()), round(float64(w.o.rows)/took.Seconds()), w.shardctl.peak
	return printLine(line)
}

func (w *world) loadNarrow(ctx context.Context) error {
	for _, c := range w.servers() {
		if err := runSQL(ctx, c.DSN("postgres"), "CREATE DATABASE "+appName); err != nil {
			return err
		}
	}
	say("load %d rows", w.o.rows)
	return runSQL(ctx, w.source.DSN(appName), "CREATE TABLE point (id bigint NOT NULL, owner int NOT NULL, value int NOT NULL)",
		fmt.Sprintf("INSERT INTO point SELECT g, g %% 1000003, g FROM generate_series(1, %d) g", w.o.rows),
		"ALTER TABLE point ADD PRIMARY KEY (id)", "VACUUM (ANALYZE)", "CHECKPOINT")
}

// watchProgress asks status once a second until the copy has ended.
func (w *world) watchProgress(ctx context.Context, line *largeLine) error {
	last := 0.0
	for ctx.Err() == nil {
		var s struct {
			Backfill struct {
				Percent float64
				ETA     *float64 `json:"eta_seconds"`
			}
		}
		if err := w.shardctl.read(ctx, &s, "status"); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		line.Looks++
		if s.Backfill.Percent < last {
			line.Backwards++
		}
		if s.Backfill.ETA == nil {
			line.Unsure++
		}
		last = s.Backfill.Percent
		_ = sleep.For(ctx, time.Second) // its end is looked at above
	}
	return nil
}
