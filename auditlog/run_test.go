package auditlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// running is an applier that runs until the test ends it.
type running struct {
	stop context.CancelFunc
	done chan error
}

func (r *rig) run(t testing.TB, a *auditlog.Applier, o auditlog.RunOptions) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{cancel, make(chan error, 1)}
	go func() {
		err := a.Run(ctx, o)
		a.Close(context.Background())
		run.done <- err
	}()
	t.Cleanup(cancel)
	return run
}

// end stops it and gives its error.
func (run *running) end(t testing.TB) error {
	t.Helper()
	run.stop()
	return run.wait(t)
}

func (run *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-run.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the applier does not end")
		return nil
	}
}

// heard waits for an event of a kind.
func (r *rig) heard(t testing.TB, kind auditlog.ProgressKind, database string) auditlog.Progress {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case p := <-r.events:
			if p.Kind == kind && p.Database == database {
				return p
			}
		case <-deadline:
			t.Fatalf("no event %q of %q", kind, database)
		}
	}
}

func TestOnceDrainsAndEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{batch: 5})
	r.source.Exec(t, twenty)
	must(t, r.run(t, r.applier, auditlog.RunOptions{Once: true}).wait(t))
	r.want(t)
	// The same with a way back, and with a lag to reach.
	r.own(t, "db0")
	for k := 1; k <= 20; k++ {
		if _, db := r.at(t, k); db == 0 {
			r.write(t, k, fmt.Sprintf("UPDATE %%.block SET body = 'back' WHERE id = %d", k))
		}
	}
	must(t, r.run(t, r.applier, auditlog.RunOptions{UntilLag: 5 * time.Second}).wait(t))
	r.want(t)
	if got := r.source.Value(t, "SELECT count(*) FROM shardctl.lease"); got != "0" {
		t.Errorf("%s leases are left", got)
	}
}

func TestRunGoesOnInTheDirectionThatTheOwnersSay(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	r.heard(t, auditlog.TakenOver, "")
	r.source.Exec(t, twenty)
	soon(t, func() bool { return r.count(t, "block") == 20 && r.count(t, "comment") == 20 })

	// A second one is refused, and names the holder.
	second := r.newApplier(t, 0, rigSpec{})
	if err := second.Run(t.Context(), auditlog.RunOptions{}); migrate.ExitCode(err) != migrate.ExitLeaseHeld {
		t.Errorf("a second applier: %v", err)
	}

	// An operator asks; the lease is free within two seconds; the operator switches.
	operator, err := store.Acquire(t.Context(), r.sourceTarget(), "m", store.Operator)
	must(t, err)
	conn := r.connect(t, r.sourceTarget())
	must(t, store.RequestHandover(t.Context(), conn, "m", "cutover"))
	pgtest.Eventually(t, 3*time.Second, func() bool {
		done, err := store.HandoverAnswered(t.Context(), conn, "m")
		must(t, err)
		return done
	})
	lease, err := store.Acquire(t.Context(), r.sourceTarget(), "m", store.Applier)
	must(t, err)
	r.own(t)
	lease.Release(t.Context())
	must(t, store.ClearHandover(t.Context(), conn, "m"))
	operator.Release(t.Context())

	// It comes back under a new term and goes the other way.
	if p := r.heard(t, auditlog.TakenOver, ""); p.Term <= lease.Term {
		t.Errorf("took over under term %d, the operator had %d", p.Term, lease.Term)
	}
	r.write(t, 1, "UPDATE %.block SET body = 'from the database' WHERE id = 1")
	soon(t, func() bool {
		return r.source.Value(t, "SELECT body FROM public.block WHERE id = 1") == "from the database"
	})
	if err := run.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestADatabaseThatIsDownHoldsBackOnlyItself, and says why.
func TestADatabaseThatIsDownHoldsBackOnlyItself(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t, pgtest.ClusterOptions{})
	r := newRig(t, rigSpec{last: server})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	r.source.Exec(t, "INSERT INTO public.plan VALUES (0, 'first')")
	soon(t, func() bool { return r.dbs[0].Value(t, "SELECT count(*) FROM public.plan") == "1" })
	server.Stop(t, "immediate")
	for i := 1; i <= 5; i++ {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.plan VALUES (%d, 'x')", i))
		soon(t, func() bool { return r.dbs[0].Value(t, "SELECT count(*) FROM public.plan") == fmt.Sprint(i+1) })
	}
	if p := r.heard(t, auditlog.Waiting, "db1"); p.Err == nil || p.First == nil {
		t.Errorf("waiting without a reason: %+v", p)
	}
	server.Start(t)
	r.heard(t, auditlog.Recovered, "db1")
	r.source.Exec(t, "INSERT INTO public.plan VALUES (9, 'together')")
	soon(t, func() bool { return r.position(t, 0) == r.position(t, 1) })
	r.want(t)
	if err := run.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// TestADatabaseThatHangsHoldsBackOnlyItself: its table is locked, nothing fails.
func TestADatabaseThatHangsHoldsBackOnlyItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	r.heard(t, auditlog.TakenOver, "")
	hold := begin(t, r.dbs[1])
	exec(t, hold, "LOCK TABLE public.plan IN EXCLUSIVE MODE")
	for i := range 3 {
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.plan VALUES (%d, 'x')", i))
		soon(t, func() bool { return r.dbs[0].Value(t, "SELECT count(*) FROM public.plan") == fmt.Sprint(i+1) })
	}
	r.heard(t, auditlog.Waiting, "db1")
	must(t, hold.Rollback(t.Context()))
	soon(t, func() bool { return r.dbs[1].Value(t, "SELECT count(*) FROM public.plan") == "3" })
	run.end(t)
}

