package exec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/conformance"
	"github.com/shardctl/shardctl/internal/topology/exec"
	"github.com/shardctl/shardctl/migrate"
)

func spec(timeout time.Duration, command ...string) *migrate.Spec {
	return &migrate.Spec{
		Migration: "blocks",
		Source:    migrate.Source{DSN: "host=src dbname=mono user=u"},
		Databases: []migrate.Database{{Name: "db0", DSN: "host=h0 dbname=a user=u"}, {Name: "db1", DSN: "host=h1 dbname=b user=u"}},
		Shards:    migrate.Shards{Count: 4, Schema: "shard_%03d", Placement: []string{"db0", "db0", "db1", "db1"}},
		Topology:  []migrate.Router{{Driver: "exec", Command: command, Timeout: timeout}},
	}
}

// document makes the one of an epoch; db0's shards are the named owner's.
func document(t *testing.T, epoch int64, owner string) topology.Topology {
	t.Helper()
	doc, err := topology.Build(spec(0), []store.Ownership{{Database: "db0", Shards: []int{0, 1}, Owner: owner, Epoch: epoch},
		{Database: "db1", Shards: []int{2, 3}, Owner: store.OwnerSource, Epoch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// patient is long enough for a hook on a busy machine.
const patient = 30 * time.Second

// hooked is a router with the test's hook.
func hooked(t *testing.T, timeout time.Duration) (*exec.Router, state) {
	t.Helper()
	s := state{t.TempDir()}
	return run(timeout, os.Args[0], "hook", s.folder), s
}

func run(timeout time.Duration, command ...string) *exec.Router {
	s := spec(timeout, command...)
	return exec.New(s, s.Topology[0])
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Target {
		here := state{t.TempDir()}
		s := spec(patient, os.Args[0], "hook", here.folder)
		return conformance.Target{
			Spec:   s,
			Router: func(*testing.T) topology.Router { return exec.New(s, s.Topology[0]) },
			LeadsTo: func(_ *testing.T, shard int) string {
				doc, _ := held[topology.Topology](here.folder, "topology.json")
				return doc.Shards[shard].DBName
			},
			Held: func(_ *testing.T, shard int) bool { return here.holds(shard) },
		}
	})
}

// failure is that of an error, or an empty one.
func failure(err error) migrate.Failure {
	var f *migrate.Failure
	if errors.As(err, &f) {
		return *f
	}
	return migrate.Failure{}
}

// verbs calls a router in every way.
func verbs(t *testing.T, r *exec.Router) map[string]func(context.Context) error {
	doc := document(t, 2, "db0")
	return map[string]func(context.Context) error{
		"probe":    func(ctx context.Context) error { _, err := r.Probe(ctx, doc, nil); return err },
		"pause":    func(ctx context.Context) error { return r.Pause(ctx, nil) },
		"commit":   func(ctx context.Context) error { return r.Commit(ctx, doc) },
		"readback": func(ctx context.Context) error { return r.ReadBack(ctx, doc) },
		"resume":   r.Resume,
		"forget":   r.Forget,
	}
}

func TestAVetoAtEachVerbGivesItsReason(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	for verb, call := range verbs(t, r) {
		s.misbehaves(t, verb, "veto")
		err := call(t.Context())
		if f := failure(err); f.Code != "router.veto" || !strings.Contains(f.Message, "refused "+verb) || !strings.Contains(f.Message, "exit status 3") ||
			!strings.HasSuffix(f.Message, "xxx") || strings.Contains(f.Message, "first") || strings.ContainsAny(f.Message, "\n\x1b") || len(f.Message) > 600 {
			t.Errorf("%s: %v", verb, err)
		}
		s.misbehaves(t, verb, "mute")
		if err := call(t.Context()); failure(err).Code != "router.veto" || !strings.Contains(err.Error(), "no reason") {
			t.Errorf("%s: %v", verb, err)
		}
		s.behaves(t, verb)
	}
	s.misbehaves(t, "describe", "veto")
	d, err := r.Describe(t.Context())
	if err != nil || len(d.Findings) != 1 || d.Findings[0].ID != "router.veto" || d.Findings[0].Severity != migrate.SeverityError {
		t.Errorf("describe: %+v, %v", d, err)
	}
}

func TestFindingsOfAHook(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	for verb, call := range verbs(t, r) {
		s.misbehaves(t, verb, "complain")
		err := call(t.Context())
		if said := err != nil; said != (verb != "probe") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	s.misbehaves(t, "describe", "complain")
	d, err := r.Describe(t.Context())
	probed, probeErr := r.Probe(t.Context(), document(t, 2, "db0"), nil)
	if err != nil || probeErr != nil || len(d.Findings) != 1 || len(probed) != 1 {
		t.Fatalf("%+v, %v; %+v, %v", d, err, probed, probeErr)
	}
	for _, f := range []migrate.Finding{d.Findings[0], probed[0]} {
		if f.ID != "router.hook" || f.Object != r.Name() || f.Fix == nil || *f.Fix != "start them" || f.Message != "two of three proxies are down" {
			t.Errorf("finding: %+v", f)
		}
	}
}

func TestAnAnswerThatCannotBeUsedIsNone(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	for _, how := range []string{
		"huge", "ok", `{"epoch":2`, `{"epoch":2}{"epoch":2}`, `{"epcoh":2}`, `{"epoch":"2"}`, `{"epoch":-1}`, `[2]`,
		`{"findings":[{"severity":"bad","message":"x"}]}`, `{"findings":[{"severity":"error"}]}`,
	} {
		s.misbehaves(t, "readback", how)
		if err := r.ReadBack(t.Context(), document(t, 2, "db0")); failure(err).Code != "router.hook_answer" {
			t.Errorf("%s: %v", how, err)
		}
	}
	s.misbehaves(t, "readback", "silent")
	if err := r.ReadBack(t.Context(), document(t, 2, "db0")); failure(err).Code != "router.hook_answer" {
		t.Errorf("silence was taken for a proof: %v", err)
	}
	s.misbehaves(t, "commit", `{"epoch":1}`)
	if err := r.Commit(t.Context(), document(t, 2, "db0")); failure(err).Code != "router.read_back" {
		t.Errorf("an epoch that was not taken: %v", err)
	}
}

func TestHooksThatCannotBeRunAreFoundWithTheirFix(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, id, fix string }{
		"missing":        {plain + "2", "router.hook_missing", "install the hook"},
		"not on PATH":    {"shardctl-no-such-hook", "router.hook_missing", "install the hook"},
		"not executable": {plain, "router.hook_not_executable", "chmod +x " + plain},
		"a folder":       {filepath.Dir(plain), "router.hook_not_executable", "chmod"},
	} {
		r := run(patient, c.program, "--token", "pl4nted")
		d, err := r.Describe(t.Context())
		if err != nil || len(d.Findings) != 1 || d.Findings[0].ID != c.id || d.Findings[0].Fix == nil || !strings.Contains(*d.Findings[0].Fix, c.fix) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		for verb, call := range verbs(t, r) {
			if err := call(t.Context()); failure(err).Code != c.id || strings.Contains(err.Error(), "pl4nted") {
				t.Errorf("%s: %s: %v", name, verb, err)
			}
		}
	}
}

func TestAHookGetsNoneOfOurVariables(t *testing.T) {
	t.Setenv("SOURCE_DSN", "postgres://u:pl4nted@h/d")
	t.Setenv("PGPASSWORD", "pl4nted")
	t.Setenv("SHARDCTL_FILE", "pl4nted")
	t.Setenv("LC_ALL", "C.UTF-8")
	r, s := hooked(t, patient)
	s.misbehaves(t, "forget", "environment")
	err := r.Forget(t.Context())
	if err == nil || strings.Contains(err.Error(), "pl4nted") || !strings.Contains(err.Error(), "PATH=") || !strings.Contains(err.Error(), "LC_ALL=C.UTF-8") {
		t.Errorf("%v", err)
	}
}

func TestAHookIsToldItsScope(t *testing.T) {
	t.Parallel()
	r, s := hooked(t, patient)
	if _, err := r.Probe(t.Context(), document(t, 2, "db0"), topology.Scope{1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Pause(t.Context(), topology.Scope{0, 1}), r.Resume(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := s.calls(); got != "probe[1] pause[0 1] resume[0 1 2 3]" {
		t.Errorf("calls: %s", got)
	}
}
