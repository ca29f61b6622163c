package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func newReport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "report",
		Short: "Print the journal: what was done, when, by whom, and how it ended",
		Long: help(`Prints every step of every command of this migration, with who ran it, from the state on
the source. Reads only.`,
			`  shardctl report
  shardctl report -o json | jq '.journal[] | select(.command == "cutover")'`, "4"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			s, err := a.open(ctx, "report")
			if err != nil {
				return err
			}
			defer s.close(ctx)
			if s.migration == nil {
				return migrate.Refuse("phase.order", "migration "+s.spec.Migration, "nothing was done yet", "run shardctl prepare")
			}
			entries, err := store.ReadJournal(ctx, s.source, s.spec.Migration, 0)
			if err != nil {
				return err
			}
			return s.print(map[string]any{"migration": s.spec.Migration, "phase": s.phase(), "journal": entries}, func(w io.Writer) {
				for _, e := range entries {
					fmt.Fprintf(w, "%s  %-10s %-22s %-8s %s@%s pid %d %s\n", e.At.Format(time.RFC3339Nano), e.Command, e.Step, e.Outcome, e.OSUser, e.Host, e.PID, e.Detail)
				}
			})
		},
	}
}
