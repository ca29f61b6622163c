package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// TestAWindowWhoseHostWasLostIsEnded from another host: neither the command nor the
// watchdog beside it is there to do it.
func TestAWindowWhoseHostWasLostIsEnded(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"cutover": false, "rollback": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if back {
				r.turn(r.forth, cutover.Done)
			}
			l := r.latch()
			released := r.beside()
			command, lease := r.lostInTheWindow(name)
			select {
			case end := <-released:
				t.Fatalf("ended although its command lives: %+v", end)
			case <-time.After(2500 * time.Millisecond): // what is tested is the time
			}
			term := r.source.Value(t, "SELECT min(term) FROM shardctl.ownership")
			lease.Release(t.Context()) // as the server does when the host's sessions are gone
			end := ended(t, released)
			if end.Err != nil || end.Command != name || len(end.Databases) != 2 {
				t.Errorf("%+v", end)
			}
			if l.held.Load() != 0 {
				t.Error("clients are still held")
			}
			if got := r.source.Value(t, "SELECT min(term) FROM shardctl.ownership"); got == term {
				t.Error("what the command still does would count")
			}
			r.serving(!back, back)
			close(command)
		})
	}
}

// beside runs the watchdog of another host until the test ends.
func (r *rig) beside() <-chan cutover.Released {
	r.t.Helper()
	released, ended := make(chan cutover.Released, 8), make(chan error, 1)
	ctx, cancel := context.WithCancel(r.t.Context())
	cfg := r.cfg
	go func() { ended <- cutover.Beside(ctx, cfg, func(end cutover.Released) { released <- end }) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("the watchdog ended with %v", err)
		}
	})
	return released
}

// ended waits for the word of a watchdog that has acted.
func ended(t *testing.T, released <-chan cutover.Released) cutover.Released {
	t.Helper()
	select {
	case end := <-released:
		return end
	case <-time.After(patience):
		t.Fatal("nobody was released")
		return cutover.Released{}
	}
}

// lostInTheWindow runs a switch that stops in its window, as a frozen host does, until
// the channel is closed. The lease is the operator's, which the command line holds.
func (r *rig) lostInTheWindow(name string) (chan struct{}, *store.Lease) {
	r.t.Helper()
	inside, goOn := make(chan struct{}), make(chan struct{})
	r.verdict.set(func(context.Context) error {
		close(inside)
		<-goOn
		return errors.New("woken up")
	})
	lease, err := store.Acquire(r.t.Context(), r.cfg.Source, "m", store.Operator)
	must(r.t, err)
	cfg := r.cfg
	cfg.MaxPause = 20 * time.Second
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if name == "cutover" {
			_, _ = cutover.Cutover(context.Background(), cfg) // how it ends is not what is tested
		} else {
			_, _ = cutover.Rollback(context.Background(), cfg)
		}
	}()
	r.t.Cleanup(func() { <-ended })
	<-inside
	return goOn, lease
}

// TestAWatchdogOutlivesARestartOfTheSource: it looks again when the source is back.
func TestAWatchdogOutlivesARestartOfTheSource(t *testing.T) {
	t.Parallel()
	c, dbs := pgtest.NewCluster(t, pgtest.ClusterOptions{}), pgtest.NewDatabases(t, 2)
	r := newRigOn(t, c.NewDatabase(t), dbs[0], dbs[1])
	l := r.latch()
	released := r.beside()
	pgtest.Eventually(t, 10*time.Second, func() bool {
		return r.source.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%watchdog%'") == "1"
	})
	c.Stop(t, "immediate")
	looksAt(t, c.Port())
	c.Start(t)
	command, lease := r.lostInTheWindow("cutover")
	lease.Release(t.Context())
	if end := ended(t, released); end.Err != nil || l.held.Load() != 0 {
		t.Errorf("%+v, held %d", end, l.held.Load())
	}
	close(command)
}

// looksAt waits until somebody tries to reach a server that is down.
func looksAt(t *testing.T, port int) {
	t.Helper()
	door, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	must(t, door.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	visitor, err := door.Accept()
	must(t, err)
	must(t, errors.Join(visitor.Close(), door.Close()))
}

// TestADatabaseThatIsLostWithTheHost keeps nobody else waiting.
func TestADatabaseThatIsLostWithTheHost(t *testing.T) {
	t.Parallel()
	c, dbs := pgtest.NewCluster(t, pgtest.ClusterOptions{}), pgtest.NewDatabases(t, 2)
	r := newRigOn(t, dbs[0], dbs[1], c.NewDatabase(t))
	l := r.latch()
	command, lease := r.lostInTheWindow("cutover")
	c.Stop(t, "immediate")
	released := r.beside()
	lease.Release(t.Context())
	if end := ended(t, released); end.Command != "cutover" || l.held.Load() != 0 {
		t.Errorf("%+v, held %d", end, l.held.Load())
	}
	r.serving(true, false)
	close(command)
	c.Start(t)
}

// TestASourceThatIsLostWhileAWindowIsEnded: what it says of its owners cannot be asked any
// more, and nobody is left held for that.
func TestASourceThatIsLostWhileAWindowIsEnded(t *testing.T) {
	t.Parallel()
	c, dbs := pgtest.NewCluster(t, pgtest.ClusterOptions{}), pgtest.NewDatabases(t, 2)
	r := newRigOn(t, c.NewDatabase(t), dbs[0], dbs[1])
	l := r.latch()
	released := r.beside()
	command, lease := r.lostInTheWindow("cutover")
	slow := dbs[0].Connect(t)
	tx, err := slow.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE shardctl.control IN EXCLUSIVE MODE") // the term is raised on the source first
	must(t, err)
	term := r.source.Value(t, "SELECT min(term) FROM shardctl.ownership")
	lease.Release(t.Context())
	pgtest.Eventually(t, 10*time.Second, func() bool { return r.source.Value(t, "SELECT min(term) FROM shardctl.ownership") != term })
	c.Stop(t, "immediate")
	if end := ended(t, released); end.Err == nil || l.held.Load() != 0 {
		t.Errorf("%+v, held %d", end, l.held.Load())
	}
	must(t, tx.Rollback(t.Context()))
	close(command)
	c.Start(t)
}

// TestADatabaseThatDoesNotAnswerTheWatchdog is not waited for, whether it refuses or is silent.
func TestADatabaseThatDoesNotAnswerTheWatchdog(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connection, nobody speaks
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, port := range map[string]int{"it refuses": 1, "it is silent": silent.Addr().(*net.TCPAddr).Port} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			l := r.latch()
			command, lease := r.lostInTheWindow("cutover")
			lease.Release(t.Context())
			good := r.cfg.Databases
			r.cfg.Databases = slices.Clone(good)
			r.cfg.Databases[1].DSN = migrate.Secret(fmt.Sprintf("host=127.0.0.1 port=%d dbname=x", port))
			select {
			case end := <-r.beside():
				if end.Command != "cutover" || !strings.Contains(fmt.Sprint(end.Err), "db1") || l.held.Load() == 1 {
					t.Errorf("%+v, clients held: %d", end, l.held.Load())
				}
			case <-time.After(30 * time.Second): // its window is 20 s
				t.Error("nobody was released")
			}
			r.serving(true, false)
			close(command)
		})
	}
}
