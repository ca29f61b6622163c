package journey

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/placement"
)

// place asks the server which shard each workspace belongs to: the partition of a table
// PARTITION BY HASH that it falls into.
func (w *world) place(writers []*writer) {
	w.t.Helper()
	var keys []string
	for _, x := range writers {
		keys = append(keys, x.workspaces...)
	}
	places := w.placement(keys)
	for _, x := range writers {
		x.places = places
	}
}

func (w *world) placement(keys []string) (places map[string]int) {
	w.t.Helper()
	w.on(w.sourceDSN(), func(ctx context.Context, conn *pgx.Conn) (err error) {
		places, err = placement.OfUUIDs(ctx, conn, len(w.home), keys)
		return err
	})
	return places
}
