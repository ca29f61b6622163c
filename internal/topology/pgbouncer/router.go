package pgbouncer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/wholefile"
	"github.com/shardctl/shardctl/migrate"
)

// cleanupTimeout bounds a release after the caller's context has ended.
const cleanupTimeout = 5 * time.Second

// Router drives the poolers of one item of a spec's topology.
type Router struct {
	migration string
	entries   []entry
	known     map[string]bool // the entries' names
	setPath   bool            // connect_query is ours too
	budget    time.Duration   // how long clients may be held
	instances []*instance
}

var _ topology.Router = (*Router)(nil)

// New makes the Router of one item of spec.Topology. It connects to nothing.
func New(spec *migrate.Spec, item migrate.Router) (*Router, error) {
	r := &Router{
		migration: spec.Migration, entries: expand(item.Entries, spec.Shards.Count),
		setPath: spec.Shards.SchemaPerShard(), budget: spec.Cutover.MaxPause, known: map[string]bool{},
	}
	for _, e := range r.entries {
		r.known[e.name] = true
	}
	for _, i := range item.Instances {
		in, err := newInstance(i)
		if err != nil {
			return nil, err
		}
		r.instances = append(r.instances, in)
	}
	return r, nil
}

// Name gives "pgbouncer" and where its consoles are.
func (r *Router) Name() string {
	name := "pgbouncer"
	for _, i := range r.instances {
		name += " " + i.name
	}
	return name
}

// Open opens two console sessions for each instance: one for PAUSE, whose answer may be
// long in coming, and one for everything else.
func (r *Router) Open(ctx context.Context) error {
	return r.each(func(i *instance) error { return i.open(ctx) })
}

// Close closes the sessions.
func (r *Router) Close() {
	for _, i := range r.instances {
		i.close()
	}
}

// Commit writes each instance's file and makes the instance read it.
func (r *Router) Commit(ctx context.Context, doc topology.Topology) error {
	if err := doc.Check(); err != nil {
		return err
	}
	return r.each(func(i *instance) error {
		return i.change(ctx, func(old []byte) ([]byte, error) { return r.rewrite(i.file.String(), old, doc) })
	})
}

// ReadBack compares what each instance shows, and its file, with the document. A
// pooler does not show a connect_query, so that is known from the file alone.
func (r *Router) ReadBack(ctx context.Context, doc topology.Topology) error {
	return r.each(func(i *instance) error {
		content, err := i.file.Read(ctx)
		if err != nil {
			return i.failed("read its file", err)
		}
		if err := r.compare(i.file.String(), content, doc); err != nil {
			return err
		}
		shown, err := i.databases(ctx)
		if err != nil {
			return err
		}
		for _, e := range r.entries {
			want, err := e.address(doc)
			if err != nil {
				return err
			}
			if got, ok := shown[e.name]; !ok || got.Address != want {
				return differs(i.name, "entry "+e.name+" leads to "+got.Address.String()+", not to "+want.String())
			}
		}
		return nil
	})
}

// Forget takes the epoch's line out of each file. The poolers need not read it again.
func (r *Router) Forget(ctx context.Context) error {
	return r.each(func(i *instance) error {
		err := i.file.Replace(ctx, func(old []byte) ([]byte, error) {
			f, err := parseINI(r.withoutProbes(old))
			if err != nil {
				return nil, unfit(i.file.String(), err)
			}
			return f.apply(f.setEpoch(r.migration, 0)), nil
		})
		if err != nil {
			return i.failed("change its file", err)
		}
		return nil
	})
}

// each runs fn for all instances at once and joins the errors.
func (r *Router) each(fn func(*instance) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(r.instances))
	for n, i := range r.instances {
		wg.Go(func() { errs[n] = fn(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// databasesFile is where an instance's entries stand.
type databasesFile interface {
	String() string
	Read(ctx context.Context) ([]byte, error)
	Replace(ctx context.Context, change wholefile.Change) error
}
