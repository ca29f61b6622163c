package file_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/conformance"
	"github.com/shardctl/shardctl/internal/topology/file"
	"github.com/shardctl/shardctl/migrate"
)

func spec(path string) *migrate.Spec {
	return &migrate.Spec{
		Migration: "blocks",
		Source:    migrate.Source{DSN: "host=src dbname=mono user=u"},
		Databases: []migrate.Database{{Name: "db0", DSN: "host=h0 dbname=a user=u"}, {Name: "db1", DSN: "host=h1 dbname=b user=u"}},
		Shards:    migrate.Shards{Count: 4, Schema: "shard_%03d", Placement: []string{"db0", "db0", "db1", "db1"}},
		Topology:  []migrate.Router{{Driver: "file", Path: path}},
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Target {
		s := spec(filepath.Join(t.TempDir(), "topology.json"))
		return conformance.Target{
			Spec:   s,
			Router: func(*testing.T) topology.Router { return file.New(s, s.Topology[0]) },
			LeadsTo: func(t *testing.T, shard int) string {
				var doc topology.Topology
				content, err := os.ReadFile(s.Topology[0].Path)
				if err = errors.Join(err, json.Unmarshal(content, &doc)); err != nil {
					t.Fatal(err)
				}
				return doc.Shards[shard].DBName
			},
		}
	})
}

func TestOtherContentIsLeftAlone(t *testing.T) {
	for name, content := range map[string]string{
		"not JSON":            "topology\n",
		"half a document":     `{"version":1,"migration":"blocks","ep`,
		"another version":     `{"version":2,"migration":"blocks","epoch":1,"shards":[]}`,
		"another migration's": `{"version":1,"migration":"other","epoch":1,"shards":[]}`,
	} {
		path := filepath.Join(t.TempDir(), "topology.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := spec(path)
		r := file.New(s, s.Topology[0])
		doc, err := topology.Build(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, probed := r.Probe(t.Context(), doc, nil)
		for what, err := range map[string]error{"commit": r.Commit(t.Context(), doc), "read back": r.ReadBack(t.Context(), doc), "probe": probed, "forget": r.Forget(t.Context())} {
			if f := (*migrate.Failure)(nil); !errors.As(err, &f) || f.Code != "router.file" || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if d, err := r.Describe(t.Context()); err != nil || len(d.Findings) != 1 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("%s: it was changed to %q", name, got)
		}
	}
}

func TestProbeOfAFolderThatIsNotThere(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "missing", "topology.json"))
	doc, err := topology.Build(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.New(s, s.Topology[0]).Probe(t.Context(), doc, nil)
	if f := (*migrate.Failure)(nil); !errors.As(err, &f) || f.Exit != migrate.ExitRefused {
		t.Errorf("got %v", err)
	}
}

func TestProbeAndForgetMakeNoFile(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "topology.json"))
	doc, err := topology.Build(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := file.New(s, s.Topology[0])
	if _, err := r.Probe(t.Context(), doc, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Topology[0].Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe left a file: %v", err)
	}
}
