package journey

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

// TestHelpOfEveryCommand: each has examples and says which exit codes it ends with.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"init", "plan", "prepare", "install", "catchup", "backfill", "verify", "cutover", "rollback", "complete", "abort",
		"status", "doctor", "run", "topology", "topology show", "topology push", "route", "watchdog", "demo", "rehearse",
	} {
		r := binary.Begin(t, nil, append(strings.Fields(args), "--help")...).Wait(t)
		help := r.Stdout
		if r.Code != 0 || r.Stderr != "" {
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
