package cutover_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// refusedFor demands that a switch is refused before anybody waits, for a reason.
func (r *rig) refusedFor(name string, run func(context.Context, cutover.Config) (cutover.Report, error), parts ...string) {
	r.t.Helper()
	report, err := run(r.t.Context(), r.cfg)
	if migrate.ExitCode(err) != migrate.ExitRefused || report.Outcome != cutover.Refused || report.Pause.Router != nil {
		r.t.Errorf("%s: %+v: %v", name, report, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			r.t.Errorf("%s: %v, which does not say %q", name, err, part)
		}
	}
}

// What would be found missing in the window, or when the databases are opened after the
// commit, is looked for before anybody waits.
func TestACutoverIsRefusedWhereATriggerIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		d                       *pgtest.Database
		table, trigger, enabled string
		says                    string
	}{
		{r.source, "item", "shardctl_m_fence_2", "DISABLE", "the fence for db1 is mi"},
		{r.db0, "s_0.item", "shardctl_m_guard", "DISABLE", "db0: its placement guards are mixed"},
		{r.db1, "s_2.item", "shardctl_m_closed", "ENABLE ALWAYS", "db1: its closed fence is mixed"},
	} {
		again := c.d.Value(t, "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = $1 AND tgrelid = $2::text::regclass", c.trigger, c.table)
		c.d.Exec(t, "DROP TRIGGER "+c.trigger+" ON "+c.table)
		r.refusedFor(c.trigger, cutover.Cutover, c.says)
		c.d.Exec(t, again)
		c.d.Exec(t, "ALTER TABLE "+c.table+" "+c.enabled+" TRIGGER "+c.trigger)
	}
	r.serving(true, false)
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
}

func TestALaneWithoutRoomIsRefusedBeforeThePause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.source.Exec(t, "ALTER SEQUENCE item_id_seq MAXVALUE 60")
	r.refusedFor("lane", cutover.Cutover, "public.item_id_seq", "outside its bounds 1 to 60")
	r.serving(true, false)
}

func TestADatabaseThatIsReadOnlyByDefaultIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.db1.Value(t, "SELECT current_database()")
	r.source.Exec(t, "ALTER DATABASE "+postgres.Ident(name)+" SET default_transaction_read_only = on")
	r.refusedFor("read-only", cutover.Cutover, "db1", "default_transaction_read_only")
	r.source.Exec(t, "ALTER DATABASE "+postgres.Ident(name)+" RESET default_transaction_read_only")
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
}

func TestAnotherDatabaseBehindADSNIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	right := r.cfg.Databases[1].DSN
	r.cfg.Databases[1].DSN = r.cfg.Databases[0].DSN
	r.refusedFor("another member", cutover.Cutover, "db1: this is not the database that the migration was prepared on")
	r.cfg.Databases[1].DSN = right
	r.db1.Exec(t, "ALTER SCHEMA shardctl RENAME TO lost")
	r.refusedFor("a database without state", cutover.Cutover, "db1", "no state of migration m")
	r.db1.Exec(t, "ALTER SCHEMA lost RENAME TO shardctl")
	r.serving(true, false)
}

// A lock on a database holds up the applier: without the gate a cutover would wait for it.
func TestALockOnADatabaseRefusesACutover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.MaxPause = 400 * time.Millisecond
	holder, name := r.open(r.db0, "LOCK TABLE s_0.item IN ACCESS EXCLUSIVE MODE")
	r.aged(r.db0, holder.PgConn().PID())
	r.refusedFor("lock", cutover.Cutover, name, "idle in transaction")
}

// A lock that is taken after the gates have looked ends the drain that it holds up.
func TestALockThatHoldsUpADrainIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.source.Exec(t, "INSERT INTO item (owner, body) SELECT i, 'new' FROM generate_series(1, 40) i")
	var name string
	r.cfg.Observe = func(s cutover.Step) {
		if s.Name == "gate: sequence lanes" {
			_, name = r.open(r.db0, "LOCK TABLE s_0.item IN ACCESS EXCLUSIVE MODE")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	report, err := cutover.Cutover(ctx, r.cfg)
	if migrate.ExitCode(err) != migrate.ExitRefused || report.Pause.Router != nil || name == "" || !strings.Contains(err.Error(), "held up by "+name) {
		t.Errorf("%+v: %v, which does not say %q", report, err, name)
	}
}

// pooled is a router whose clients have a transaction open on a session of a server.
type pooled struct {
	topology.Router
	session topology.Session
}

func (p pooled) Busy(context.Context, topology.Scope) ([]topology.Session, error) {
	return []topology.Session{p.session}, nil
}

// A PAUSE waits for readers, too.
func TestALongReaderInAPoolRefusesASwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plain := r.cfg.Routers[0]
	for _, turn := range []struct {
		d   *pgtest.Database
		run func(context.Context, cutover.Config) (cutover.Report, error)
	}{{r.source, cutover.Cutover}, {r.db1, cutover.Rollback}} {
		r.cfg.MaxPause = 400 * time.Millisecond
		reader, name := r.open(turn.d, "SELECT 1")
		r.aged(turn.d, reader.PgConn().PID())
		r.cfg.Routers = []topology.Router{pooled{plain, topology.Session{Router: "pooler", Entry: "app_003", Shard: 3, To: "primary", PID: reader.PgConn().PID()}}}
		r.refusedFor("reader", turn.run, "app_003 of pooler", name)
		_, err := reader.Exec(t.Context(), "ROLLBACK")
		must(t, err)
		r.cfg.MaxPause = 10 * time.Second
		_, err = turn.run(t.Context(), r.cfg)
		must(t, err)
	}
}

// What is written while a round compares may be too much for the window: there is another
// round, and a refusal before anybody waits where that never ends.
func TestTheGateComparesUntilLittleIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.verdict.full = 1000
	r.refusedFor("room", cutover.Cutover, "more is written while the last writes are compared")
	r.verdict.full, r.verdict.asked = 3, 0
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	if r.verdict.asked != 4 {
		t.Errorf("%d rounds, want 4", r.verdict.asked)
	}
}

// A table without a way back moves with all its databases, and stays where it is.
func TestATableWithoutAWayBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Layout.Tables[0].Spec.Rollback = "none"
	r.refusedFor("one of two", func(ctx context.Context, cfg cutover.Config) (cutover.Report, error) {
		cfg.Only = []string{"db0"}
		return cutover.Cutover(ctx, cfg)
	}, "public.item", "rollback: none", "without --database")
	_, err := cutover.Cutover(t.Context(), r.cfg)
	must(t, err)
	r.refusedFor("back", cutover.Rollback, "public.item", "no way back")
	r.serving(false, true)
	if report, err := cutover.Cutover(t.Context(), r.cfg); err != nil || report.Outcome != cutover.Nothing {
		t.Errorf("a second cutover: %+v, %v", report, err)
	}
}
