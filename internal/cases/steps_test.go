package cases

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/binary"
	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/pgtest"
)

// nothing leaves the live statements to a later step.
func nothing(*run) error { return nil }

// sixTimes runs the live statements in a loop.
func sixTimes(r *run) error {
	for range 6 {
		if err := r.app.run(r.ctx, r.f.live); err != nil {
			return err
		}
	}
	return nil
}

// tenKills kills catch-up at random moments, and runs it again at once.
func tenKills(r *run) {
	for range 10 {
		time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond) // the moment is the point
		r.catchup.Kill()
		r.catchup = r.begin("catchup")
	}
}

// repaired lets verify find what is left, and hands it to the log.
func repaired(r *run) {
	if doc := r.code([]int{0, 3}, "verify"); doc["state"] != "clean" {
		r.code([]int{0, 3}, "verify", "--repair", "--yes")
	}
}

// throughPooler leads shardctl to the source through a pooler in transaction mode.
func throughPooler(r *run) {
	entry := fmt.Sprintf("[databases]\n%s = host=127.0.0.1 port=%d dbname=%[1]s\n", r.source.dbname, r.source.server.Port())
	pooler, err := localpg.NewPgBouncer(r.ctx, localpg.PgBouncerOptions{Databases: entry, Settings: []string{"default_pool_size = 2"}})
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, pooler.Close()) })
	r.env = append(r.env, "SOURCE_DSN="+pooler.DSN(r.source.dbname))
	for range 2 {
		c := r.begin("prepare")
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // killed at any moment
		c.Kill()
	}
	locks, err := r.source.value(r.ctx, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'")
	if must(r.t, err); locks != "0" {
		r.t.Errorf("%s advisory locks are left", locks)
	}
}

const (
	oddRole     = "case user@x"
	oddPassword = `p@ss:w/rd?#[%41]&x=1 'q"\{}^|`
)

// everyFormOfDSN gives a difficult password in three ways, and a wrong one.
func everyFormOfDSN(r *run) {
	quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(oddPassword) + "'"
	must(r.t, r.databases[0].exec(r.ctx, fmt.Sprintf("ALTER ROLE %s PASSWORD %s", ident(oddRole), "E"+strings.ReplaceAll(quoted, `\'`, `''`))))
	must(r.t, r.source.exec(r.ctx, "GRANT CREATE ON DATABASE "+r.source.dbname+" TO "+ident(oddRole)))
	passfile := filepath.Join(r.dir, "pgpass")
	must(r.t, os.WriteFile(passfile, []byte("*:*:*:*:"+strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(oddPassword)+"\n"), 0o600))
	forms := map[string]func(place) string{
		"URI": func(p place) string {
			u, err := url.Parse(p.dsn(""))
			must(r.t, err)
			u.User = url.UserPassword(oddRole, oddPassword)
			return u.String()
		},
		"keys": func(p place) string {
			return fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s sslmode=disable user='%s' password=%s", p.server.Port(), p.dbname, oddRole, quoted)
		},
		"password file": func(p place) string {
			return fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s sslmode=disable user='%s' passfile='%s'", p.server.Port(), p.dbname, oddRole, passfile)
		},
	}
	plain := r.env
	for name, form := range forms {
		r.env = append(plain[:len(plain):len(plain)], "SOURCE_DSN="+form(r.source), "DB0_DSN="+form(r.databases[0]), "DB1_DSN="+form(r.databases[1]))
		if got := r.begin("plan").Wait(r.t); got.Code != 0 {
			r.t.Errorf("%s: %s", name, got)
		}
	}
	good := r.env
	r.env = append(good[:len(good):len(good)], "SOURCE_DSN="+strings.Replace(forms["keys"](r.source), "x=1", "x=2", 1))
	got := r.begin("plan").Wait(r.t)
	if got.Code != 1 && got.Code != 4 || strings.Contains(got.Stdout+got.Stderr, "x=2") || strings.Contains(got.Stdout+got.Stderr, "p@ss") {
		r.t.Errorf("a wrong password: %s", got)
	}
	r.env = good
}

// besideAnOpenWriter starts a cutover while a transaction has written and is open.
func besideAnOpenWriter(r *run) {
	written := make(chan error, 1)
	go func() { written <- r.app.run(r.ctx, r.f.live) }()
	r.awaitWriter()
	r.code([]int{0, 4, 7}, "cutover", "--yes")
	must(r.t, <-written)
	r.do("cutover", "--yes")
}

