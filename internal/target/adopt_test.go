package target_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/target"
)

func TestTablesMadeAnewAreClosedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	db := r.databases["db0"]
	adopt := func() error { return target.Adopt(t.Context(), r.conns["db0"], r.layout, "db0") }
	const closed = `SELECT count(*) FROM pg_trigger WHERE tgname = 'shardctl_m_closed'`
	all := db.Value(t, closed)
	db.Exec(t, `DROP TABLE "Shard 00"."B"""`)
	refused(t, adopt(), "target.missing", `"Shard 00"."B"""`)
	db.Exec(t, `CREATE TABLE "Shard 00"."B""" (LIKE "Shard 01"."B""" INCLUDING ALL)`)
	db.Exec(t, `INSERT INTO "Shard 00"."B""" (id, "Ws") VALUES (gen_random_uuid(), 1)`)
	refused(t, adopt(), "target.not_ours", `"Shard 00"."B"""`)
	db.Exec(t, `TRUNCATE "Shard 00"."B"""`)
	for range 2 {
		if err := adopt(); err != nil {
			t.Fatal(err)
		}
		if got := db.Value(t, closed); got != all {
			t.Errorf("%s closed fences, there were %s", got, all)
		}
	}
	if _, err := r.conns["db0"].Exec(t.Context(), `INSERT INTO "Shard 00"."B""" (id, "Ws") VALUES (gen_random_uuid(), 1)`); err == nil {
		t.Error("the table is open")
	}
}
