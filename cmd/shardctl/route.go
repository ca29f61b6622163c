package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/layout"
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
have moved, and who owns them now. A negative number is given after "--". Where the source
cannot be reached, the databases' own copies are asked.`,
			`  shardctl route 8c0f7e7a-54a1-4f0e-9d0a-0c9a1b6f2f10
  shardctl route -o json -- -17`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return migrate.Usage("usage.argument", "shardctl route", "needs exactly one key", "shardctl route KEY")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.route(cmd.Context(), args[0]) },
	}
}

func (a *app) route(ctx context.Context, key string) error {
	s, c, err := a.openOrCopies(ctx, "route")
	if err != nil {
		return err
	}
	if c != nil {
		return a.routeByCopies(ctx, c, key)
	}
	defer s.close(ctx)
	l, err := s.layout(ctx)
	if err != nil {
		return err
	}
	family, typeName := "", ""
	for _, t := range l.Tables {
		if t.Family != "" {
			family, typeName = t.Family, t.Key.TypeName
			break
		}
	}
	owners, err := s.owners(ctx)
	if err != nil {
		return err
	}
	return a.printRoute(s.spec, family, typeName, owners, key)
}

// routeByCopies answers where the source cannot be reached.
func (a *app) routeByCopies(ctx context.Context, c *copies, key string) error {
	a.note(c)
	var family string
	for _, d := range c.spec.Databases {
		if _, found := c.found[d.Name]; !found {
			continue
		}
		err := c.on(ctx, d, "route", func(ctx context.Context, conn *pgx.Conn) (err error) {
			family, err = layout.CopiedFamily(ctx, conn, c.spec, d.Name)
			return err
		})
		if err != nil {
			return err
		}
		break
	}
	return a.printRoute(c.spec, family, family, c.owners(), key)
}

// printRoute prints where a key of a family lives; without a family all rows are in the
// one shard.
func (a *app) printRoute(spec *migrate.Spec, family, typeName string, owners []store.Ownership, key string) error {
	doc := routeDocument{Key: key, Owner: store.OwnerSource}
	if family != "" {
		h, err := shardhash.New(family, spec.Shards.Count)
		if err != nil {
			return err
		}
		if strings.HasPrefix(typeName, "character(") {
			key = strings.TrimRight(key, " ") // which char does not count
		}
		if doc.Shard, err = h.ShardText([]byte(key)); err != nil {
			return migrate.Usage("usage.key", key, "is no key of type "+typeName, "")
		}
	}
	loc := spec.LocationOf(doc.Shard)
	doc.Schema, doc.Database = loc.Schema, loc.Database
	for _, o := range owners {
		if o.Database == doc.Database {
			doc.Epoch, doc.Owner = o.Epoch, o.Owner
		}
	}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintf(w, "key %s: shard %d, schema %s on %s, owned by %s (epoch %d)\n", doc.Key, doc.Shard, doc.Schema, doc.Database, doc.Owner, doc.Epoch)
	})
}
