package cutover_test

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/cutover"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// The blows.
const (
	killed      = "killed"
	stopped     = "stopped for 5 s"
	interrupted = "interrupted"
	noSource    = "its connections to the source reset"
	noTarget    = "its connections to a database reset"
	noPooler    = "its connections to a pooler reset"
	overtaken   = "stopped until another command has ended"
)

var blows = []string{killed, stopped, interrupted, noSource, noTarget, noPooler, overtaken}

const stopTime = 5 * time.Second

// strike hits a switch that waits at its point, and lets it go on. Released is called
// as soon as a blow that holds the process up has fallen.
func (a *actor) strike(c trial, released func()) {
	switch c.blow {
	case killed:
		a.signal(syscall.SIGKILL)
		released()
	case stopped:
		a.stop()
		released()
		a.release()
		time.Sleep(stopTime) // what is tested is the time
		a.signal(syscall.SIGCONT)
	case overtaken:
		a.stop()
		released()
		a.overtake(c)
		a.signal(syscall.SIGCONT)
	case interrupted:
		a.signal(syscall.SIGINT)
		a.hear("interrupted")
		released()
	case noSource:
		a.reset(a.source)
		released()
	case noTarget:
		a.reset(map[bool]*pgtest.Database{true: a.db0, false: a.db1}[c.done])
		released()
	case noPooler:
		lose := 1 // more than its driver makes good by itself
		if !c.done && !c.differs {
			lose = 0
		}
		a.gate.cut(lose)
		released()
	}
	a.release()
}

// stop stops the process, and returns when all of it stands still.
func (a *actor) stop() {
	a.signal(syscall.SIGSTOP)
	_, err := syscall.Wait4(a.cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
	must(a.t, err)
}

// overtake lets the watchdog act, if there is one, and then another command, which finds
// that the process that was stopped has not been heard of for long.
func (a *actor) overtake(c trial) {
	if a.asked.Load() {
		a.guard <- <-a.guard
	}
	a.source.Exec(a.t, "UPDATE shardctl.lease SET heartbeat_at = heartbeat_at - interval '1 min'")
	o := order{Direction: c.d, Only: c.only}
	if c.done {
		o.Direction = opposite(c.d)
	}
	err := a.attempt(o)
	var f *migrate.Failure
	// What was stopped with its pre-lock and without a watchdog is named to the other one.
	if waits := c.step == "pre-lock" || c.step == "watchdog"; !waits || !errors.As(err, &f) || f.Exit != migrate.ExitRefused {
		a.ended(o, err)
	}
	a.left = a.standing()
}

// reset ends the command's sessions on one server; the watchdog has its own.
func (a *actor) reset(d *pgtest.Database) {
	d.EndSessions(a.t, `datname = current_database()
		AND application_name LIKE 'shardctl %' AND application_name NOT SIMILAR TO 'shardctl (test|watchdog)%'`)
}

// oneClosed keeps a database's fence from going up, lets the switch go on, and waits
// until the other's is up. The function that comes back lets the fence go up.
func (a *actor) oneClosed(closed string) (let func()) {
	t, other, table := a.t, a.db1, "s_2.item"
	up := a.connect("fence", a.db0)
	if closed == "db1" {
		other, table, up = a.db0, "s_0.item", a.connect("fence", a.db1)
	}
	writer, err := other.Connect(t).Begin(t.Context())
	must(t, err)
	_, err = writer.Exec(t.Context(), "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE")
	must(t, err)
	a.release()
	pgtest.Eventually(t, patience, func() bool {
		state, err := fence.ReadDatabase(t.Context(), up, a.cfg.Layout, closed)
		must(t, err)
		return state.Closed == fence.Enabled
	})
	return func() { endQuietly(a, writer) }
}

func endQuietly(a *actor, tx pgx.Tx) {
	if err := tx.Rollback(a.t.Context()); err != nil {
		a.t.Error(err)
	}
	_ = tx.Conn().Close(a.t.Context())
}

// reach begins a switch that comes to the trial's point. On a busy machine its time may be
// up before: then it has left everything where it was, and another one is begun.
func (s *stage) reach(c trial, before string) *actor {
	s.t.Helper()
	for range tries {
		a := s.begin(order{Direction: c.d, Only: c.only, Step: c.step, Done: c.done, Differs: c.differs})
		if _, reached := a.hear("reached"); reached {
			return a
		}
		if _, guard := a.end(); guard != nil || s.standing() != before || s.gate.holds() {
			s.t.Errorf("%s: it ended before and left something: %s, before %s, held %v, watchdog %v\n%s", c, s.standing(), before, s.gate.holds(), guard, a.log)
			return nil
		}
		s.crowd.breathe()
	}
	s.t.Errorf("%s: it never came there", c)
	return nil
}

// tries is how many attempts may run out of time.
const tries = 5

// try has one trial from where its switch begins to where it ends.
func (s *stage) try(c trial) {
	t := s.t
	t.Helper()
	s.crowd.fresh()
	before := s.standing()
	a := s.reach(c, before)
	if a == nil {
		return
	}
	let := func() {}
	if c.closed != "" {
		let = a.oneClosed(c.closed)
	}
	a.strike(c, let)
	r, guard := a.end()
	if c.blow != overtaken {
		s.truthful(c, r, before)
	} else if now := s.standing(); now != a.left || r == nil || r.Outcome == cutover.Ambiguous {
		t.Errorf("%s: another command had left %s; now it is %s: %+v", c, a.left, now, r)
	}
	if guard != nil {
		t.Errorf("%s: the watchdog: %v", c, guard)
	}
	if s.gate.holds() {
		t.Errorf("%s: clients are held after it: %+v", c, r)
	}
	unnoted := c.blow == noSource || c.differs && c.blow == killed // what was released may not have been noted
	if held, err := store.LeftHeld(t.Context(), s.probes[s.source], "m"); !unnoted && (err != nil || held != "") {
		t.Errorf("%s: status says that clients may be held by a %s: %v", c, held, err)
	}
	s.gate.cut(0) // the pooler is well again
	s.again(order{Direction: c.d, Only: c.only})
	s.sound(c)
	if t.Failed() {
		t.Errorf("%s: it had ended with %+v, its watchdog with %v\n%s\n%s", c, r, guard, a.log, s.journal())
	}
}

// truthful compares what the switch says of itself with what the source says.
func (s *stage) truthful(c trial, r *result, before string) {
	t := s.t
	t.Helper()
	if r == nil {
		if c.blow != killed {
			t.Errorf("%s: it said nothing", c)
		}
		return
	}
	moved := s.standing() != before
	switch r.Outcome {
	case cutover.Done:
		if !moved || c.differs {
			t.Errorf("%s: it says that it is done: %+v", c, r)
		}
	case cutover.Aborted, cutover.Refused:
		if moved {
			t.Errorf("%s: it says that nothing has moved: %+v", c, r)
		}
	default: // the watchdog does what an undo could not
		if moved || !c.differs || c.blow != noPooler {
			t.Errorf("%s: it says %+v", c, r)
		}
	}
}

// standing is the source's word on who owns what.
func (s *stage) standing() string {
	return s.source.Value(s.t, "SELECT string_agg(format('%s: %s', database, owner), ', ' ORDER BY database) FROM shardctl.ownership")
}

func (s *stage) journal() (out string) {
	for _, row := range s.source.Rows(s.t, "SELECT to_char(at, 'MI:SS.MS'), pid, command, step, outcome, detail FROM (SELECT * FROM shardctl.journal ORDER BY at DESC LIMIT 150) j ORDER BY at") {
		out += fmt.Sprintln(row)
	}
	return out
}