// TestDatabasesThatAllStandStillGoOnApart: what is alike in their errors is no failure of
// the source, and each has more patience when alone.
func TestDatabasesThatAllStandStillGoOnApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	r.heard(t, auditlog.TakenOver, "")
	var holds []pgx.Tx
	for _, d := range r.dbs {
		hold := begin(t, d)
		exec(t, hold, "LOCK TABLE public.plan IN ACCESS EXCLUSIVE MODE")
		holds = append(holds, hold)
	}
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'x')")
	apart := map[string]bool{}
	for len(apart) < len(r.dbs) {
		select {
		case p := <-r.events:
			if p.Kind == auditlog.Waiting {
				if p.Database == "" {
					t.Fatalf("told of the source: %v", p.Err)
				}
				apart[p.Database] = true
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("apart are %v", apart)
		}
	}
	for i, hold := range holds {
		must(t, hold.Rollback(t.Context()))
		soon(t, func() bool { return r.dbs[i].Value(t, "SELECT count(*) FROM public.plan") == "1" })
	}
	run.end(t)
}

// TestOnceIsNotOverWhileAQuarantinedKeyIsLate: its own tick says nothing of the log.
func TestOnceIsNotOverWhileAQuarantinedKeyIsLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{databases: 1, batch: 4})
	r.dbs[0].Exec(t, "CREATE UNIQUE INDEX ON public.plan (name)")
	r.source.Exec(t, "INSERT INTO public.plan VALUES (1, 'a'), (2, 'a')")
	r.level(t)
	if got := quarantine(t, r.dbs[0]); len(got) != 1 {
		t.Fatalf("in quarantine: %v", got)
	}
	hold := begin(t, r.dbs[0])
	exec(t, hold, "LOCK TABLE public.plan IN EXCLUSIVE MODE")
	for i := range 20 { // a transaction each: the first batch has a part of them
		r.source.Exec(t, fmt.Sprintf("INSERT INTO public.block VALUES (%d, %[1]d, 'x')", i))
	}
	run := r.run(t, r.newApplier(t, 0, rigSpec{batch: 4}), auditlog.RunOptions{Once: true}) // it has tried none yet
	r.heard(t, auditlog.Waiting, "db0")
	must(t, hold.Rollback(t.Context()))
	must(t, run.wait(t))
	if n := r.count(t, "block"); n != 20 {
		t.Errorf("it ended with %d rows of 20", n)
	}
}

