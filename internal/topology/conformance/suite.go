package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// Target is a router to be tested, fresh for each test.
type Target struct {
	// Spec has at least two databases; their addresses and the source's are real, and
	// differ in their dbname.
	Spec *migrate.Spec
	// Router makes the spec's one router, not yet opened, as another process would.
	Router func(t *testing.T) topology.Router
	// LeadsTo is the dbname that a client of the shard comes to now.
	LeadsTo func(t *testing.T, shard int) string
	// Held reports whether a client of the shard has to wait. Nil for a driver that
	// holds nobody.
	Held func(t *testing.T, shard int) bool
}

// Run runs the suite.
func Run(t *testing.T, target func(t *testing.T) Target) {
	for name, test := range map[string]func(suite, *testing.T){
		"leads where the document says":          suite.leads,
		"an older epoch changes nothing":         suite.olderEpoch,
		"concurrent commits leave the latest":    suite.concurrent,
		"a difference is read back":              suite.difference,
		"an unfit document is refused":           suite.unfit,
		"flips while it holds":                   suite.flip,
		"holding and releasing are idempotent":   suite.idempotent,
		"another process releases":               suite.otherProcess,
		"an ended context holds nobody":          suite.endedContext,
		"a fit router has no findings":           suite.describe,
		"a probe finds every home, leaves none":  suite.probe,
		"forgotten epochs may begin anew":        suite.forget,
		"a closed router opens again when asked": suite.reopen,
		"holds no shard out of its scope":        suite.scoped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := suite{target(t)}
			test(s, t)
		})
	}
}

// patience bounds each call.
const patience = 10 * time.Second

type suite struct{ Target }

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open gives an opened router, closed when the test ends.
func (s suite) open(t *testing.T) topology.Router {
	t.Helper()
	r := s.Router(t)
	must(t, r.Open(within(t)))
	t.Cleanup(r.Close)
	return r
}

// document makes the document of an epoch in which the named databases own their
// shards, and the source the others.
func (s suite) document(t *testing.T, epoch int64, moved ...string) topology.Topology {
	t.Helper()
	var owners []store.Ownership
	for _, d := range s.Spec.Databases {
		o := store.Ownership{Database: d.Name, Shards: s.Spec.Shards.ShardsOf(d.Name), Owner: store.OwnerSource, Epoch: epoch}
		for _, m := range moved {
			if m == d.Name {
				o.Owner = d.Name
			}
		}
		owners = append(owners, o)
	}
	doc, err := topology.Build(s.Spec, owners)
	must(t, err)
	return doc
}

func (s suite) all() []string { return s.Spec.DatabaseNames() }

// wantLeads fails unless clients of every shard come to the document's home.
func (s suite) wantLeads(t *testing.T, doc topology.Topology) {
	t.Helper()
	for _, r := range doc.Shards {
		if got := s.LeadsTo(t, r.Shard); got != r.DBName {
			t.Errorf("shard %d leads to %s, not to %s (epoch %d)", r.Shard, got, r.DBName, doc.Epoch)
		}
	}
}

func (s suite) wantHeld(t *testing.T, want bool) {
	t.Helper()
	for shard := range s.Spec.Shards.Count {
		if s.Held != nil && s.Held(t, shard) != want {
			t.Errorf("clients of shard %d held: %t", shard, !want)
		}
	}
}

func (s suite) commit(t *testing.T, r topology.Router, doc topology.Topology) {
	t.Helper()
	must(t, r.Commit(within(t), doc))
	must(t, r.ReadBack(within(t), doc))
}

func (s suite) leads(t *testing.T) {
	r := s.open(t)
	for _, doc := range []topology.Topology{
		s.document(t, 1), s.document(t, 2, s.all()[0]), s.document(t, 3, s.all()...), s.document(t, 3, s.all()...), s.document(t, 4),
	} {
		s.commit(t, r, doc)
		s.wantLeads(t, doc)
	}
}

func (s suite) olderEpoch(t *testing.T) {
	r := s.open(t)
	later := s.document(t, 5, s.all()...)
	s.commit(t, r, later)
	err := s.open(t).Commit(within(t), s.document(t, 4))
	if f := (*migrate.Failure)(nil); !errors.As(err, &f) || f.Code != "topology.older_epoch" || f.Exit != migrate.ExitRefused {
		t.Errorf("epoch 4 over 5: %v", err)
	}
	must(t, r.ReadBack(within(t), later))
	s.wantLeads(t, later)
}

func (s suite) concurrent(t *testing.T) {
	const last = 6
	routers := make([]topology.Router, last)
	for n := range routers {
		routers[n] = s.open(t)
	}
	docs := make([]topology.Topology, last)
	for n := range docs {
		docs[n] = s.document(t, int64(n+1), s.all()[n%2])
	}
	var wg sync.WaitGroup
	ctx := within(t)
	for _, n := range rand.Perm(last) {
		wg.Go(func() {
			err := routers[n].Commit(ctx, docs[n])
			if f := (*migrate.Failure)(nil); err != nil && (!errors.As(err, &f) || f.Code != "topology.older_epoch") {
				t.Errorf("epoch %d: %v", n+1, err)
			}
		})
	}
	wg.Wait()
	// A commit that was written may be read by the router after a later one's reload.
	must(t, routers[last-1].Commit(within(t), docs[last-1]))
	must(t, routers[0].ReadBack(within(t), docs[last-1]))
	s.wantLeads(t, docs[last-1])
}

func (s suite) difference(t *testing.T) {
	r := s.open(t)
	s.commit(t, r, s.document(t, 2))
	for name, doc := range map[string]topology.Topology{"owner": s.document(t, 2, s.all()[1]), "epoch": s.document(t, 3)} {
		if err := r.ReadBack(within(t), doc); err == nil {
			t.Errorf("another %s was not noticed", name)
		}
	}
}

func (s suite) unfit(t *testing.T) {
	r := s.open(t)
	good := s.document(t, 2)
	s.commit(t, r, good)
	for name, spoil := range map[string]func(*topology.Topology){
		"no shards":       func(d *topology.Topology) { d.Shards = nil },
		"a shard missing": func(d *topology.Topology) { d.Shards = d.Shards[1:] },
		"no host":         func(d *topology.Topology) { d.Shards[0].Host = "" },
		"no migration":    func(d *topology.Topology) { d.Migration = "" },
	} {
		doc := s.document(t, 3, s.all()...)
		spoil(&doc)
		if err := r.Commit(within(t), doc); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	must(t, r.ReadBack(within(t), good))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
