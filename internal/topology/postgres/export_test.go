package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	pg "github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
)

// CommitStopping commits a document, and stands still before the end for as long as
// stopped takes.
func (r *Router) CommitStopping(ctx context.Context, doc topology.Topology, stopped func()) error {
	return r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pg.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			err := r.write(ctx, tx, doc)
			if err == nil {
				stopped()
			}
			return err
		})
	})
}