// TestALogThatIsNotFilledIsNotLevel: it has nothing new either.
func TestALogThatIsNotFilledIsNotLevel(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, twenty)
	r.level(t)
	r.source.Exec(t, "ALTER TABLE public.block DISABLE TRIGGER ALL; UPDATE public.block SET body = 'unseen'")
	err := r.run(t, r.newApplier(t, 0, rigSpec{}), auditlog.RunOptions{Once: true}).wait(t)
	if migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), "public.block") {
		t.Errorf("ended with %v", err)
	}
}

func TestAHeldDatabaseIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.dbs[1].Exec(t, "UPDATE shardctl.control SET held = true")
	r.source.Exec(t, twenty)
	run := r.run(t, r.applier, auditlog.RunOptions{Once: true})
	r.heard(t, auditlog.Holding, "db1")
	r.dbs[1].Exec(t, "UPDATE shardctl.control SET held = false")
	must(t, run.wait(t))
	r.want(t)
}

// TestDDLAndGapsStopTheApplier with a word on what to do.
func TestDDLAndGapsStopTheApplier(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	r.heard(t, auditlog.TakenOver, "")
	r.source.Exec(t, "ALTER TABLE public.plan ADD COLUMN more int")
	if err := run.wait(t); migrate.ExitCode(err) != migrate.ExitRefused || !strings.Contains(err.Error(), "more") {
		t.Errorf("ended with %v", err)
	}
}

// TestALostLeaseIsTakenBack when its session is ended: the applier takes it back.
func TestALostLeaseIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	run := r.run(t, r.applier, auditlog.RunOptions{})
	first := r.heard(t, auditlog.TakenOver, "")
	r.source.Exec(t, "SELECT pg_terminate_backend(backend_pid) FROM shardctl.lease WHERE role = 'applier'")
	if again := r.heard(t, auditlog.TakenOver, ""); again.Term <= first.Term {
		t.Errorf("taken back under term %d, it had %d", again.Term, first.Term)
	}
	r.source.Exec(t, twenty)
	soon(t, func() bool { return r.count(t, "block") == 20 })
	run.end(t)
}

func TestDrainsAreProven(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{batch: 4})
	r.source.Exec(t, twenty)
	// The operator holds the tables as a cutover does.
	hold := begin(t, r.source)
	exec(t, hold, "LOCK TABLE public.block, public.comment IN SHARE ROW EXCLUSIVE MODE")
	must(t, r.applier.DrainForward(t.Context(), nil))
	must(t, hold.Rollback(t.Context()))
	r.want(t)
	must(t, r.applier.ProveReverse(t.Context(), nil))
	r.own(t)
	r.write(t, 1, "UPDATE %.block SET body = 'back' WHERE id = 1")
	must(t, r.applier.DrainReverse(t.Context(), []string{"db0", "db1"}))
	r.want(t)
	// Capture that does not stand is noticed.
	r.dbs[0].Exec(t, "ALTER TABLE shard_0.block DISABLE TRIGGER shardctl_m_capture")
	if err := r.applier.ProveReverse(t.Context(), nil); err == nil {
		t.Error("reverse capture is off, and was proven")
	}
}

