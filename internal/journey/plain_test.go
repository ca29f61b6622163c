package journey

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestPlainSchemaFast: the shards of a database share one set of tables, keys of comments
// are not stored, and the databases are filled without primary keys.
func TestPlainSchemaFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "plain", home: []int{0, 1, 1, 0, 1}, schema: "public", servers: 2, blocks: 24_000, writers: 3, pace: 30 * time.Millisecond})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs(), mode: "fast"}
	j.short()
	c.finish(t)
	j.damaged()
}

// TestCountOne: everything is shard 0, tables have no key, the one entry of the pooler has
// no number, and at the end the database owns its copy of the everywhere table.
func TestCountOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "one", home: []int{0}, schema: "public", blocks: 12_000, writers: 3, pace: 30 * time.Millisecond, always: true, ownCopies: true})
	c := w.startCrowd(t)
	j := &trip{t: t, w: w, c: c, before: w.catalogs()}
	j.short()
	c.finish(t)
}

// short goes forward, back and forward, and completes.
func (j *trip) short() {
	j.start()
	j.copyRows()
	j.c.keepShards()
	j.cutover()
	j.c.databasesServe(j.t, true)
	j.forbidden()
	j.rollback()
	j.c.sourceServes(j.t, true)
	j.verify()
	j.cutover()
	j.verify()
	j.complete()
	j.forbidden()
	if j.w.ownCopies {
		return
	}
	j.c.databasesServe(j.t, false)
	j.end()
}

// damaged proves that the oracle sees a row of a database that is lost, doubled, altered
// or at the wrong database: else a clean comparison would say nothing.
func (j *trip) damaged() {
	columns := "id, workspace_id, plan_id, doc, tags, amount, at, version"
	first := "(SELECT id FROM block ORDER BY id LIMIT 1)"
	var row string
	j.w.on(j.w.databaseDSN(0), func(ctx context.Context, conn *pgx.Conn) error {
		const literal = "SELECT format('%L, %L, %L, %L, %L, %L, %L, %L', id, workspace_id, plan_id, doc, tags, amount, at, version) FROM block ORDER BY id LIMIT 1"
		return conn.QueryRow(ctx, literal).Scan(&row)
	})
	for _, d := range []struct{ database, sql, sign string }{
		{"db0", "UPDATE block SET tags = tags || 'x'::text WHERE id = " + first, "instead of"},
		{"db1", fmt.Sprintf("INSERT INTO block (%s) VALUES (%s)", columns, row), "is at db1.public too"},
		{"db0", "DELETE FROM block WHERE id = " + first, "belongs to shard"},
		{"db1", "DELETE FROM block WHERE id = " + strings.SplitN(row, ",", 2)[0], "is nowhere"},
	} {
		database := 0
		if d.database == "db1" {
			database = 1
		}
		// In replica role no trigger fires but ours, which are told that it is the applier.
		j.w.exec(j.w.databaseDSN(database), fmt.Sprintf("SET session_replication_role = replica; SET shardctl.applier = '%s'; %s", j.w.migration, d.sql))
		if verdict := j.c.databasesDiffer(); !strings.Contains(verdict, d.sign) {
			j.t.Errorf("after %q on %s the oracle says %q, not %q", d.sql, d.database, verdict, d.sign)
		}
	}
}
