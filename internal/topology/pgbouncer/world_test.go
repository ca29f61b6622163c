package pgbouncer_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/conformance"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/migrate"
)

// world is a source and two databases on one server, and poolers in front of them.
type world struct {
	t       *testing.T
	dbs     []*pgtest.Database // source, db0, db1
	host    string
	port    uint16
	poolers []*localpg.PgBouncer
	spec    *migrate.Spec
}

// newWorld starts poolers whose files hold the given lines. In them {source} stands for
// the parameters that lead to the source.
func newWorld(t *testing.T, dbs []*pgtest.Database, shards, poolers int, lines string) *world {
	t.Helper()
	w := &world{t: t, dbs: dbs}
	cfg, err := pgconn.ParseConfig(w.dbs[0].DSN())
	if err != nil {
		t.Fatal(err)
	}
	w.host, w.port = cfg.Host, cfg.Port
	w.spec = &migrate.Spec{
		Migration: "blocks", Source: migrate.Source{DSN: migrate.Secret(w.dbs[0].DSN())},
		Databases: []migrate.Database{{Name: "db0", DSN: migrate.Secret(w.dbs[1].DSN())}, {Name: "db1", DSN: migrate.Secret(w.dbs[2].DSN())}},
		Shards:    migrate.Shards{Count: shards, Schema: "shard_%03d"},
		Tables:    []migrate.Table{{Name: migrate.TableName{Schema: "public", Name: "t"}}, {Name: migrate.TableName{Schema: "Odd Schema", Name: "t2"}}},
		Cutover:   migrate.CutoverSettings{MaxPause: 2 * time.Second},
	}
	for shard := range shards {
		w.spec.Shards.Placement = append(w.spec.Shards.Placement, w.spec.Databases[shard*2/max(shards, 2)].Name)
	}
	item := migrate.Router{Driver: "pgbouncer", Entries: []migrate.RouterEntry{{Database: "app_%03d", To: "primary"}}}
	for range poolers {
		b := newPooler(t, localpg.PgBouncerOptions{Databases: strings.ReplaceAll(lines, "{source}", w.source())})
		w.poolers = append(w.poolers, b)
		item.Instances = append(item.Instances, migrate.RouterInstance{AdminDSN: migrate.Secret(b.AdminDSN()), DatabasesFile: b.DatabasesFile})
	}
	w.spec.Topology = []migrate.Router{item}
	return w
}

// newPooler starts a pooler that retries failed logins as late as one does by default,
// so that a test hangs that lets one fail.
func newPooler(t *testing.T, o localpg.PgBouncerOptions) *localpg.PgBouncer {
	t.Helper()
	o.Settings = append([]string{"server_login_retry = 15"}, o.Settings...)
	b, err := localpg.NewPgBouncer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close pooler: %v", err)
		}
	})
	return b
}

func (w *world) source() string {
	return fmt.Sprintf("host=%s port=%d dbname=%s", w.host, w.port, w.dbs[0].Name)
}

// lines are entries of n shards that lead to the source.
func lines(n int) string {
	var b strings.Builder
	for shard := range n {
		fmt.Fprintf(&b, "app_%03d = {source} pool_size=5\n", shard)
	}
	return b.String()
}

// router is the spec's router, as a process has it, opened.
func (w *world) router() *pgbouncer.Router {
	w.t.Helper()
	r, err := pgbouncer.New(w.spec, w.spec.Topology[0])
	if err == nil {
		err = r.Open(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.Close)
	return r
}

// document has all shards on the source or on the databases.
func (w *world) document(epoch int64, moved ...string) topology.Topology {
	w.t.Helper()
	var owners []store.Ownership
	for _, d := range w.spec.Databases {
		owner := store.OwnerSource
		if strings.Contains(strings.Join(moved, " "), d.Name) {
			owner = d.Name
		}
		owners = append(owners, store.Ownership{Database: d.Name, Shards: w.spec.Shards.ShardsOf(d.Name), Owner: owner, Epoch: epoch})
	}
	doc, err := topology.Build(w.spec, owners)
	if err != nil {
		w.t.Fatal(err)
	}
	return doc
}

// file reads a pooler's file.
func (w *world) file(pooler int) string {
	w.t.Helper()
	b, err := os.ReadFile(w.poolers[pooler].DatabasesFile)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// through runs one statement through an entry of a pooler, as a client would.
func (w *world) through(ctx context.Context, pooler int, entry, sql string) (string, error) {
	cfg, err := pgx.ParseConfig(w.poolers[pooler].DSN(entry))
	if err != nil {
		return "", err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var value string
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

// leadsTo is the database that an entry leads to.
func (w *world) leadsTo(pooler int, entry string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	name, err := w.through(ctx, pooler, entry, "SELECT current_database()")
	if err != nil {
		w.t.Fatalf("through %s: %v", entry, err)
	}
	return name
}

// held reports whether a client of an entry waits: it has no answer, and the pooler
// neither has nor opens a server for it, several looks in a row.
func (w *world) held(pooler int, entry string) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := w.through(ctx, pooler, entry, "SELECT current_database()")
		answered <- err
	}()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for waiting := 0; waiting < 4; {
		select {
		case err := <-answered:
			if err != nil {
				w.t.Fatalf("through %s: %v", entry, err)
			}
			return false
		case <-poll.C:
			waiting++
			if !w.waits(pooler, entry) {
				waiting = 0
			}
		}
	}
	cancel()
	<-answered
	return true
}

// waits looks at the entry's pools: database, user, cl_active, cl_waiting, two of cancel
// requests, then the servers in their states up to maxwait.
func (w *world) waits(pooler int, entry string) bool {
	w.t.Helper()
	clients, servers := 0, 0
	for _, row := range w.admin(pooler, "SHOW POOLS") {
		if string(row[0]) != entry {
			continue
		}
		for n, value := range row[3:13] {
			count, err := strconv.Atoi(string(value))
			if err != nil {
				w.t.Fatal(err)
			}
			if n == 0 {
				clients += count
			} else if n > 2 {
				servers += count
			}
		}
	}
	return clients > 0 && servers == 0
}

// logsIn reports whether a server of the entry is logging in: sv_login stands after the
// states that waits counts.
func (w *world) logsIn(pooler int, entry string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.admin(pooler, "SHOW POOLS"), func(row [][]byte) bool {
		return string(row[0]) == entry && string(row[12]) != "0"
	})
}

// admin runs a command on a pooler's console.
func (w *world) admin(pooler int, command string) [][][]byte {
	w.t.Helper()
	conn, err := pgconn.Connect(w.t.Context(), w.poolers[pooler].AdminDSN())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(w.t.Context()) }()
	results, err := conn.Exec(w.t.Context(), command).ReadAll()
	if err != nil {
		w.t.Fatalf("%s: %v", command, err)
	}
	if len(results) == 0 {
		return nil
	}
	return results[0].Rows
}

// within bounds a call.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func testConformance(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"all entries ours": "", "with an entry of others": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) conformance.Target {
				w := newWorld(t, dbs, 2, 2, lines(2)+extra)
				entry := func(shard int) string { return fmt.Sprintf("app_%03d", shard) }
				return conformance.Target{
					Spec:    w.spec,
					Router:  func(*testing.T) topology.Router { r, _ := pgbouncer.New(w.spec, w.spec.Topology[0]); return r },
					LeadsTo: func(t *testing.T, shard int) string { return w.leadsTo(shard%2, entry(shard)) },
					Held:    func(t *testing.T, shard int) bool { return w.held(shard%2, entry(shard)) },
				}
			})
		})
	}
}
