package file

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/wholefile"
	"github.com/shardctl/shardctl/migrate"
)

// Router writes the document.
type Router struct {
	migration string
	path      string
	file      *wholefile.File
}

var _ topology.Router = (*Router)(nil)

// New makes the Router of one item of spec.Topology.
func New(spec *migrate.Spec, item migrate.Router) *Router {
	return &Router{migration: spec.Migration, path: item.Path, file: wholefile.New(item.Path, true)}
}

// Name gives "file" and its path.
func (r *Router) Name() string { return "file " + r.path }

// Open has nothing to open.
func (r *Router) Open(context.Context) error { return nil }

// Close has nothing to close.
func (r *Router) Close() {}

// Describe reads the document that is there.
func (r *Router) Describe(ctx context.Context) (topology.Description, error) {
	d := topology.Description{Instances: []topology.Instance{{Name: r.path}}, Findings: []migrate.Finding{}}
	content, err := r.file.Read(ctx)
	if err == nil {
		var doc topology.Topology
		doc, err = r.parse(content)
		d.Instances[0].Epoch = doc.Epoch
	}
	if err != nil {
		d.Findings = append(d.Findings, migrate.Finding{ID: "router.file", Severity: migrate.SeverityError, Object: r.path, Message: err.Error()})
	}
	return d, ctx.Err()
}

// Probe writes what is there once more, which proves that it can be written.
func (r *Router) Probe(ctx context.Context, doc topology.Topology, _ topology.Scope) ([]migrate.Finding, error) {
	if err := doc.Check(); err != nil {
		return nil, err
	}
	if _, err := r.read(ctx); err != nil {
		return nil, err
	}
	if err := r.file.Writable(ctx); err != nil {
		return nil, migrate.Refuse("router.file", r.path, "it cannot be written: "+err.Error(), "give this user the right to write the file and its folder")
	}
	return nil, nil
}

// Pause does nothing: a file holds nobody.
func (r *Router) Pause(context.Context, topology.Scope) error { return nil }

// Resume does nothing.
func (r *Router) Resume(context.Context) error { return nil }

// Commit writes the document.
func (r *Router) Commit(ctx context.Context, doc topology.Topology) error {
	if err := doc.Check(); err != nil {
		return err
	}
	content, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	err = r.file.Replace(ctx, func(old []byte) ([]byte, error) {
		have, err := r.parse(old)
		if err != nil {
			return nil, err
		}
		if have.Epoch > doc.Epoch {
			return nil, topology.OlderEpoch(r.path, have.Epoch, doc.Epoch)
		}
		return append(content, '\n'), nil
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	return nil
}

// ReadBack compares the file with the document.
func (r *Router) ReadBack(ctx context.Context, doc topology.Topology) error {
	have, err := r.read(ctx)
	if err != nil {
		return err
	}
	a, errA := json.Marshal(have)
	b, errB := json.Marshal(doc)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		return migrate.Broken("router.read_back", r.path, fmt.Sprintf("it holds another document than that of epoch %d", doc.Epoch), "run shardctl topology push", nil)
	}
	return nil
}

// Forget removes the file's epoch by making it 0, so that a later migration of the
// same name may begin anew.
func (r *Router) Forget(ctx context.Context) error {
	err := r.file.Replace(ctx, func(old []byte) ([]byte, error) {
		doc, err := r.parse(old)
		if err != nil || len(old) == 0 {
			return old, err
		}
		doc.Epoch = 0
		for i := range doc.Shards {
			doc.Shards[i].Epoch = 0
		}
		content, err := json.MarshalIndent(doc, "", " ")
		return append(content, '\n'), err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	return nil
}

func (r *Router) read(ctx context.Context) (topology.Topology, error) {
	content, err := r.file.Read(ctx)
	if err != nil {
		return topology.Topology{}, fmt.Errorf("read %s: %w", r.path, err)
	}
	return r.parse(content)
}

// parse reads a document of this migration; no content is none, at epoch 0.
func (r *Router) parse(content []byte) (topology.Topology, error) {
	var doc topology.Topology
	if len(content) == 0 {
		return doc, nil
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		return topology.Topology{}, migrate.Refuse("router.file", r.path, "it is no topology document: "+err.Error(), "move it away, then run shardctl topology push")
	}
	if doc.Version != topology.Version || doc.Migration != r.migration {
		return topology.Topology{}, migrate.Refuse("router.file", r.path,
			fmt.Sprintf("it is a document of version %d of migration %q", doc.Version, doc.Migration), "give each migration a path of its own")
	}
	return doc, nil
}
