package verify

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/store"
)

// loadPosition reads how far a database was brought; it stands with the data.
func (v *Verifier) loadPosition(ctx context.Context, holder *server, database string, d store.Direction) (p store.Position, err error) {
	err = holder.with(ctx, func(conn *pgxpool.Conn) error {
		p, err = store.LoadPosition(ctx, conn, v.migration(), database, d)
		return err
	})
	return p, err
}

// awaitReplica waits until a replica of the source has all that the databases were given:
// before that it would show rows that are old in neither log window.
func (v *Verifier) awaitReplica(ctx context.Context) error {
	if v.read == v.source {
		return nil
	}
	const replayed = `SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= $1::text::pg_lsn`
	for _, d := range v.databases {
		p, err := v.loadPosition(ctx, d, d.Name, store.Forward)
		if err != nil {
			return err
		}
		for done := false; !done; {
			err := v.read.with(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, replayed, p.LSN).Scan(&done) })
			if err != nil {
				return err
			}
			if !done {
				if err := wait(ctx, v.limits.backoff); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
