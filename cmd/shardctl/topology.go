package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

func newTopology(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show the topology document, or write it to every router",
		Long: help("The topology document says for each logical shard which database and schema owns it now.",
			`  shardctl topology show -o json
  shardctl topology push --yes`, "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return migrate.Usage("usage.argument", "shardctl topology", "say show or push", "see shardctl topology --help")
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "show",
		Short: "Print the topology document",
		Long:  help("Prints who owns which shard, from the source's state, or, where the source cannot be\nreached, from the databases' own copies. Reads only.", "  shardctl topology show -o json | jq '.shards[0]'"),
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.showTopology(cmd.Context()) },
	}, &cobra.Command{
		Use:   "push",
		Short: "Write the topology document to every router",
		Long: help(`Writes the document to every router and reads it back. Before the first cutover everything
is on the source. A router that has a later epoch is refused.`, "  shardctl topology push", "4", "5"),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pushTopology(cmd.Context()) },
	})
	return cmd
}

// document is the topology as the source's state says.
func (s *session) document(ctx context.Context) (topology.Topology, error) {
	owners, err := s.owners(ctx)
	if err != nil {
		return topology.Topology{}, err
	}
	return topology.Build(s.spec, owners)
}

func (a *app) showTopology(ctx context.Context) error {
	doc, err := a.readTopology(ctx)
	if err != nil {
		return err
	}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintf(w, "migration %s, epoch %d\n", doc.Migration, doc.Epoch)
		for _, r := range doc.Shards {
			fmt.Fprintf(w, "shard %4d  %-12s %s schema %s\n", r.Shard, r.Database, r.Primary(), r.Schema)
		}
	})
}

// readTopology asks the source, or, where it cannot be reached, the databases.
func (a *app) readTopology(ctx context.Context) (topology.Topology, error) {
	s, c, err := a.openOrCopies(ctx, "topology")
	if err != nil {
		return topology.Topology{}, err
	}
	if c != nil {
		a.note(c)
		return topology.Build(c.spec, c.owners())
	}
	defer s.close(ctx)
	return s.document(ctx)
}

func (a *app) pushTopology(ctx context.Context) error {
	s, err := a.open(ctx, "topology")
	if err != nil {
		return err
	}
	defer s.close(ctx)
	if s.migration == nil {
		return s.require("topology push", migrate.Prepared)
	}
	ctx, _, release, err := s.lease(ctx, store.Operator)
	if err != nil {
		return err
	}
	defer release()
	routers, closeRouters, err := s.routers(ctx)
	defer closeRouters()
	if err != nil {
		return err
	}
	err = s.journaled(ctx, "topology push", func(ctx context.Context) error {
		doc, err := s.document(ctx)
		if err != nil {
			return err
		}
		for _, r := range routers {
			if err := r.Commit(ctx, doc); err != nil {
				return err
			}
			if err := r.ReadBack(ctx, doc); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.finished("done")
}
