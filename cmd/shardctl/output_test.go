package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/migrate"
)

// A failure keeps the context that was put around it, and says its hint once.
func TestErrorsSayTheirHintOnce(t *testing.T) {
	t.Parallel()
	f := migrate.Refuse("capture.ddl", "public.block", "a column is new", "acknowledge it")
	for want, err := range map[string]error{
		"a column is new": f,
		"read the log: public.block: a column is new": fmt.Errorf("read the log: %w", f),
		"broken": errors.New("broken"),
	} {
		got := documents(err)
		if len(got) != 1 || got[0].Message != want {
			t.Errorf("%v is shown as %+v, want %q", err, got, want)
		}
	}
	many := documents(migrate.Failures{f, migrate.Refuse("key.null", "public.t", "rows have no key", "")})
	if len(many) != 2 || many[0].Hint != "acknowledge it" || many[1].Object != "public.t" {
		t.Errorf("two failures are shown as %+v", many)
	}
}
