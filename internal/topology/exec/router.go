package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// The verbs that a hook is called with.
const (
	verbDescribe = "describe"
	verbProbe    = "probe"
	verbPause    = "pause"
	verbCommit   = "commit"
	verbReadBack = "readback"
	verbResume   = "resume"
	verbForget   = "forget"
)

// Router runs the hook.
type Router struct {
	migration string
	shards    int
	command   []string
	timeout   time.Duration // of each call

	busy chan struct{} // holds an item while a hook runs

	mu  sync.Mutex
	end context.CancelCauseFunc // ends the pause that runs now; nil without one
}

var _ topology.Router = (*Router)(nil)

// New makes the Router of one item of spec.Topology. It runs nothing.
func New(spec *migrate.Spec, item migrate.Router) *Router {
	return &Router{
		migration: spec.Migration, shards: spec.Shards.Count, command: item.Command, timeout: item.Timeout,
		busy: make(chan struct{}, 1),
	}
}

// Name gives "exec" and the program, without its arguments.
func (r *Router) Name() string { return "exec " + r.command[0] }

// Open has nothing to open.
func (r *Router) Open(context.Context) error { return nil }

// Close has nothing to close.
func (r *Router) Close() {}

// Describe asks the hook what it holds. A hook that cannot be asked is a finding.
func (r *Router) Describe(ctx context.Context) (topology.Description, error) {
	a, err := r.call(ctx, verbDescribe, nil, nil)
	if ctx.Err() != nil {
		return topology.Description{}, r.failed(verbDescribe, ctx.Err())
	}
	d := topology.Description{Instances: []topology.Instance{{Name: r.Name(), Version: a.Version}}, Findings: r.named(a.Findings)}
	if a.Epoch != nil {
		d.Instances[0].Epoch = *a.Epoch
	}
	if err != nil {
		d.Findings = append(d.Findings, r.unfit(err))
	}
	return d, nil
}

// unfit makes a finding of an error.
func (r *Router) unfit(err error) migrate.Finding {
	f := migrate.Finding{ID: "router.hook", Severity: migrate.SeverityError, Object: r.Name(), Message: err.Error()}
	var failure *migrate.Failure
	if !errors.As(err, &failure) {
		return f
	}
	f.ID, f.Message = failure.Code, failure.Message
	if failure.Err != nil {
		f.Message += ": " + failure.Err.Error()
	}
	if failure.Hint != "" {
		f.Fix = &failure.Hint
	}
	return f
}

// named says of findings without an object whose they are.
func (r *Router) named(found []migrate.Finding) []migrate.Finding {
	out := append([]migrate.Finding{}, found...)
	for i := range out {
		if out[i].Object == "" {
			out[i].Object = r.Name()
		}
	}
	return out
}

// Probe asks the hook whether it can be driven to the document.
func (r *Router) Probe(ctx context.Context, doc topology.Topology, scope topology.Scope) ([]migrate.Finding, error) {
	if err := doc.Check(); err != nil {
		return nil, err
	}
	a, err := r.call(ctx, verbProbe, scope, &doc)
	return r.named(a.Findings), err
}

// Pause makes the hook hold the clients of the shards in scope. If that fails, or ctx
// ends first, the hook is killed and told to release.
func (r *Router) Pause(ctx context.Context, scope topology.Scope) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.setEnd(end)
	defer r.setEnd(nil)
	err := r.act(ctx, verbPause, scope, nil)
	if err == nil {
		return nil
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	return errors.Join(err, r.act(clean, verbResume, nil, nil))
}

func (r *Router) setEnd(end context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = end
}

// Resume makes the hook release. A pause that still runs is killed first, or it might
// hold clients afterwards.
func (r *Router) Resume(ctx context.Context) error {
	r.mu.Lock()
	if r.end != nil {
		r.end(errResumed)
	}
	r.mu.Unlock()
	return r.act(ctx, verbResume, nil, nil)
}

// Commit gives the hook the document.
func (r *Router) Commit(ctx context.Context, doc topology.Topology) error {
	if err := doc.Check(); err != nil {
		return err
	}
	a, err := r.call(ctx, verbCommit, nil, &doc)
	if err != nil {
		return err
	}
	if a.Epoch != nil && *a.Epoch != doc.Epoch {
		return r.differs(fmt.Sprintf("after commit of epoch %d it holds epoch %d", doc.Epoch, *a.Epoch))
	}
	return r.refused(verbCommit, a)
}

// ReadBack asks the hook what it holds, and compares: the epoch at least, and the
// document if the hook answers it. An answer without an epoch proves nothing.
func (r *Router) ReadBack(ctx context.Context, doc topology.Topology) error {
	a, err := r.call(ctx, verbReadBack, nil, &doc)
	if err != nil {
		return err
	}
	switch {
	case a.Epoch == nil && a.Topology == nil:
		return migrate.Broken("router.hook_answer", r.Name(), "readback says nothing of what it holds", `print {"epoch": N}, or {"topology": …}`, nil)
	case a.Epoch != nil && *a.Epoch != doc.Epoch:
		return r.differs(fmt.Sprintf("it holds epoch %d, not %d", *a.Epoch, doc.Epoch))
	}
	if a.Topology != nil {
		have, errA := json.Marshal(a.Topology)
		want, errB := json.Marshal(doc)
		if errA != nil || errB != nil || !bytes.Equal(have, want) {
			return r.differs(fmt.Sprintf("it holds another document than that of epoch %d", doc.Epoch))
		}
	}
	return r.refused(verbReadBack, a)
}

func (r *Router) differs(what string) error {
	return migrate.Broken("router.read_back", r.Name(), what, "run shardctl topology push", nil)
}

// Forget makes the hook forget the epoch.
func (r *Router) Forget(ctx context.Context) error { return r.act(ctx, verbForget, nil, nil) }

// act runs the hook for a verb whose findings nobody else reads.
func (r *Router) act(ctx context.Context, verb string, scope topology.Scope, doc *topology.Topology) error {
	a, err := r.call(ctx, verb, scope, doc)
	if err != nil {
		return err
	}
	return r.refused(verb, a)
}
