package verify

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a migration of a small source, with capture, whose databases are
// brought level when the test says so.
type world struct {
	t         testing.TB
	spec      *migrate.Spec
	layout    *layout.Layout
	source    *pgtest.Database
	databases []*pgtest.Database
	targets   []postgres.Target
	verifier  *Verifier
	events    []Event
	conns     map[*pgtest.Database]*pgx.Conn
}

// build makes a world of n databases and their shards. The DDL runs on the source
// and, with the schema's name in the place of public, at each location.
func build(t testing.TB, n int, shards migrate.Shards, tables []migrate.Table, types, ddl string) *world {
	t.Helper()
	all := pgtest.NewDatabases(t, n+1)
	w := &world{t: t, source: all[0], databases: all[1:], conns: map[*pgtest.Database]*pgx.Conn{}}
	w.spec = &migrate.Spec{Version: 1, Migration: "m", Shards: shards, Tables: tables}
	for i := range w.databases {
		w.spec.Databases = append(w.spec.Databases, migrate.Database{Name: fmt.Sprintf("db%d", i)})
	}
	for shard := range shards.Count {
		w.spec.Shards.Placement = append(w.spec.Shards.Placement, fmt.Sprintf("db%d", shard*n/shards.Count))
	}
	w.source.Exec(t, types+";"+ddl)
	ctx := context.Background()
	must(t, store.CreateSource(ctx, w.conn(w.source)))
	l, err := layout.Load(ctx, w.conn(w.source), w.spec)
	must(t, err)
	w.layout = l
	w.log(w.source, false)
	for i, db := range w.databases {
		w.prepare(i, db, types, ddl)
	}
	cfg := Config{Layout: l, Source: postgres.Target{Name: "source", DSN: migrate.Secret(w.source.DSN())}, Databases: w.targets,
		Observe: func(e Event) { w.events = append(w.events, e) }}
	w.verifier = New(cfg)
	w.verifier.limits.backoff, w.verifier.limits.rounds = time.Millisecond, 3
	t.Cleanup(w.verifier.Close)
	return w
}

// conn is a session of the test's own goroutine.
func (w *world) conn(db *pgtest.Database) *pgx.Conn {
	w.t.Helper()
	if w.conns[db] == nil {
		w.conns[db] = w.pinned(db)
	}
	return w.conns[db]
}

func (w *world) pinned(db *pgtest.Database) *pgx.Conn {
	w.t.Helper()
	conn, err := postgres.Connect(context.Background(), postgres.Target{Name: db.Name, DSN: migrate.Secret(db.DSN())}, "test")
	must(w.t, err)
	w.t.Cleanup(func() { postgres.CloseQuietly(context.Background(), conn) })
	return conn
}

func (w *world) prepare(i int, db *pgtest.Database, types, ddl string) {
	t, ctx, name := w.t, context.Background(), fmt.Sprintf("db%d", i)
	w.targets = append(w.targets, postgres.Target{Name: name, DSN: migrate.Secret(db.DSN())})
	var all strings.Builder
	all.WriteString(types + ";")
	for _, schema := range w.spec.Schemas(name) {
		if schema != "public" {
			all.WriteString("CREATE SCHEMA " + postgres.Ident(schema) + ";")
		}
		all.WriteString(strings.ReplaceAll(ddl, "public.", postgres.Ident(schema)+".") + ";")
	}
	for _, table := range w.layout.Tables {
		for _, loc := range w.layout.Locations(table, name) {
			if table.Spec.As != "" {
				fmt.Fprintf(&all, "ALTER TABLE %s RENAME TO %s;", postgres.Table(loc.Schema, table.Spec.Name.Name), postgres.Ident(table.Spec.As))
			}
			if table.StoreAs == "" {
				continue
			}
			fmt.Fprintf(&all, "ALTER TABLE %s ADD COLUMN %s %s;", w.layout.QualifiedTarget(table, loc), postgres.Ident(table.StoreAs), table.Key.TypeName)
		}
	}
	db.Exec(t, all.String())
	must(t, store.CreateDatabase(ctx, w.conn(db)))
	w.log(db, true)
	w.own(i, store.OwnerSource, 1)
	w.save(i, store.Forward, store.FirstSnapshot)
	w.save(i, store.Reverse, store.FirstSnapshot)
}

