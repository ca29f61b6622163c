package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
)

// caseTime bounds one case.
const caseTime = 10 * time.Minute

// run is one case on its way.
type run struct {
	t         testing.TB
	ctx       context.Context
	f         *file
	sp        special
	source    place
	databases []place
	tables    []*table
	dir       string
	spec      string
	env       []string
	migration string

	app     *sessions
	catchup *binary.Command
}

// result is how a case ended.
type result struct {
	file    *file
	outcome string // "exact", "refused" before anything changed, or "stopped"
	why     string // unless exact
}

func newRun(t testing.TB, l *lane, f *file) *run {
	ctx, cancel := context.WithTimeout(context.Background(), caseTime)
	t.Cleanup(cancel)
	number := strings.ToLower(f.id)
	r := &run{t: t, ctx: ctx, f: f, sp: specials[f.id], migration: number, source: place{"source", l.source, "src_" + number}}
	for i := range databases {
		r.databases = append(r.databases, place{fmt.Sprintf("db%d", i), l.target, fmt.Sprintf("%s_db%d", number, i)})
	}
	dir, err := os.MkdirTemp("", "shardctl-case-")
	must(t, err)
	r.dir = dir
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if r.app != nil {
			_ = r.app.close(ctx) // what a failed case left open
		}
		for _, p := range r.places() {
			must(t, p.drop(ctx))
		}
		must(t, l.dropRoles(ctx))
		must(t, os.RemoveAll(dir))
	})
	return r
}

func (r *run) places() []place { return append([]place{r.source}, r.databases...) }

// build makes the source as the case says, and empty databases beside it.
func (r *run) build() {
	t := r.t
	t.Helper()
	for _, p := range r.places() {
		must(t, p.create(r.ctx, encodingOf(r.f)))
	}
	setup := newSessions(r.source.dsn(""), r.sp.setup)
	must(t, setup.run(r.ctx, r.f.setup))
	must(t, setup.close(r.ctx))
	must(t, r.likeTheSource())
	r.readTables()
	r.spec = filepath.Join(r.dir, "shardctl.yaml")
	must(t, os.WriteFile(r.spec, []byte(specOf(r.migration, r.tables, filepath.Join(r.dir, "topology.json"), r.sp.keys, r.sp.spec...)), 0o600))
	r.env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SHARDCTL_") || strings.HasPrefix(v, "PG") })
	r.env = append(r.env, "SOURCE_DSN="+r.source.dsn(r.sp.role), "DB0_DSN="+r.databases[0].dsn(r.sp.role), "DB1_DSN="+r.databases[1].dsn(r.sp.role))
	r.app = newSessions(r.source.dsn(""), "")
}

// readTables reads the tables as they are now, those that the migration is about.
func (r *run) readTables() {
	r.t.Helper()
	is, err := readTables(r.ctx, r.source, r.f)
	must(r.t, err)
	if r.spec != "" {
		is = slices.DeleteFunc(is, func(t *table) bool {
			return !slices.ContainsFunc(r.tables, func(known *table) bool { return known.oid == t.oid })
		})
	}
	r.tables = is
}

