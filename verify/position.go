package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// loadPosition reads how far a database was brought; it stands with the data.
func (v *Verifier) loadPosition(ctx context.Context, holder *server, database string, d store.Direction) (p store.Position, err error) {
	err = holder.with(ctx, func(conn *pgxpool.Conn) error {
		p, err = store.LoadPosition(ctx, conn, v.migration(), database, d)
		return err
	})
	return p, err
}

// replicaPatience is how far a replica may be behind before a person should look.
const replicaPatience = 5 * time.Minute

// awaitReplica waits until a replica of the source has all that the databases were
// given: before that it would show rows that are old in neither log window.
func (v *Verifier) awaitReplica(ctx context.Context) error {
	if v.read == v.source {
		return nil
	}
	if err := v.sameServer(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(replicaPatience)
	for _, d := range v.databases {
		p, err := v.loadPosition(ctx, d, d.Name, store.Forward)
		if err != nil {
			return err
		}
		for done := false; !done; {
			const replayed = `SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= $1::text::pg_lsn`
			err := v.read.with(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, replayed, p.LSN).Scan(&done) })
			switch {
			case err != nil:
				return fmt.Errorf("ask %s how far it is: %w", v.read.Name, err)
			case !done && time.Now().After(deadline):
				return migrate.Refuse("verify.replica", v.read.Name, "the replica has not replayed what the databases already have", "wait for it, or remove read_dsn")
			case !done:
				if err := sleep.For(ctx, v.limits.backoff); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sameServer refuses a replica of something else.
func (v *Verifier) sameServer(ctx context.Context) error {
	var ids [2]postgres.Identity
	for i, s := range []*server{v.source, v.read} {
		err := s.with(ctx, func(conn *pgxpool.Conn) (err error) {
			ids[i], err = postgres.ReadIdentity(ctx, conn)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	if ids[0].SystemIdentifier != ids[1].SystemIdentifier || ids[0].Database != ids[1].Database {
		return migrate.Refuse("verify.replica", v.read.Name, "it is no replica of the source's database", "correct read_dsn")
	}
	return nil
}
