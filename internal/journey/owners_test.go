package journey

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// forbidden tries, after a cutover, what nobody may do any more: to write a row to the
// source, or one to a database where it does not belong. The error says where the row
// lives now.
func (j *trip) forbidden() {
	places := j.c.writers[0].places
	for key, shard := range places {
		home := j.w.database(j.w.home[shard])
		j.refusedTo(j.w.sourceDSN(), "public", key, home)
		if other := j.otherLocation(shard); other != (location{}) {
			j.refusedTo(j.w.databaseDSN(other.database), other.schema, key, "")
		}
		j.refusedTruncate(j.w.sourceDSN())
		return
	}
}

// otherLocation is a place where rows of the shard do not belong.
func (j *trip) otherLocation(shard int) location {
	for at, shards := range j.w.locations() {
		belongs := false
		for _, s := range shards {
			belongs = belongs || s == shard
		}
		if !belongs {
			return at
		}
	}
	return location{}
}

func (j *trip) refusedTo(dsn, schema, key, home string) {
	sql := fmt.Sprintf("INSERT INTO %s.block (id, workspace_id, doc) VALUES (gen_random_uuid(), '%s', '{}')", schema, key)
	err := asApplication(j.w, dsn, sql)
	switch {
	case err == nil:
		j.t.Errorf("a row of %s was written where it does not belong: %s", key, sql)
	case !strings.Contains(err.Error(), j.w.migration) || !strings.Contains(err.Error(), home):
		j.t.Errorf("the refusal does not say where the row lives (%s): %v", home, err)
	}
}

func (j *trip) refusedTruncate(dsn string) {
	err := func() (err error) {
		j.w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
			_, err = conn.Exec(ctx, "TRUNCATE public.comment")
			return nil
		})
		return err
	}()
	if err == nil {
		j.t.Error("TRUNCATE on the source was let through after the cutover")
	}
}

// asApplication runs a statement in a transaction that is rolled back, and gives its
// error.
func asApplication(w *world, dsn, sql string) (failed error) {
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET ROLE "+app+"; BEGIN"); err != nil {
			return err
		}
		_, failed = conn.Exec(ctx, sql)
		_, err := conn.Exec(ctx, "ROLLBACK")
		return err
	})
	return failed
}
