package conformance

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

func (s suite) flip(t *testing.T) {
	r := s.open(t)
	s.commit(t, r, s.document(t, 1))
	must(t, r.Pause(within(t), nil))
	s.wantHeld(t, true)
	moved := s.document(t, 2, s.all()...)
	s.commit(t, r, moved)
	s.wantHeld(t, true)
	must(t, r.Resume(within(t)))
	s.wantHeld(t, false)
	s.wantLeads(t, moved)
}

func (s suite) idempotent(t *testing.T) {
	r := s.open(t)
	must(t, r.Resume(within(t)))
	for range 2 {
		must(t, r.Pause(within(t), nil))
		must(t, r.Pause(within(t), nil))
		s.wantHeld(t, true)
		must(t, r.Resume(within(t)))
		must(t, r.Resume(within(t)))
		s.wantHeld(t, false)
	}
}

func (s suite) otherProcess(t *testing.T) {
	first, second := s.open(t), s.open(t)
	must(t, first.Pause(within(t), nil))
	first.Close()
	s.wantHeld(t, true)
	must(t, second.Pause(within(t), nil)) // held already: waits for nothing
	must(t, second.Resume(within(t)))
	s.wantHeld(t, false)
	must(t, first.Pause(within(t), nil))
	must(t, s.open(t).Resume(within(t)))
	s.wantHeld(t, false)
}

func (s suite) endedContext(t *testing.T) {
	if s.Held == nil {
		return // such a driver has nothing to wait for
	}
	r := s.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, scope := range []topology.Scope{nil, s.Spec.Shards.ShardsOf(s.Spec.Databases[0].Name)} {
		if err := r.Pause(ctx, scope); err == nil {
			t.Errorf("shards %v were held under an ended context", scope)
		}
		s.wantHeld(t, false)
	}
	must(t, r.Pause(within(t), nil))
	must(t, r.Resume(within(t)))
}

func (s suite) describe(t *testing.T) {
	r := s.open(t)
	s.commit(t, r, s.document(t, 7, s.all()[0]))
	d, err := r.Describe(within(t))
	must(t, err)
	for _, f := range d.Findings {
		if f.Severity == migrate.SeverityError {
			t.Errorf("finding: %+v", f)
		}
	}
	if len(d.Instances) == 0 || r.Name() == "" {
		t.Errorf("%q has no instances", r.Name())
	}
	for _, i := range d.Instances {
		if i.Epoch != 7 {
			t.Errorf("%s holds epoch %d", i.Name, i.Epoch)
		}
	}
}

func (s suite) probe(t *testing.T) {
	r := s.open(t)
	now := s.document(t, 1)
	s.commit(t, r, now)
	for _, future := range []int64{1, 2} {
		moved := s.document(t, future, s.all()...)
		findings, err := r.Probe(within(t), moved, nil)
		must(t, err)
		if len(findings) > 0 {
			t.Errorf("findings: %+v", findings)
		}
	}
	must(t, r.ReadBack(within(t), now))
	s.wantLeads(t, now)
}

func (s suite) forget(t *testing.T) {
	r := s.open(t)
	moved := s.document(t, 5, s.all()...)
	for range 3 {
		must(t, r.Forget(within(t))) // nothing is kept yet
	}
	s.commit(t, r, moved)
	must(t, r.Forget(within(t)))
	s.wantLeads(t, moved)
	s.commit(t, r, s.document(t, 1))
}

func (s suite) reopen(t *testing.T) {
	r := s.open(t)
	r.Close()
	r.Close()
	s.commit(t, r, s.document(t, 1))
	must(t, r.Pause(within(t), nil))
	must(t, r.Resume(within(t)))
}

// scoped holds one database's shards: clients of the others go on, and it is flipped
// alone.
func (s suite) scoped(t *testing.T) {
	r := s.open(t)
	s.commit(t, r, s.document(t, 1))
	one := s.Spec.Databases[0].Name
	scope := topology.Scope(s.Spec.Shards.ShardsOf(one))
	for range 2 {
		must(t, r.Pause(within(t), scope))
		s.wantHeldOnly(t, scope)
		must(t, r.Resume(within(t)))
		s.wantHeld(t, false)
	}
	must(t, r.Pause(within(t), scope))
	moved := s.document(t, 2, one)
	findings, err := r.Probe(within(t), moved, scope)
	must(t, err)
	if len(findings) > 0 {
		t.Errorf("findings: %+v", findings)
	}
	s.commit(t, r, moved)
	must(t, r.ReadBack(within(t), moved))
	must(t, s.open(t).Resume(within(t))) // as a watchdog does, which knows no scope
	s.wantHeld(t, false)
	s.wantLeads(t, moved)
}

// wantHeldOnly fails unless just the clients of the scope wait.
func (s suite) wantHeldOnly(t *testing.T, scope topology.Scope) {
	t.Helper()
	for shard := range s.Spec.Shards.Count {
		if s.Held != nil && s.Held(t, shard) != scope.Has(shard) {
			t.Errorf("clients of shard %d held: %t", shard, !scope.Has(shard))
		}
	}
}
