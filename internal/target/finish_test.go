package target_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/target"
)

// reactions are what the user's session of writing meets: triggers of all kinds.
const reactions = `
CREATE TRIGGER "a ON ""x" BEFORE INSERT OR UPDATE OF "Note" ON "My ""App"."Bl""ock" FOR EACH ROW WHEN (NEW."Note" <> ' ON "My ""App"') EXECUTE FUNCTION lib.touch('it''s');
CREATE TRIGGER always AFTER INSERT ON "My ""App"."Bl""ock" FOR EACH STATEMENT EXECUTE FUNCTION lib.seen();
ALTER TABLE "My ""App"."Bl""ock" ENABLE ALWAYS TRIGGER always;
CREATE TRIGGER asleep AFTER DELETE ON "My ""App"."Bl""ock" FOR EACH ROW EXECUTE FUNCTION lib.seen();
ALTER TABLE "My ""App"."Bl""ock" DISABLE TRIGGER asleep;
CREATE TRIGGER each AFTER INSERT ON "My ""App".comment FOR EACH ROW EXECUTE FUNCTION lib.seen();
ALTER TABLE "My ""App"."Bl""ock" REPLICA IDENTITY USING INDEX "Bl""ock_Ws_id_key"; ALTER TABLE "My ""App".comment_old REPLICA IDENTITY FULL;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON "My ""App".comment_old DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lib.seen();
`

// keyAt gives a key of a shard.
func keyAt(t *testing.T, r *rig, shard int) string {
	t.Helper()
	return r.source.Value(t, fmt.Sprintf("SELECT min(k) FROM generate_series(1, 100) k WHERE %s = %d", r.layout.ShardSQL(r.layout.Tables[0], "k"), shard))
}

const belongings = `SELECT 'constraint ' || conrelid::regclass::text || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = '"Shard 01"'::regnamespace AND conparentid = 0
	UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = '"Shard 01"'::regnamespace
	UNION ALL SELECT pg_get_triggerdef(t.oid) || ' ' || tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = '"Shard 01"'::regnamespace AND tgname NOT LIKE 'RI\_%' AND tgname NOT LIKE '%closed' ORDER BY 1`