// likeTheSource does on the databases what an operator does before: roles, extensions.
func (r *run) likeTheSource() error {
	roles, err := r.source.texts(r.ctx, `SELECT format('CREATE ROLE %I LOGIN PASSWORD ''case''', rolname) FROM pg_roles WHERE rolname LIKE 'case%'`)
	if err != nil {
		return err
	}
	extensions, err := r.source.texts(r.ctx, `SELECT format('CREATE SCHEMA IF NOT EXISTS %1$I; CREATE EXTENSION %2$I SCHEMA %1$I', n.nspname, e.extname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname <> 'plpgsql'`)
	if err != nil {
		return err
	}
	for _, sql := range roles {
		if err := r.databases[0].exec(r.ctx, sql); err != nil {
			return err
		}
	}
	for _, db := range r.databases {
		for _, sql := range extensions {
			if err := db.exec(r.ctx, sql); err != nil {
				return err
			}
		}
		if r.sp.role != "" {
			if err := r.source.exec(r.ctx, r.sp.grants); err != nil {
				return err
			}
			if err := db.exec(r.ctx, "ALTER DATABASE "+db.dbname+" OWNER TO "+ident(r.sp.role)); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin starts a command with the case's spec.
func (r *run) begin(args ...string) *binary.Command {
	c := binary.Begin(r.t, r.env, slices.Concat(args, []string{"--file", r.spec, "--output", "json", "--no-progress"})...)
	within := func() {}
	if r.sp.memory > 0 {
		used := c.WatchMemory()
		within = func() { r.within(c, used()) }
	}
	r.t.Cleanup(func() {
		c.Kill()
		within()
	})
	return c
}

// within fails the case where a command had more memory than the case allows.
func (r *run) within(c *binary.Command, used int64) {
	r.t.Logf("%s had %d MB", c.Args()[0], used>>20)
	if used == 0 || used > r.sp.memory {
		r.t.Errorf("%s: it had %d MB in memory, %d may be", c, used>>20, r.sp.memory>>20)
	}
}

// do runs a command that must succeed.
func (r *run) do(args ...string) binary.Document {
	r.t.Helper()
	result := r.begin(args...).Wait(r.t)
	if result.Code != 0 {
		r.t.Fatalf("shardctl %s: %s", strings.Join(args, " "), result)
	}
	doc, err := result.Document()
	must(r.t, err)
	return doc
}

// code runs a command that must end with one of some codes.
func (r *run) code(codes []int, args ...string) binary.Document {
	r.t.Helper()
	got := r.begin(args...).Wait(r.t)
	if !slices.Contains(codes, got.Code) {
		r.t.Fatalf("shardctl %s: want one of %v: %s", strings.Join(args, " "), codes, got)
	}
	doc, err := got.Document()
	must(r.t, err)
	return doc
}

// whole takes the case through the journey.
func (r *run) whole() result {
	r.build()
	r.hook(r.sp.built)
	if why := r.planned(); why != "" {
		return result{r.f, "refused", why}
	}
	r.do("prepare")
	r.onTargets(r.f.target)
	r.hook(r.sp.prepared)
	r.do("topology", "push", "--yes")
	must(r.t, r.app.run(r.ctx, r.f.before))
	r.do("install")
	r.catchup = r.begin("catchup")
	if why := r.copyUnderWrites(); why != "" {
		r.away()
		return result{r.f, "stopped", why}
	}
	r.hook(r.sp.copied)
	r.mustBeLevel("after the copy")
	r.verified()
	r.hook(r.sp.verified)
	r.cutOver()
	r.mustBeLevel("after the cutover")
	r.hook(r.sp.cutOver)
	r.turn("rollback")
	r.mustBeLevel("after the rollback")
	r.hook(r.sp.returned)
	if got := r.catchup.Interrupt(r.t); got.Code != 0 && got.Code != 130 {
		r.t.Errorf("catchup: %s", got)
	}
	r.away()
	return result{r.f, "exact", ""}
}

// away ends the case: abort has to leave nothing.
func (r *run) away() {
	r.t.Helper()
	must(r.t, r.app.close(r.ctx))
	r.do("abort", "--yes")
	r.nothingOfOurs()
}

func (r *run) hook(f func(*run)) {
	if f != nil {
		f(r)
	}
}

// planned runs plan, and checks a refusal: nothing may have changed.
func (r *run) planned() (refused string) {
	before := r.catalog()
	got := r.begin("plan").Wait(r.t)
	if got.Code == 0 {
		if r.f.outcome == "refuse" {
			r.t.Fatalf("plan refuses nothing: %s", got)
		}
		return ""
	}
	doc, err := got.Document()
	must(r.t, err)
	var objects []string
	findings, _ := doc["findings"].([]any)
	for _, f := range findings {
		finding, _ := f.(map[string]any)
		if finding["severity"] == "error" {
			objects = append(objects, fmt.Sprintf("%v %v: %v", finding["id"], finding["object"], finding["message"]))
		}
	}
	if got.Code != 4 || r.f.outcome == "exact" || len(objects) == 0 {
		r.t.Fatalf("plan: %s", got)
	}
	if after := r.catalog(); !slices.Equal(before, after) {
		r.t.Fatalf("plan refused and changed the catalogs: %v, then %v", before, after)
	}
	if got := r.begin("prepare").Wait(r.t); got.Code != 4 {
		r.t.Fatalf("plan refuses, prepare does not: %s", got)
	}
	if after := r.catalog(); !slices.Equal(before, after) {
		r.t.Fatalf("prepare refused and changed the catalogs: %v, then %v", before, after)
	}
	return strings.Join(objects, "; ")
}

// catalog lists the relations, functions, triggers and schemas of all places.
func (r *run) catalog() (out []string) {
	r.t.Helper()
	const sql = `SELECT 'relation ' || oid::regclass::text || ' ' || relkind::text || relrowsecurity::text FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace, 'information_schema'::regnamespace)
		UNION ALL SELECT 'function ' || oid::regprocedure::text FROM pg_proc WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
		UNION ALL SELECT 'trigger ' || tgrelid::regclass::text || ' ' || tgname || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' ORDER BY 1`
	for _, p := range r.places() {
		lines, err := p.texts(r.ctx, sql)
		must(r.t, err)
		for _, l := range lines {
			out = append(out, p.name+" "+l)
		}
	}
	return out
}

// nothingOfOurs checks what abort leaves.
func (r *run) nothingOfOurs() {
	r.t.Helper()
	for _, line := range r.catalog() {
		if strings.Contains(line, "shardctl") || strings.HasPrefix(line, "db") && strings.Contains(line, " s_") {
			r.t.Errorf("abort left %s", line)
		}
	}
}

// onTargets runs statements at every place of every shard.
func (r *run) onTargets(statements []statement) {
	r.t.Helper()
	if len(statements) == 0 {
		return
	}
	for shard := range shards {
		s := r.shard(shard)
		must(r.t, s.run(r.ctx, statements))
		must(r.t, s.close(r.ctx))
	}
}

// shard opens sessions as the router gives them to a shard's clients.
func (r *run) shard(shard int) *sessions {
	return newSessions(r.databases[shard*databases/shards].dsn(""), fmt.Sprintf("SET search_path = s_%d, public", shard))
}

// copyUnderWrites runs the backfill while the application's statements run. Where
// something stands in the way, the case says how an operator mends it.
func (r *run) copyUnderWrites() (stopped string) {
	t := r.t
	written := make(chan error, 1)
	copying := r.begin(append([]string{"backfill"}, r.sp.backfill...)...)
	go func() {
		if r.sp.live != nil {
			written <- r.sp.live(r)
			return
		}
		written <- r.app.run(r.ctx, r.f.live)
	}()
	r.hook(r.sp.during)
	if r.sp.stuck != nil {
		must(t, <-written)
		written <- nil
		r.mend(&copying)
	}
	if !r.endsBeforeCatchup(copying) {
		if why := r.stopped(); why != "" {
			copying.Kill()
			must(t, <-written)
			return why
		}
		t.Fatalf("catchup ended while backfill waits: %s\nbackfill: %s", r.catchup.Wait(t), copying.Stderr())
	}
	got := copying.Wait(t)
	must(t, <-written)
	if got.Code != 0 {
		t.Fatalf("backfill: %s\ncatchup: %s", got, binary.Tail(r.catchup.Stderr(), 3000))
	}
	return ""
}

// stopped gives why catch-up refused to go on, where the case allows that; "" if not.
func (r *run) stopped() string {
	got := r.catchup.Wait(r.t)
	doc, err := got.Document()
	must(r.t, err)
	failure, _ := doc["error"].(map[string]any)
	if got.Code != 4 || r.f.outcome == "exact" || failure == nil || failure["object"] == "" {
		return ""
	}
	return fmt.Sprintf("%v %v: %v", failure["code"], failure["object"], failure["message"])
}

// endsBeforeCatchup waits for a command; false if catch-up ended and it did not for a
// while after that.
func (r *run) endsBeforeCatchup(c *binary.Command) bool {
	select {
	case <-c.Done():
		return true
	case <-r.catchup.Done():
	}
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-c.Done():
		return true
	case <-timer.C:
		return false
	}
}

// mend waits until a command has stopped or a key is quarantined, does what the case
// says, and runs again what had ended.
func (r *run) mend(copying **binary.Command) {
	t := r.t
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !r.stuck(*copying); {
		<-ticker.C
		if time.Now().After(deadline) {
			t.Fatalf("nothing stopped, nothing is quarantined, nothing said: %s\nbackfill: %s", binary.Tail(r.catchup.Stderr(), 3000), binary.Tail((*copying).Stderr(), 3000))
		}
	}
	r.sp.stuck(r)
	if r.catchup.Ended() {
		r.catchup = r.begin("catchup")
	}
	r.readTables() // DDL may have changed them
	if got := *copying; got.Ended() && got.Wait(t).Code != 0 {
		*copying = r.begin("backfill")
	}
}

func (r *run) stuck(copying *binary.Command) bool {
	if r.catchup.Ended() || copying.Ended() && copying.Wait(r.t).Code != 0 {
		return true
	}
	if r.sp.says != "" && strings.Contains(r.catchup.Stderr()+copying.Stderr(), r.sp.says) {
		return true
	}
	return r.quarantined() > 0
}

// quarantined is how many keys status says are kept back.
func (r *run) quarantined() (n float64) {
	for _, d := range r.do("status")["databases"].([]any) {
		of, _ := d.(map[string]any)["quarantined"].(float64)
		n += of
	}
	return n
}

// mustBeLevel waits until both sides are equal, and what was kept back was tried again.
func (r *run) mustBeLevel(when string) {
	r.t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	patience := 40 * time.Second
	if r.f.long != "" {
		patience = 4 * time.Minute
	}
	for deadline := time.Now().Add(patience); ; <-poll.C {
		verdict, err := r.differs(r.ctx)
		must(r.t, err)
		if verdict == "" && r.sp.stuck != nil && r.quarantined() > 0 {
			verdict = "what was kept back was not tried again"
		}
		if verdict == "" {
			return
		}
		if r.catchup.Ended() {
			r.t.Fatalf("%s: %s\ncatchup ended: %s", when, verdict, r.catchup.Wait(r.t))
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %s\ncatchup: %s", when, verdict, binary.Tail(r.catchup.Stderr(), 3000))
		}
	}
}

// verified runs verify, which has to agree with this package: nothing differs.
func (r *run) verified() {
	r.t.Helper()
	doc := r.do("verify")
	if doc["state"] != "clean" {
		r.t.Fatalf("verify says %v", doc)
	}
}

func (r *run) cutOver() {
	r.t.Helper()
	if r.sp.cut != nil {
		r.sp.cut(r)
	} else {
		r.turn("cutover")
	}
	statements := r.f.after
	if r.sp.after != nil {
		statements = r.sp.after
	}
	for _, s := range statements {
		must(r.t, r.through(s))
	}
}

// through runs a statement as the application does after the cutover: a row is
// inserted where its key belongs, other statements run at every shard.
func (r *run) through(s statement) error {
	insert := strings.HasPrefix(strings.ToUpper(s.sql), "INSERT")
	var refused []error
	for shard := range shards * 3 { // a key that a sequence gives is another one each time
		if !insert && shard == shards {
			return errors.Join(refused...)
		}
		session := r.shard(shard % shards)
		err := session.run(r.ctx, []statement{s})
		must(r.t, session.close(r.ctx))
		if insert && err == nil {
			return nil
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("shard %d: %w", shard%shards, err))
		}
	}
	return errors.Join(refused...)
}

// query gives one value of a place.
func (p place) value(ctx context.Context, sql string) (value string, err error) {
	err = p.on(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&value) })
	return value, err
}
