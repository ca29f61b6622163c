package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/shardhash"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// routeDocument is the answer of route.
type routeDocument struct {
	Key      string `json:"key"`
	Shard    int    `json:"shard"`
	Schema   string `json:"schema"`
	Database string `json:"database"`
	Epoch    int64  `json:"epoch"`
	Owner    string `json:"owner"`
}

func newRoute(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "route KEY",
		Short: "Show the shard, location and owner of a key",
		Long: help(`Prints which logical shard a key hashes to, where the rows of that shard live once they
have moved, and who owns them now. A negative number is given after "--".`,
			`  shardctl route 8c0f7e7a-54a1-4f0e-9d0a-0c9a1b6f2f10
  shardctl route -o json -- -17`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return migrate.Usage("usage.argument", "shardctl route", "needs exactly one key", "shardctl route KEY")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd.Context(), "route")
			if err != nil {
				return err
			}
			defer s.close(cmd.Context())
			l, err := s.layout(cmd.Context())
			if err != nil {
				return err
			}
			doc := routeDocument{Key: args[0], Owner: store.OwnerSource}
			for _, t := range l.Tables {
				if t.Family == "" {
					continue
				}
				h, err := shardhash.New(t.Family, s.spec.Shards.Count)
				if err != nil {
					return err
				}
				if doc.Shard, err = h.ShardText([]byte(args[0])); err != nil {
					return migrate.Usage("usage.key", args[0], "is no key of type "+t.Key.TypeName, "")
				}
				break
			}
			loc := s.spec.LocationOf(doc.Shard)
			doc.Schema, doc.Database = loc.Schema, loc.Database
			owners, err := s.owners(cmd.Context())
			if err != nil {
				return err
			}
			for _, o := range owners {
				if o.Database == doc.Database {
					doc.Epoch, doc.Owner = o.Epoch, o.Owner
				}
			}
			return s.print(doc, func(w io.Writer) {
				fmt.Fprintf(w, "key %s: shard %d, schema %s on %s, owned by %s (epoch %d)\n", doc.Key, doc.Shard, doc.Schema, doc.Database, doc.Owner, doc.Epoch)
			})
		},
	}
}