// own writes the owner of a database's shards on both sides.
func (w *world) own(i int, owner string, epoch int64) {
	w.t.Helper()
	ctx, name := context.Background(), fmt.Sprintf("db%d", i)
	shards := w.spec.Shards.ShardsOf(name)
	must(w.t, store.SaveOwnership(ctx, w.conn(w.source), "m", store.Ownership{Database: name, Shards: shards, Owner: owner, Epoch: epoch}))
	must(w.t, store.SaveControl(ctx, w.conn(w.databases[i]), "m", store.Control{Database: name, Shards: shards, Owner: owner, Epoch: epoch}))
}

// save writes a position, with the data it speaks of.
func (w *world) save(i int, d store.Direction, snapshot string) {
	w.t.Helper()
	holder := w.databases[i]
	if d == store.Reverse {
		holder = w.source
	}
	p := store.Position{SystemIdentifier: "1", Timeline: 1, Marker: uuid.New(), Snapshot: snapshot, Tick: 1, LSN: "0/1"}
	must(w.t, store.SavePosition(context.Background(), w.conn(holder), "m", fmt.Sprintf("db%d", i), d, p))
}

// log makes the logs of all tables and the triggers that fill their first segment,
// on the source or at the locations of a database.
func (w *world) log(db *pgtest.Database, onDatabase bool) {
	w.t.Helper()
	var ddl strings.Builder
	for _, table := range w.layout.Tables {
		columns := ""
		var olds, news, both []string
		for i, c := range table.PK {
			columns += fmt.Sprintf(", o%d %s, n%d %s", i+1, c.TypeName, i+1, c.TypeName)
			olds, news = append(olds, fmt.Sprintf("o%d", i+1)), append(news, fmt.Sprintf("n%d", i+1))
			both = append(both, postgres.Ident(c.Name))
		}
		switch {
		case table.Key != nil && !table.Derived():
			columns += fmt.Sprintf(", okey %s, nkey %s", table.Key.TypeName, table.Key.TypeName)
			olds, news, both = append(olds, "okey"), append(news, "nkey"), append(both, postgres.Ident(table.Key.Name))
		case table.Derived():
			columns += fmt.Sprintf(", ovia %s, nvia %s", table.Via.TypeName, table.Via.TypeName)
			olds, news, both = append(olds, "ovia"), append(news, "nvia"), append(both, postgres.Ident(table.Via.Name))
		}
		for segment := range logschema.Segments {
			name := postgres.Table("shardctl", logschema.Log("m", table.No, segment))
			fmt.Fprintf(&ddl, `CREATE TABLE %s (xid xid8 NOT NULL DEFAULT pg_current_xact_id(), op "char" NOT NULL, loc name,
				seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY%s) WITH (autovacuum_enabled = off); CREATE INDEX ON %s (xid);`, name, columns, name)
		}
		log, f := postgres.Table("shardctl", logschema.Log("m", table.No, 0)), postgres.Table("shardctl", logschema.Capture("m", table.No))
		row := func(alias string) string { return alias + "." + strings.Join(both, ", "+alias+".") }
		fmt.Fprintf(&ddl, `CREATE FUNCTION %[1]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF TG_OP = 'INSERT' THEN INSERT INTO %[2]s (op, %[4]s) VALUES ('I', %[6]s);
			ELSIF TG_OP = 'DELETE' THEN INSERT INTO %[2]s (op, %[3]s) VALUES ('D', %[5]s);
			ELSIF TG_OP = 'TRUNCATE' THEN INSERT INTO %[2]s (op) VALUES ('T');
			ELSE INSERT INTO %[2]s (op, %[3]s, %[4]s) VALUES ('U', %[5]s, %[6]s); END IF; RETURN NULL; END $$;`,
			f, log, strings.Join(olds, ", "), strings.Join(news, ", "), row("OLD"), row("NEW"))
		for _, name := range w.tablesOn(table, db, onDatabase) {
			fmt.Fprintf(&ddl, `CREATE TRIGGER cap AFTER INSERT OR UPDATE OR DELETE ON %[1]s FOR EACH ROW
				WHEN (current_setting('shardctl.applier', true) IS DISTINCT FROM 'm') EXECUTE FUNCTION %[2]s();
				CREATE TRIGGER capt AFTER TRUNCATE ON %[1]s EXECUTE FUNCTION %[2]s();`, name, f)
		}
	}
	db.Exec(w.t, ddl.String())
}

