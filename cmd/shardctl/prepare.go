package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/preflight"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/target"
	"github.com/shardctl/shardctl/migrate"
)

func newPrepare(a *app) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Make schemas, tables, primary keys and closed fences on the databases",
		Long: help(`Runs the preflight checks of plan and stops if one blocks. Then makes the state on the
source and, on every database, the schemas, types, functions, tables and primary keys of
the spec's tables, closed to the application until cutover. Each object is registered
before it is created, so the command can be killed and run again. With --database it starts
databases anew whose copy cannot be gone on with, since the log has lost what they have not
seen: they are emptied, and copied by the next backfill. One that owns its shards is refused.`,
			`  shardctl prepare
  shardctl prepare --yes --database db0,db1     # after a gap
  shardctl prepare -o json`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(only) > 0 {
				return a.restart(cmd.Context(), only)
			}
			return a.prepare(cmd.Context())
		},
	}
	namesVar(cmd.Flags(), &only, "database", "start the named databases anew after a gap (may be repeated; commas)")
	return cmd
}

// done is the document of a phase's command.
type done struct {
	Phase migrate.Phase `json:"phase"`
	Done  string        `json:"outcome"` // "done" or "nothing to do"
	Next  string        `json:"next"`
}

func (s *session) finished(outcome string) error { return s.finishedNext(outcome, s.phase().Next()) }

func (s *session) finishedNext(outcome, next string) error {
	d := done{Phase: s.phase(), Done: outcome, Next: next}
	return s.print(d, func(w io.Writer) {
		if outcome == nothingToDo {
			fmt.Fprintln(w, nothingToDo)
			return
		}
		fmt.Fprintf(w, "%s; next: %s\n", d.Phase, d.Next)
	})
}

const nothingToDo = "nothing to do"

func (a *app) prepare(ctx context.Context) error {
	s, err := a.open(ctx, "prepare")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	switch s.phase() {
	case migrate.New, migrate.Aborted:
	default:
		return s.finished(nothingToDo)
	}
	survey, err := s.survey(ctx)
	if err != nil {
		return err
	}
	defer survey.Close(ctx)
	if err := s.begin(ctx); err != nil {
		return err
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	err = s.journaled(ctx, "prepare", func(ctx context.Context) error {
		for _, d := range s.spec.Databases {
			if err := s.prepareDatabase(ctx, survey.Layout, d.Name, survey.Databases[d.Name], survey.Identities[d.Name]); err != nil {
				return fmt.Errorf("prepare %s: %w", d.Name, err)
			}
		}
		return s.setPhase(ctx, migrate.Prepared)
	})
	if err != nil {
		return err
	}
	return s.finished("done")
}

// survey runs the preflight checks; findings of severity error refuse.
func (s *session) survey(ctx context.Context) (*preflight.Survey, error) {
	found, survey, err := preflight.Run(ctx, s.spec)
	if err != nil {
		survey.Close(ctx)
		return nil, err
	}
	var blocked migrate.Failures
	for _, f := range found {
		if f.Severity == migrate.SeverityError {
			hint := "see shardctl plan"
			if f.Fix != nil {
				hint = "fix: " + *f.Fix
			}
			failure := migrate.Refuse(f.ID, f.Object, f.Message, hint)
			failure.Exit = exitOf(f.ID)
			blocked = append(blocked, failure)
		}
	}
	if len(blocked) > 0 {
		survey.Close(ctx)
		return nil, blocked
	}
	return survey, nil
}

// exitOf keeps a server that cannot be reached, and a DSN that cannot be read, apart
// from what was found on servers.
func exitOf(finding string) int {
	switch {
	case finding == "connect.pooler":
		return migrate.ExitRefused
	case strings.HasPrefix(finding, "connect."):
		return migrate.ExitError
	case strings.HasPrefix(finding, "dsn."):
		return migrate.ExitUsage
	}
	return migrate.ExitRefused
}

// begin makes the state on the source: the migration's row, ownership, and the
// numbers of its tables.
func (s *session) begin(ctx context.Context) error {
	if err := store.CreateSource(ctx, s.source); err != nil {
		return err
	}
	id, err := postgres.ReadIdentity(ctx, s.source)
	if err != nil {
		return err
	}
	redacted, err := json.Marshal(s.spec.Redacted())
	if err != nil {
		return fmt.Errorf("encode the spec: %w", err)
	}
	err = postgres.WithTx(ctx, s.source, pgx.TxOptions{}, func(tx pgx.Tx) error {
		m := store.Migration{Name: s.spec.Migration, Phase: migrate.New, SpecDigest: s.spec.Digest(), Spec: redacted, SystemIdentifier: id.SystemIdentifier}
		if err := store.InsertMigration(ctx, tx, m); err != nil {
			return err
		}
		if err := store.UpdateSpec(ctx, tx, s.spec.Migration, s.spec.Digest(), redacted); err != nil {
			return err
		}
		for i, t := range s.spec.Tables {
			if err := store.ClaimTable(ctx, tx, s.spec.Migration, i+1, t.Name); err != nil {
				return err
			}
		}
		return s.beginOwnership(ctx, tx)
	})
	if err != nil {
		return err
	}
	return s.reload(ctx)
}

// beginOwnership writes the rows that lack: every shard is the source's at epoch 1.
func (s *session) beginOwnership(ctx context.Context, tx pgx.Tx) error {
	there, err := store.LoadOwnership(ctx, tx, s.spec.Migration)
	if err != nil || len(there) == len(s.spec.Databases) {
		return err
	}
	for _, d := range s.spec.Databases {
		o := store.Ownership{Database: d.Name, Shards: s.spec.Shards.ShardsOf(d.Name), Owner: store.OwnerSource, Epoch: 1}
		if err := store.SaveOwnership(ctx, tx, s.spec.Migration, o); err != nil {
			return err
		}
	}
	return nil
}

// prepareDatabase makes one database's state and objects.
func (s *session) prepareDatabase(ctx context.Context, l *layout.Layout, name string, conn *pgx.Conn, id postgres.Identity) error {
	if err := store.SaveMember(ctx, s.source, s.spec.Migration, name, id); err != nil {
		return err
	}
	if err := store.CreateDatabase(ctx, conn); err != nil {
		return err
	}
	_, err := store.LoadControl(ctx, conn, s.spec.Migration)
	if errors.Is(err, store.ErrNotFound) {
		err = store.SaveControl(ctx, conn, s.spec.Migration, store.Control{Database: name, Owner: store.OwnerSource, Epoch: 1, Shards: s.spec.Shards.ShardsOf(name)})
	}
	if err != nil {
		return err
	}
	return target.Prepare(ctx, s.source, conn, l, name)
}

// journaled writes a journal row before and after a command's work.
func (s *session) journaled(ctx context.Context, command string, fn func(context.Context) error) error {
	j := store.NewJournal(s.spec.Migration, command)
	if err := j.Record(ctx, s.source, command, "started", nil); err != nil {
		return err
	}
	err := fn(ctx)
	outcome, detail := "ok", map[string]any(nil)
	if err != nil {
		outcome, detail = "failed", map[string]any{"error": err.Error()}
	}
	clean, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if jerr := j.Record(clean, s.source, command, outcome, detail); err == nil {
		return jerr
	}
	return err
}