// TestACrashBetweenMarkerAndApply: the next tick does all again.
func TestACrashBetweenMarkerAndApply(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.source.Exec(t, twenty)
	hold := begin(t, r.dbs[0])
	exec(t, hold, "LOCK TABLE shard_0.block IN EXCLUSIVE MODE")
	done := make(chan error, 1)
	go func() {
		_, err := r.applier.Forward(t.Context(), "db0")
		done <- err
	}()
	soon(t, func() bool {
		return r.source.Value(t, "SELECT count(*) FROM shardctl.marker") == "1" && r.source.Value(t, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name = 'shardctl apply'") != "0"
	})
	r.source.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shardctl apply' AND datname = '%s'", r.dbs[0].Name))
	if err := <-done; err == nil {
		t.Fatal("the tick survived its session")
	}
	must(t, hold.Rollback(t.Context()))
	if got := r.position(t, 0); !strings.HasPrefix(got, "1:1:") {
		t.Errorf("the position moved to %s", got)
	}
	r.level(t)
	r.want(t)
}

// TestAHungOperatorDoesNotKeepTheApplierAway: after a handover it goes on when the
// operator's heartbeat is too old, as when its session has ended.
func TestAHungOperatorDoesNotKeepTheApplierAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.run(t, r.applier, auditlog.RunOptions{})
	first := r.heard(t, auditlog.TakenOver, "")
	operator, err := store.Acquire(t.Context(), r.sourceTarget(), "m", store.Operator)
	must(t, err)
	defer operator.Release(t.Context())
	conn := r.connect(t, r.sourceTarget())
	must(t, store.RequestHandover(t.Context(), conn, "m", "cutover"))
	pgtest.Eventually(t, 3*time.Second, func() bool {
		done, err := store.HandoverAnswered(t.Context(), conn, "m")
		must(t, err)
		return done
	})
	// Its next heartbeat comes three seconds after it began, which is long enough.
	r.source.Exec(t, "UPDATE shardctl.lease SET heartbeat_at = now() - interval '16 s' WHERE role = 'operator'")
	if p := r.heard(t, auditlog.TakenOver, ""); p.Term <= first.Term {
		t.Errorf("took over under term %d, after %d", p.Term, first.Term)
	}
}

// TestARollbackThatDidNotReachADatabaseLosesNothing: the source owns the shards again,
// the database was down when it was to be told. What the source is written meanwhile is
// not passed over.
func TestARollbackThatDidNotReachADatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSpec{})
	r.own(t)
	for i := range r.dbs {
		r.source.Exec(t, "UPDATE shardctl.ownership SET owner = 'source' WHERE database = $1", r.name(i))
	}
	r.run(t, r.applier, auditlog.RunOptions{})
	r.source.Exec(t, twenty)
	r.heard(t, auditlog.Waiting, r.name(0))
	r.giveBack(t)
	soon(t, func() bool { return r.count(t, "block") == 20 && r.count(t, "comment") == 20 })
	if got := r.source.Value(t, "SELECT count(*) FROM shardctl.stray"); got != "0" {
		t.Errorf("%s rows are called stray", got)
	}
}

// TestASourceThatWentBackInTimeStopsTheApplier: whatever a source says of the owners that
// knows an earlier epoch than a database, nothing is applied by it, in no direction.
func TestASourceThatWentBackInTimeStopsTheApplier(t *testing.T) {
	t.Parallel()
	for owner, word := range map[string]string{"the database": store.OwnerSource, "the source": "db0"} {
		t.Run(owner+" owns the shards", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSpec{databases: 1, schema: "app"})
			if owner == "the database" {
				r.own(t)
			}
			r.dbs[0].Exec(t, "UPDATE shardctl.control SET epoch = 7")
			r.source.Exec(t, "UPDATE shardctl.ownership SET epoch = 6, owner = $1", word)
			r.source.Exec(t, twenty)
			r.dbs[0].Exec(t, "INSERT INTO app.block VALUES (99, 99, 'x')")
			err := r.run(t, r.applier, auditlog.RunOptions{}).wait(t)
			var failure *migrate.Failure
			if !errors.As(err, &failure) || failure.Code != "epoch.source_behind" || failure.Exit != migrate.ExitAmbiguous {
				t.Errorf("the applier ended with %v", err)
			}
			if got := r.count(t, "block"); got != 1 {
				t.Errorf("%d rows on the database, one was written there", got)
			}
			if got := r.source.Value(t, "SELECT (SELECT count(*) FROM public.block) + (SELECT count(*) FROM shardctl.stray)"); got != "20" {
				t.Errorf("%s rows and strays on the source, 20 were written there", got)
			}
		})
	}
}
