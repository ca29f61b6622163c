package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardctl/shardctl/migrate"
)

// refusal runs a command line without a spec and gives the error that it ends with: what is
// fine with the flags ends with the missing spec.
func refusal(t *testing.T, args ...string) errorDocument {
	t.Helper()
	var out, logs bytes.Buffer
	args = append(args, "-o", "json", "--file", filepath.Join(t.TempDir(), "none.yaml"))
	code := run(t.Context(), args, &out, &logs)
	var doc struct{ Error errorDocument }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || code != migrate.ExitUsage || doc.Error.Exit != code {
		t.Fatalf("%v: exit %d: %v\n%s%s", args, code, err, &out, &logs)
	}
	return doc.Error
}

// commandPaths lists every command with its flags of its own.
func commandPaths(c *cobra.Command, path []string, each func([]string, *pflag.Flag)) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { each(path, f) })
	for _, sub := range c.Commands() {
		commandPaths(sub, append(path[:len(path):len(path)], sub.Name()), each)
	}
}

// TestNoFlagTakesAnythingForNotGiven: numbers, durations and lists of names refuse what is
// no use, in every command, from the command line and from the environment.
func TestNoFlagTakesAnythingForNotGiven(t *testing.T) {
	bad := map[string][]string{
		"int":      {"-1", "99999999999", "", "x", "1.5"},
		"duration": {"-1s", "-1ns", "0", "0s", "1ns", "9000h", "", "x", "5"},
		"strings":  {"", " ", ",", "db0,", ",db0"},
	}
	seen := 0
	commandPaths(newRoot(&app{}), nil, func(path []string, f *pflag.Flag) {
		switch f.Value.(type) {
		case bounded[int], bounded[time.Duration], names:
		default:
			if kind := f.Value.Type(); kind != "bool" && kind != "string" && kind != "stringArray" {
				t.Errorf("%v --%s is of kind %s, which takes anything", path, f.Name, kind)
			}
			return
		}
		seen++
		values := bad[f.Value.Type()]
		if f.Value.Type() == "int" && f.Name != "rows" {
			values = append(values, "0")
		}
		for _, value := range values {
			if got := refusal(t, append(path[:len(path):len(path)], "--"+f.Name+"="+value)...); got.Code != "usage.flag" || got.Object != "--"+f.Name {
				t.Errorf("%v --%s=%q: %+v", path, f.Name, value, got)
			}
			t.Run(fmt.Sprintf("%s %s=%q", strings.Join(path, " "), variableOf(f.Name), value), func(t *testing.T) {
				t.Setenv(variableOf(f.Name), value)
				if got := refusal(t, path...); got.Code != "usage.environment" || got.Object != variableOf(f.Name) {
					t.Errorf("%+v", got)
				}
			})
		}
	})
	if seen < 12 {
		t.Errorf("%d flags with a range were seen", seen)
	}
}

// TestFlagsThatDoNotGoTogether, or that say nothing alone, are refused by name; those that
// are fine come as far as the spec.
func TestFlagsThatDoNotGoTogether(t *testing.T) {
	for _, c := range []struct{ args, variables, object string }{
		{"cutover --extend 4h", "", ""},
		{"cutover --extend 4h --yes --dry-run=false", "", ""},
		{"cutover --extend 4h --dry-run", "", "--extend, --dry-run"},
		{"cutover --extend 4h --max-pause 1s", "", "--extend, --max-pause"},
		{"cutover --extend 4h --database db0", "", "--extend, --database"},
		{"cutover --extend 4h", "DRY_RUN=true", "--extend, SHARDCTL_DRY_RUN"},
		{"cutover --extend 4h", "MAX_PAUSE=1s DATABASE=db0 DRY_RUN=false", ""}, // for other commands
		{"cutover --dry-run", "EXTEND=4h", "SHARDCTL_EXTEND, --dry-run"},
		{"cutover --max-pause 1s", "EXTEND=4h YES=true", "SHARDCTL_EXTEND, --max-pause"},
		{"cutover --max-pause 1ms --database db0,db1 --dry-run", "", ""},
		{"cutover --max-pause 1h", "", ""},
		{"cutover --max-pause 61m", "", "--max-pause"},
		{"cutover --max-pause 999us", "", "--max-pause"},
		{"rollback --max-pause 999us", "", "--max-pause"},
		{"rollback --max-pause 1s", "MAX_PAUSE=-1s", ""}, // a flag goes before its variable
		{"rollback --dry-run", "MAX_PAUSE=-1s", "SHARDCTL_MAX_PAUSE"},
		{"backfill --pause", "", ""},
		{"backfill --pause", "WORKERS=4 MODE=live", ""},
		{"backfill --pause --resume", "", "--pause, --resume"},
		{"backfill --resume --database db0", "", "--resume, --database"},
		{"backfill --pause --workers 2", "", "--pause, --workers"},
		{"backfill --pause --mode live", "", "--pause, --mode"},
		{"backfill --mode slow", "", "--mode"},
		{"backfill --mode fast --workers 1 --database db0 --database db1", "", ""},
		{"catchup --once --until-lag 1s", "", "--once, --until-lag"},
		{"catchup --until-lag 100ms", "", ""},
		{"verify --samples 5", "", "--samples"},
		{"verify --samples 5 --mode sample", "", ""},
		{"verify", "SAMPLES=5", ""},
	} {
		t.Run(c.variables+" "+c.args, func(t *testing.T) {
			for _, v := range strings.Fields(c.variables) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv("SHARDCTL_"+name, value)
			}
			got := refusal(t, strings.Fields(c.args)...)
			if c.object == "" && strings.HasPrefix(got.Code, "spec.") || c.object != "" && strings.HasPrefix(got.Code, "usage.") && got.Object == c.object {
				return
			}
			t.Errorf("%+v, want an error of %q", got, c.object)
		})
	}
}

// TestMaxPauseIsHeldToTheSpecsRange, which is stated twice.
func TestMaxPauseIsHeldToTheSpecsRange(t *testing.T) {
	t.Parallel()
	for pause, fine := range map[time.Duration]bool{
		migrate.LeastPause: true, migrate.LeastPause - 1: false, migrate.LongestPause: true, migrate.LongestPause + 1: false,
	} {
		text := fmt.Sprintf(`version: 1
migration: m
source: {dsn: "host=a"}
databases: {db0: {dsn: "host=b"}}
shards: {count: 1, schema: s, hash: postgres, placement: {db0: 0}}
tables: [{name: item}]
cutover: {max_pause: %s}
topology: [{driver: file, path: topology.json}]
`, pause)
		_, err := migrate.Decode("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if (err == nil) != fine {
			t.Errorf("max_pause: %s: %v", pause, err)
		}
	}
}