func TestFinishMakesWhatTheSourceHas(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments+reactions, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	r.finish(t, "db0")
	db := r.databases["db0"]
	all := db.Rows(t, belongings)
	for _, want := range []string{
		`constraint "Shard 01"."B""" later CHECK ((n <> 13)) NOT VALID`,
		`constraint "Shard 01"."B""" apart EXCLUDE USING gist (during WITH &&) WHERE (((fee)::numeric > (100)::numeric))`,
		`constraint "Shard 01"."B""" Bl"ock_Ws_id_key UNIQUE ("Ws", id)`,
		`constraint "Shard 01"."B""" Bl"ock_plan_fkey FOREIGN KEY (plan) REFERENCES "My ""App".plan(id) ON DELETE SET NULL`,
		`constraint "Shard 01".comment comment_block_fkey FOREIGN KEY (block) REFERENCES "Shard 01"."B"""(id) ON DELETE CASCADE`,
		`CREATE INDEX "by ""title" ON "Shard 01"."B""" USING btree (lower((title COLLATE "C")) DESC NULLS LAST, "Ws") INCLUDE (n) WITH (fillfactor='70') WHERE ((moods <> '{}'::lib."Mood"[]) AND (title <> ' ON "My ""App"'::text))`,
		`CREATE UNIQUE INDEX by_code ON "Shard 01"."B""" USING btree (lib.code(n), "Ws" DESC)`,
		`CREATE UNIQUE INDEX "Bl""ock_pkey" ON "Shard 01"."B""" USING btree (id) WITH (fillfactor='90')`,
		`CREATE INDEX only_old ON "Shard 01".comment_old USING btree (body)`,
		`CREATE INDEX comment_new_0_block_idx ON "Shard 01".comment_new_0 USING btree (block)`,
		`CREATE TRIGGER "a ON ""x" BEFORE INSERT OR UPDATE OF "Note" ON "Shard 01"."B""" FOR EACH ROW WHEN (((new."Note")::text <> ' ON "My ""App"'::text)) EXECUTE FUNCTION lib.touch('it''s') D`,
		`CREATE TRIGGER always AFTER INSERT ON "Shard 01"."B""" FOR EACH STATEMENT EXECUTE FUNCTION lib.seen() D`,
		`CREATE TRIGGER each AFTER INSERT ON "Shard 01".comment_new_0 FOR EACH ROW EXECUTE FUNCTION lib.seen() D`,
		`CREATE CONSTRAINT TRIGGER late AFTER INSERT ON "Shard 01".comment_old DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lib.seen() D`,
	} {
		if !strings.Contains("\n"+strings.Join(all, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	for _, line := range all {
		if strings.HasPrefix(line, "CREATE") && strings.Contains(line, "TRIGGER") && !strings.HasSuffix(line, " D") {
			t.Errorf("a trigger is awake: %s", line)
		}
	}
	show(t, db, `SELECT count(*) FROM pg_constraint WHERE NOT convalidated AND conname <> 'later'`, "0")
	show(t, db, `SELECT relname, relreplident, (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = c.oid AND indisreplident) FROM pg_class c
		WHERE relnamespace = '"Shard 01"'::regnamespace AND relkind = 'r' ORDER BY 1`, `B"|i|"Shard 01"."Bl""ock_Ws_id_key"`, "comment_new_0|d|NULL", "comment_old|f|NULL")
	r.finish(t, "db0") // again
	if again := db.Rows(t, belongings); strings.Join(again, "\n") != strings.Join(all, "\n") {
		t.Errorf("a second run changed:\n%s\nto:\n%s", strings.Join(all, "\n"), strings.Join(again, "\n"))
	}
	r.prepare(t, "db0") // also again
}

// states are the states of the triggers of a database that are not the server's.
func states(t *testing.T, db *pgtest.Database) string {
	t.Helper()
	return strings.Join(db.Rows(t, `SELECT t.tgrelid::regclass::text || ' ' || tgname || ' ' || tgenabled::text FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid
		WHERE p.pronamespace <> 'pg_catalog'::regnamespace ORDER BY 1`), "\n")
}

func TestOpenAndClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments+reactions, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	r.finish(t, "db0")
	db := r.databases["db0"]
	closed := states(t, db)
	r.turn(t, "db0", target.Open)
	state, err := fence.ReadDatabase(t.Context(), r.conns["db0"], r.layout, "db0")
	if err != nil || state != (fence.DatabaseState{Closed: fence.Disabled, Guard: fence.Enabled, Everywhere: fence.Enabled}) {
		t.Errorf("state when open: %v (%v)", state, err)
	}
	show(t, db, `SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = '"Shard 00"."B"""'::regclass AND NOT tgisinternal ORDER BY 1`,
		`a ON "x|O`, "always|A", "asleep|D", "shardctl_m_closed|D", "shardctl_m_guard|A", "shardctl_m_hand_down|A")

	k0, k1 := keyAt(t, r, 0), keyAt(t, r, 1)
	at := `SET search_path = "Shard 00", "My ""App"`
	expect(t, db, at, `INSERT INTO "B""" (id, "Ws", fee) VALUES ('00000000-0000-0000-0000-000000000001', `+k0+`, 3)`, "")
	expect(t, db, at, `INSERT INTO "B""" (id, "Ws", fee) VALUES (gen_random_uuid(), `+k1+`, 3)`, fence.Misplaced)
	expect(t, db, at, `INSERT INTO "B""" ("Ws", fee, plan) VALUES (`+k0+`, 3, 77)`, "23503")
	expect(t, db, at, `INSERT INTO comment (at, block) VALUES ('2019-01-01', '00000000-0000-0000-0000-000000000001'), ('2021-01-01', '00000000-0000-0000-0000-000000000001')`, "")
	expect(t, db, at, `INSERT INTO comment (at, block) VALUES ('2019-01-01', gen_random_uuid())`, "23503")
	expect(t, db, at, `INSERT INTO plan (title) VALUES ('x')`, fence.Refused)
	show(t, db, `SELECT "Note" FROM "Shard 00"."B"""`, "touched it's")
	show(t, db, `SELECT DISTINCT "Ws" FROM "Shard 00".comment`, k0)
	other := r.source.Value(t, fmt.Sprintf("SELECT min(k) FROM generate_series(%s + 1, 1000) k WHERE %s = 0", k0, r.layout.ShardSQL(r.layout.Tables[0], "k")))
	expect(t, db, at, `UPDATE "B""" SET "Ws" = `+other, "")
	show(t, db, `SELECT DISTINCT "Ws" FROM "Shard 00".comment`, other)
	expect(t, db, at, `UPDATE comment SET "Ws" = 1`, "") // what the application writes there is corrected
	show(t, db, `SELECT DISTINCT "Ws" FROM "Shard 00".comment`, other)
	expect(t, db, at, `DELETE FROM "B"""`, "")
	show(t, db, `SELECT count(*) FROM "Shard 00".comment`, "0")

	r.turn(t, "db0", target.Close)
	if got := states(t, db); got != closed {
		t.Errorf("states after open and close:\n%s\nbefore:\n%s", got, closed)
	}
	expect(t, db, at, `INSERT INTO "B""" ("Ws") VALUES (`+k0+`)`, fence.Refused)
	r.turn(t, "db0", target.OpenEverywhere)
	expect(t, db, at, `INSERT INTO plan (title) VALUES ('x')`, "")
	expect(t, db, at, `INSERT INTO "B""" ("Ws") VALUES (`+k0+`)`, fence.Refused)
}

func TestOpenBeforeFinish(t *testing.T) {
	t.Parallel()
	r := newRig(t, odd+comments, oddSpec("Shard %02d"), "db0")
	r.prepare(t, "db0")
	refused(t, target.Open(t.Context(), r.conns["db0"], r.layout, "db0"), "target.unfinished", "db0")
	if done, err := target.Finished(t.Context(), r.conns["db0"], r.layout); err != nil || done {
		t.Errorf("finished before the copy: %t, %v", done, err)
	}
	r.finish(t, "db0")
	if done, err := target.Finished(t.Context(), r.conns["db0"], r.layout); err != nil || !done {
		t.Errorf("not finished: %t, %v", done, err)
	}
}
