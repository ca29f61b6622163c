package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/migrate"
	"github.com/shardctl/shardctl/verify"
)

func newStatus(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show where the migration stands and what to run next",
		Long: help(`Reads the state on the source and on every database. With --watch it is shown again each
second until Ctrl-C. Where the source cannot be reached, what the databases' own copies of
the state say is shown, and the exit code is 1; 0 once complete --source-lost was run.`,
			`  shardctl status
  shardctl status --watch
  shardctl status -o json | jq -r .next`),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !watch {
				return a.status(cmd.Context())
			}
			return a.watch(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again each second")
	return cmd
}

func (a *app) watch(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if isTerminal(a.out) && a.Output == "text" {
			fmt.Fprint(a.out, "\033[H\033[2J")
		}
		if err := a.status(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (a *app) status(ctx context.Context) error {
	s, c, err := a.openOrCopies(ctx, "status")
	if err != nil {
		return err
	}
	if c != nil {
		return a.statusOfCopies(c)
	}
	defer s.close(ctx)
	doc, err := s.overview(ctx)
	if err != nil {
		return err
	}
	return s.print(doc, func(w io.Writer) { printStatus(w, doc) })
}

// statusDocument is what status prints; its keys are stable.
type statusDocument struct {
	Migration string           `json:"migration"`
	Phase     migrate.Phase    `json:"phase"`
	Epoch     int64            `json:"epoch"`
	Next      string           `json:"next"`
	Capture   captureStatus    `json:"capture"`
	Backfill  any              `json:"backfill"`
	Verify    any              `json:"verify"`
	Cutover   cutoverStatus    `json:"cutover"`
	Rollback  rollbackStatus   `json:"rollback"`
	Databases []databaseStatus `json:"databases"`
	Problems  []string         `json:"problems"`
	// Error is why the source could not be asked: then the rest is what the databases know.
	Error *errorDocument `json:"error,omitempty"`
}

// emptyStatus is the document before anything is known.
func emptyStatus(spec *migrate.Spec) statusDocument {
	reason := "not cut over"
	return statusDocument{Migration: spec.Migration, Databases: []databaseStatus{}, Problems: []string{},
		Capture: captureStatus{Engine: spec.Capture.Engine}, Cutover: cutoverStatus{State: "none"}, Rollback: rollbackStatus{Reason: &reason},
		Backfill: backfill.Status{Tables: []backfill.TableStatus{}}, Verify: verify.State{State: verify.None}}
}

// countMoved words how many shards have moved.
func (d *statusDocument) countMoved(spec *migrate.Spec) {
	switch {
	case d.Cutover.ShardsMoved == spec.Shards.Count:
		d.Cutover.State = "done"
	case d.Cutover.ShardsMoved > 0:
		d.Cutover.State = "partial"
	}
}

type captureStatus struct {
	Engine     string   `json:"engine"`
	Installed  bool     `json:"installed"`
	Backlog    int64    `json:"backlog"`
	LagSeconds *float64 `json:"lag_seconds"`
	ApplyRate  *float64 `json:"apply_rows_per_s"`
	LogBytes   int64    `json:"log_bytes"`
	Running    bool     `json:"running"`
}

type cutoverStatus struct {
	State       string   `json:"state"`
	Predicted   *float64 `json:"predicted_pause_ms"`
	LastPause   *float64 `json:"last_pause_ms"`
	ShardsMoved int      `json:"shards_moved"`
	// SourceDroppedAt is when the moved rows were removed from the source.
	SourceDroppedAt *time.Time `json:"source_dropped_at"`
}

type rollbackStatus struct {
	Available    bool       `json:"available"`
	Reason       *string    `json:"reason"`
	LagSeconds   *float64   `json:"lag_seconds"`
	WindowEndsAt *time.Time `json:"window_ends_at"`
}

type databaseStatus struct {
	Name        string   `json:"name"`
	Reachable   bool     `json:"reachable"`
	LagSeconds  *float64 `json:"lag_seconds"`
	Quarantined int      `json:"quarantined"`
	Owner       string   `json:"owner"`
	Held        bool     `json:"held"`

	sourceLost bool  // completed without the source
	unsettled  bool  // it is not what the source says it is
	gap        error // what it has not seen is lost, in the direction in which it goes
}

func printStatus(w io.Writer, d statusDocument) {
	fmt.Fprintf(w, "migration  %s\nphase      %s (epoch %d)\n", d.Migration, d.Phase, d.Epoch)
	if d.Next != "" {
		fmt.Fprintf(w, "next       %s\n", d.Next)
	}
	if d.Capture.Installed {
		running := "running"
		if !d.Capture.Running {
			running = "not running"
		}
		rate := ""
		if d.Capture.ApplyRate != nil {
			rate = fmt.Sprintf(", applies %.0f rows/s", *d.Capture.ApplyRate)
		}
		fmt.Fprintf(w, "catch-up   %s, backlog %d, lag %s%s, log %d bytes\n", running, d.Capture.Backlog, seconds(d.Capture.LagSeconds), rate, d.Capture.LogBytes)
	}
	fmt.Fprintf(w, "cutover    %s, %d shards moved, last pause %s\n", d.Cutover.State, d.Cutover.ShardsMoved, milliseconds(d.Cutover.LastPause))
	if at := d.Cutover.SourceDroppedAt; at != nil {
		fmt.Fprintf(w, "source     the moved rows were removed at %s\n", at.Format(time.RFC3339))
	}
	if d.Rollback.Available {
		fmt.Fprintf(w, "rollback   available, lag %s\n", seconds(d.Rollback.LagSeconds))
	} else if d.Rollback.Reason != nil {
		fmt.Fprintf(w, "rollback   not available: %s\n", *d.Rollback.Reason)
	}
	for _, db := range d.Databases {
		state := "reachable"
		if !db.Reachable {
			state = "NOT REACHABLE"
		}
		fmt.Fprintf(w, "database   %s %s, owner %s, lag %s, quarantined %d\n", db.Name, state, db.Owner, seconds(db.LagSeconds), db.Quarantined)
	}
	for _, p := range d.Problems {
		fmt.Fprintf(w, "problem    %s\n", p)
	}
}

func seconds(s *float64) string {
	if s == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f s", *s)
}

func milliseconds(ms *float64) string {
	if ms == nil {
		return "none"
	}
	return fmt.Sprintf("%.0f ms", *ms)
}
