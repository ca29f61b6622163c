package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// call runs the hook for a verb, one call at a time.
func (r *Router) call(ctx context.Context, verb string, scope topology.Scope, doc *topology.Topology) (answer, error) {
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return answer{}, r.failed(verb, ctx.Err())
	}
	return r.callLocked(ctx, verb, scope, doc)
}

func (r *Router) callLocked(ctx context.Context, verb string, scope topology.Scope, doc *topology.Topology) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, r.failed(verb, ctx.Err())
	}
	bounded, cancel := context.WithTimeoutCause(ctx, r.timeout, errTimeout)
	defer cancel()
	deadline, _ := bounded.Deadline()
	q := question{Verb: verb, Migration: r.migration, Shards: r.within(scope), Topology: doc, DeadlineMS: max(time.Until(deadline).Milliseconds(), 1)}
	if doc != nil {
		q.Epoch = doc.Epoch
	}
	input, err := json.Marshal(q)
	if err != nil {
		return answer{}, r.failed(verb, err)
	}
	said, err := run(bounded, append(append([]string{}, r.command...), verb), append(input, '\n'))
	if err != nil {
		return answer{}, r.notOK(bounded, verb, doc, said, err)
	}
	a, err := parse(said.out)
	if err != nil {
		return answer{}, migrate.Broken("router.hook_answer", r.Name(), verb+": its output cannot be used", "print nothing but one JSON document on standard output", err)
	}
	return a, r.older(doc, a)
}

// older refuses a document when the hook holds a later one.
func (r *Router) older(doc *topology.Topology, a answer) error {
	if doc != nil && a.Epoch != nil && *a.Epoch > doc.Epoch {
		return topology.OlderEpoch(r.Name(), *a.Epoch, doc.Epoch)
	}
	return nil
}

// notOK says why a call came to nothing.
func (r *Router) notOK(ctx context.Context, verb string, doc *topology.Topology, said output, err error) error {
	var exit *exec.ExitError
	reason := said.errors
	if reason == "" {
		reason = "it gave no reason"
	}
	switch {
	case errors.Is(err, errTimeout):
		return migrate.Broken("router.hook_timeout", r.Name(), fmt.Sprintf("%s did not end within %s and was killed with all that it had started: %s", verb, r.timeout, reason),
			"make the hook quicker, or raise its timeout", err)
	case errors.As(err, &exit):
		if a, parsed := parse(said.out); parsed == nil && r.older(doc, a) != nil {
			return r.older(doc, a)
		}
		return &migrate.Failure{Code: "router.veto", Object: r.Name(), Message: fmt.Sprintf("the hook refused %s (%s): %s", verb, exit, reason), Exit: vetoed(verb)}
	case errors.Is(err, fs.ErrPermission):
		return migrate.Broken("router.hook_not_executable", r.Name(), "the hook cannot be run", "chmod +x "+r.command[0], plain(err))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot):
		return migrate.Broken("router.hook_missing", r.Name(), "there is no such program", "install the hook on this host, or mend command in the spec", plain(err))
	case errors.Is(err, errOutput):
		return migrate.Broken("router.hook_answer", r.Name(), verb+" was killed", "print nothing but one JSON document on standard output", err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %s was killed with all that it had started: %w", r.Name(), verb, err)
	}
	return r.failed(verb, err)
}

// vetoed is a veto's exit code: before anything was changed it is a refusal.
func vetoed(verb string) int {
	switch verb {
	case verbDescribe, verbProbe, verbPause:
		return migrate.ExitRefused
	}
	return migrate.ExitError
}

// plain is an error of starting a program without its arguments, which may hold a secret.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path
	}
	return err
}

func (r *Router) failed(verb string, err error) error {
	return fmt.Errorf("%s: %s: %w", r.Name(), verb, err)
}

// within lists the shards of a scope.
func (r *Router) within(scope topology.Scope) []int {
	shards := []int{}
	for shard := range r.shards {
		if scope.Has(shard) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// refused makes an error of findings where nobody else reads them.
func (r *Router) refused(verb string, a answer) error {
	var reasons []string
	for _, f := range a.Findings {
		if f.Severity == migrate.SeverityError {
			reasons = append(reasons, f.Message)
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return &migrate.Failure{Code: "router.veto", Object: r.Name(), Message: "the hook refused " + verb + ": " + strings.Join(reasons, "; "), Exit: vetoed(verb)}
}
