package migrate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func example(t *testing.T) *Spec {
	t.Helper()
	file, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, failures := decode(t, string(file))
	if failures != nil {
		t.Fatal(failures)
	}
	return s
}

// TestExample reads the documented example, with every section in it.
func TestExample(t *testing.T) {
	s := example(t)
	equal(t, s.Source.ReadDSN.Reveal(), "postgres://app:"+password+"@replica_dsn/app")
	equal(t, s.Databases[0].Router, Address{Host: "db0.internal", Port: 5432, DBName: "app"})
	equal(t, s.Databases[1].Reader, Address{Host: "db1-replica.internal"})
	equal(t, s.Topology[0].Instances[0].AdminDSN.Reveal(), "postgres://app:"+password+"@pgb_admin/app")
	equal(t, s.Topology[0].Entries, []RouterEntry{{"app_%03d", "primary"}, {"app_ro_%03d", "reader"}})
	equal(t, s.Tables[0].Version, "version")

	got, err := json.MarshalIndent(s.Redacted(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "example.json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != strings.TrimSpace(string(want)) {
		t.Errorf("the redacted form differs from %s (UPDATE_GOLDEN=1 writes it):\n%s", golden, got)
	}
	if strings.Contains(string(got), password) {
		t.Error("the redacted form holds a password")
	}
	var back Redacted
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	equal(t, back, s.Redacted())
}

func TestLoad(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "shardctl.yaml")
	_, err := Load(missing)
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "shardctl init") || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
	_, err = Load(t.TempDir())
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if err := os.WriteFile(missing, []byte(base), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SOURCE", "DB0", "DB1", "ADMIN"} {
		t.Setenv(name, "host="+name)
	}
	s, err := Load(missing)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, s.Source.DSN.Reveal(), "host=SOURCE")
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "10GB": 10 << 30, "1 kB": 1024, "7B": 7, "3TB": 3 << 40, "8388607TB": 8388607 << 40} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GB", "1.5GB", "-1GB", "10gb", "8388608TB", "1 0GB", "9223372036854775808"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
	equal(t, spellSize(10<<30), "10GB")
	equal(t, spellSize(1536), "1536")
	equal(t, spellSize(0), "0")
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		schedule     string
		hour, minute int
		open         bool
	}{
		{"", 12, 0, true},
		{"22:00-06:00", 21, 59, false}, {"22:00-06:00", 22, 0, true}, {"22:00-06:00", 0, 0, true}, {"22:00-06:00", 5, 59, true}, {"22:00-06:00", 6, 0, false},
		{"01:30-02:00", 1, 29, false}, {"01:30-02:00", 1, 30, true}, {"01:30-02:00", 2, 0, false},
		{"nonsense", 12, 0, false},
	} {
		if got := (Throttle{Schedule: c.schedule}).Open(c.hour, c.minute); got != c.open {
			t.Errorf("%q at %d:%02d: %v, want %v", c.schedule, c.hour, c.minute, got, c.open)
		}
	}
}

func TestShardRanges(t *testing.T) {
	shards, err := ParseShards(" 0 - 3, 8", 9)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, shards, []int{0, 1, 2, 3, 8})
	equal(t, FormatShards(shards), "0-3,8")
	equal(t, FormatShards([]int{0, 2, 4, 5}), "0,2,4-5")
	equal(t, FormatShards(nil), "")
	for _, text := range []string{"", ",", "1,", "1-", "-1", "1-2-3", "a", "9", "2-1", "1,1", "0-2,2", "01"} {
		if got, err := ParseShards(text, 9); err == nil {
			t.Errorf("ParseShards(%q) = %v, want an error", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"source", "dsn", "key", "databases"}
	for word, want := range map[string]string{"sourse": "source", "dns": "dsn", "kye": "key", "database": "databases", "xyz": "", "": "", "migration": "", "d": ""} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestDocumentedExample keeps the manual's example the one that is tested.
func TestDocumentedExample(t *testing.T) {
	manual, err := os.ReadFile("../docs/spec.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manual), "```yaml\n"+string(file)+"```\n") {
		t.Error("docs/spec.md does not hold testdata/example.yaml as it is")
	}
}