// awaitWriter waits until the case's statements have begun to write.
func (r *run) awaitWriter() {
	r.t.Helper()
	r.awaitSome("pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL AND application_name NOT LIKE 'shardctl%'")
}

// besideABacklog starts a cutover with a pause too short for what is being written.
func besideABacklog(r *run) {
	written := make(chan error, 1)
	go func() { written <- r.app.run(r.ctx, r.f.live) }()
	r.awaitWriter()
	first := r.code([]int{0, 4, 7}, "cutover", "--yes", "--max-pause", "1s")
	err := <-written
	if first["outcome"] == "done" {
		return // what was still written then was refused by the fence, and is compared
	}
	must(r.t, err)
	doc := r.do("status")
	if doc["phase"] != "backfilled" {
		r.t.Errorf("after a cutover that was given up the phase is %v", doc["phase"])
	}
	r.mustBeLevel("after the cutover that was given up")
	r.do("cutover", "--yes")
}

// tooEarly runs phases before their time.
func tooEarly(r *run) {
	for _, args := range []string{"cutover --yes", "verify", "backfill", "rollback --yes", "complete --yes", "catchup --once"} {
		r.code([]int{4}, strings.Fields(args)...)
	}
	r.do("prepare")
}

// again runs every command once more, in any order.
func again(r *run) {
	for _, args := range []string{"cutover --yes", "verify", "install", "prepare", "backfill", "verify", "cutover --yes", "abort --yes"} {
		r.code([]int{0, 4}, strings.Fields(args)...)
	}
	r.mustBeLevel("after every command again")
}

// twoOrchestrators runs a second catch-up, and takes the first one's lock away.
func twoOrchestrators(r *run) {
	first := r.catchup
	r.awaitLease()
	r.code([]int{5}, "catchup")
	_, err := r.source.texts(r.ctx, "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE application_name LIKE 'shardctl applier lease%'")
	must(r.t, err)
	second := r.begin("catchup")
	var ended *binary.Command
	select {
	case <-first.Done():
		ended, r.catchup = first, second
	case <-second.Done():
		ended = second
	case <-time.After(20 * time.Second):
		r.t.Fatal("two catch-ups run")
	}
	if got := ended.Wait(r.t); got.Code == 0 {
		r.t.Errorf("the one that has no lease ends well: %s", got)
	}
}

// awaitLease waits until somebody holds the applier's lease.
func (r *run) awaitLease() {
	r.t.Helper()
	r.awaitSome("shardctl.lease WHERE role = 'applier'")
}

// awaitSome waits until the source has a row of a kind.
func (r *run) awaitSome(from string) {
	r.t.Helper()
	r.awaitAll(from, 1)
}

// awaitAll waits until the source has n rows of a kind.
func (r *run) awaitAll(from string, n int) {
	r.t.Helper()
	pgtest.Eventually(r.t, binary.Patience, func() bool {
		there, err := r.source.value(r.ctx, fmt.Sprintf("SELECT (count(*) >= %d)::text FROM %s", n, from))
		must(r.t, err)
		return there == "true"
	})
}

// turn cuts over or rolls back. One that was given up in time, as on a machine with much
// else to do, is run again.
func (r *run) turn(command string) {
	r.t.Helper()
	for range 4 {
		if doc := r.code([]int{0, 7}, command, "--yes"); doc["outcome"] != "aborted" {
			return
		}
	}
	r.do(command, "--yes")
}

// plantedDifferences changes four rows on the databases: verify has to find these.
func plantedDifferences(r *run) {
	everyShard("SET shardctl.applier = '" + r.migration + "'; UPDATE pair SET a = 'ab', b = 'c' WHERE id = 1; UPDATE pair SET b = '' WHERE id = 3; " +
		"UPDATE pair SET at = at + interval '1 microsecond' WHERE id = 4; UPDATE pair SET f = f + 1e-15 WHERE id = 5")(r)
	doc := r.code([]int{3}, "verify")
	found, _ := doc["differences"].([]any)
	keys := map[string]bool{}
	for _, d := range found {
		difference, _ := d.(map[string]any)
		keys[fmt.Sprint(difference["key"], difference["kind"], difference["columns"])] = true
	}
	for _, want := range []string{"[1]different[a b]", "[3]different[b]", "[4]different[at]", "[5]different[f]"} {
		if !keys[want] || len(found) != 4 {
			r.t.Errorf("verify finds %v, not 4 with %s", keys, want)
		}
	}
	r.code([]int{3}, "verify", "--repair", "--yes")
	r.mustBeLevel("after the repair")
	r.verified()
}
