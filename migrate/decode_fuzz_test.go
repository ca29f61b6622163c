package migrate

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func FuzzDecode(f *testing.F) {
	example, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(example), base, literal(), chain(6, "{from: t3, via: up}"), "", "a: &a [*a]", "? {}\n: x", "[[]]", "a: |2\n  b", "%YAML 1.2\n---\na: b", "<<: *x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Decode("fuzz.yaml", []byte(text), environment)
		if err == nil {
			consistent(t, s)
			return
		}
		if strings.Contains(fmt.Sprintf("%#v", err), password) && !strings.Contains(text, password) {
			t.Errorf("the value of a variable shows in %v", err)
		}
		var failures Failures
		if s != nil || !errors.As(err, &failures) || len(failures) == 0 {
			t.Errorf("got %v and %#v", s, err)
		}
	})
}

// consistent checks what others rely on in a decoded spec.
func consistent(t *testing.T, s *Spec) {
	if s.Version != 1 || s.Migration == "" || s.Source.DSN == "" || len(s.Tables) == 0 || len(s.Shards.Placement) != s.Shards.Count {
		t.Errorf("incomplete: %+v", s)
	}
	for shard := range s.Shards.Count {
		if _, ok := s.Database(s.Shards.DatabaseOf(shard)); !ok {
			t.Errorf("shard %d is on no database", shard)
		}
	}
	for _, d := range s.Databases {
		if back, err := ParseShards(FormatShards(s.Shards.ShardsOf(d.Name)), s.Shards.Count); err != nil || len(back) != len(s.Shards.ShardsOf(d.Name)) {
			t.Errorf("the shards of %s do not read back: %v", d.Name, err)
		}
		for _, l := range s.LocationsOf(d.Name) {
			if CheckIdentifier(l.Schema) != nil {
				t.Errorf("a location that cannot be: %s", l)
			}
		}
	}
	for _, table := range s.Tables {
		if parents := len(s.Chain(table)) - 1; parents > MaxChain || !table.Everywhere && s.Shards.Count > 1 && s.Root(table).Key.Column == "" {
			t.Errorf("%s has %d parents and ends at %v", table.Name, parents, s.Root(table))
		}
	}
	if s.Digest() == "" || len(Changes(s.Redacted(), s.Redacted())) != 0 {
		t.Error("a spec differs from itself")
	}
}
