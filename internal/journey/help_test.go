package journey

import (
	"strings"
	"testing"
)

// TestHelpOfEveryCommand: each has examples and says which exit codes it ends with.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"plan", "prepare", "install", "catchup", "backfill", "verify", "cutover", "rollback", "complete", "abort",
		"status", "run", "topology", "topology show", "topology push", "route", "watchdog", "demo",
	} {
		r := begin(t, nil, append(strings.Fields(args), "--help")...).wait(t)
		help := r.stdout
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s --help: %s", args, r)
		}
		if args == "topology" { // a group of commands
			continue
		}
		for _, part := range []string{"\nEXAMPLES\n  shardctl ", "\nEXIT STATUS\n", "\n  0 ", "\n  1 ", "\n  64 "} {
			if !strings.Contains(help, part) {
				t.Errorf("%s --help has no %q:\n%s", args, part, help)
			}
		}
	}
}