func (w *world) tablesOn(table *layout.Table, db *pgtest.Database, onDatabase bool) []string {
	if !onDatabase {
		return []string{table.QualifiedSource()}
	}
	var names []string
	for i, d := range w.targets {
		if d.DSN.Reveal() == db.DSN() {
			for _, loc := range w.layout.Locations(table, fmt.Sprintf("db%d", i)) {
				names = append(names, w.layout.QualifiedTarget(table, loc))
			}
		}
	}
	return names
}

// catchUp brings databases level with the source as a tick does: rows and position
// in one transaction, as of one snapshot of the source.
func (w *world) catchUp(databases ...int) {
	w.t.Helper()
	ctx := context.Background()
	if databases == nil {
		for i := range w.databases {
			databases = append(databases, i)
		}
	}
	must(w.t, postgres.WithTx(ctx, w.conn(w.source), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(from pgx.Tx) error {
		var snapshot string
		if err := from.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&snapshot); err != nil {
			return err
		}
		for _, i := range databases {
			err := postgres.WithTx(ctx, w.conn(w.databases[i]), pgx.TxOptions{}, func(to pgx.Tx) error { return w.copyAll(ctx, from, to, i, snapshot) })
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (w *world) copyAll(ctx context.Context, from, to pgx.Tx, i int, snapshot string) error {
	name := fmt.Sprintf("db%d", i)
	if _, err := to.Exec(ctx, "SET LOCAL session_replication_role = replica; SET LOCAL shardctl.applier = 'm'"); err != nil {
		return err
	}
	for _, table := range w.layout.Tables {
		columns := postgres.Idents("", layout.Names(table.Copied()))
		joins, key := table.KeyFrom("a")
		wanted := postgres.Idents("a", layout.Names(table.Copied()))
		if table.StoreAs != "" {
			columns, wanted = columns+", "+postgres.Ident(table.StoreAs), wanted+", "+key
		}
		for _, p := range w.verifier.places(table, w.verifier.databases[i]) {
			where := "true"
			if !table.Everywhere() {
				where = fmt.Sprintf("%s = ANY ('{%s}')", w.layout.ShardSQL(table, key), strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.shards)), ","), "[]"))
			}
			var rows bytes.Buffer
			out := fmt.Sprintf("COPY (SELECT %s FROM %s AS a%s WHERE %s) TO STDOUT", wanted, table.QualifiedSource(), joins, where)
			if _, err := from.Conn().PgConn().CopyTo(ctx, &rows, out); err != nil {
				return err
			}
			if _, err := to.Exec(ctx, "DELETE FROM "+p.table); err != nil {
				return err
			}
			if _, err := to.Conn().PgConn().CopyFrom(ctx, &rows, fmt.Sprintf("COPY %s (%s) FROM STDIN", p.table, columns)); err != nil {
				return err
			}
		}
	}
	return store.SavePosition(ctx, to, "m", name, store.Forward,
		store.Position{SystemIdentifier: "1", Timeline: 1, Marker: uuid.New(), Snapshot: snapshot, Tick: 1, LSN: "0/1"})
}

// damage runs SQL on a database as its applier would: nothing notices.
func (w *world) damage(db *pgtest.Database, sql string, args ...any) {
	w.t.Helper()
	ctx := context.Background()
	must(w.t, postgres.WithTx(ctx, w.conn(db), pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica; SET LOCAL search_path = public"); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			w.t.Errorf("damage hit nothing: %s", sql)
		}
		return err
	}))
}

// full runs a full pass.
func (w *world) full() *Result {
	w.t.Helper()
	r, err := w.verifier.Full(context.Background())
	must(w.t, err)
	return r
}

// lines prints differences, in order, to be compared.
func lines(found []Difference) []string {
	out := []string{}
	for _, d := range found {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s.%s %s", d.Kind, d.Table, strings.Join(d.Key, ","), d.Database, d.Schema, strings.Join(d.Columns, ","))))
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
