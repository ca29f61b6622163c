package pgbouncer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/topology/pgbouncer"
	"github.com/shardctl/shardctl/migrate"
)

// pauserVariable makes the test program a process that holds routers and then waits to
// be killed. It holds what a pauser needs to know.
const pauserVariable = "SHARDCTL_TEST_PAUSER"

// pauser is a process that is to be killed.
type pauser struct {
	Migration string
	Shards    int
	Entry     string
	Instances [][2]string // DSN, file
}

func pauseIfAsked() {
	text := os.Getenv(pauserVariable)
	if text == "" {
		return
	}
	var p pauser
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fail(err)
	}
	spec := &migrate.Spec{Migration: p.Migration, Shards: migrate.Shards{Count: p.Shards, Schema: "shard_%03d"}}
	item := migrate.Router{Entries: []migrate.RouterEntry{{Database: p.Entry, To: "primary"}}}
	for _, i := range p.Instances {
		item.Instances = append(item.Instances, migrate.RouterInstance{AdminDSN: migrate.Secret(i[0]), DatabasesFile: i[1]})
	}
	r, err := pgbouncer.New(spec, item)
	if err != nil {
		fail(err)
	}
	if err := r.Open(context.Background()); err != nil {
		fail(err)
	}
	fmt.Println("pausing")
	if err := r.Pause(context.Background(), nil); err != nil {
		fail(err)
	}
	fmt.Println("paused")
	select {}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startPauser runs the process until it has printed a line. Kill ends it as kill -9 does.
func (w *world) startPauser(line string) (kill func()) {
	w.t.Helper()
	p := pauser{Migration: w.spec.Migration, Shards: w.spec.Shards.Count, Entry: w.spec.Topology[0].Entries[0].Database}
	for _, i := range w.spec.Topology[0].Instances {
		p.Instances = append(p.Instances, [2]string{i.AdminDSN.Reveal(), i.DatabasesFile})
	}
	text, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pauserVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}
	w.t.Cleanup(kill)
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == line {
			return kill
		}
	}
	w.t.Fatalf("the process did not print %q", line)
	return nil
}

func testAnotherProcessReleasesWhatAKilledOneHeld(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"bare": "", "by entry": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 2, lines(2)+extra)
			watchdog := w.router() // its sessions are open before
			kill := w.startPauser("paused")
			kill()
			for pooler := range 2 {
				if !w.held(pooler, "app_001") {
					t.Errorf("pooler %d serves while its holder is dead", pooler)
				}
			}
			if err := watchdog.Resume(within(t, 5*time.Second)); err != nil {
				t.Fatal(err)
			}
			w.wantServed()
		})
	}
}

// wantServed fails if a client of any entry waits, or if the pooler was left with a
// setting of ours.
func (w *world) wantServed() {
	w.t.Helper()
	for pooler := range w.poolers {
		for shard := range w.spec.Shards.Count {
			if entry := fmt.Sprintf("app_%03d", shard); w.held(pooler, entry) {
				w.t.Errorf("pooler %d: clients of %s wait", pooler, entry)
			}
		}
		for _, row := range w.admin(pooler, "SHOW CONFIG") {
			if string(row[0]) == "server_login_retry" && string(row[1]) != "15" {
				w.t.Errorf("pooler %d: server_login_retry is %s", pooler, row[1])
			}
		}
	}
}

func testAProcessKilledWhileItWaitsForADrain(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"bare": "", "by entry": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dbs, 2, 1, lines(2)+extra)
			busy := w.begin(0, "app_000")
			kill := w.startPauser("pausing")
			pgtest.Eventually(t, 5*time.Second, func() bool { return w.held(0, "app_001") })
			kill()
			// Held, but not drained: another Pause waits for that and gives up.
			second := w.router()
			if err := second.Pause(within(t, 100*time.Millisecond), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			w.wantServed()
			busy.commit()
		})
	}
}
