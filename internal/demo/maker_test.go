package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/localpg"
)

// TestWhatADemoNeeds: server programs, else an engine; without both it says what to
// install, in one line.
func TestWhatADemoNeeds(t *testing.T) {
	t.Parallel()
	absent := fmt.Errorf("it: %w", localpg.ErrNotFound)
	silent := errors.New("docker version: cannot connect")
	for _, c := range []struct {
		name, image              string
		programs, pooler, engine error
		container                bool
		refused                  []string
	}{
		{name: "programs", engine: absent},
		{name: "engine in the place of programs", programs: absent, container: true},
		{name: "an image goes before programs", image: "own", container: true},
		{name: "nothing", programs: absent, engine: absent, refused: []string{"PostgreSQL server programs", "container engine", "make deps", "apt-get install postgresql pgbouncer"}},
		{name: "an engine that does not answer", programs: absent, engine: silent, refused: []string{"server programs", "cannot connect"}},
		{name: "an image without an engine", image: "own", engine: absent, refused: []string{"--image"}},
		{name: "no pooler", pooler: absent, refused: []string{"PgBouncer", "make deps"}},
	} {
		m, err := chooseMaker(t.Context(), c.image, c.programs, c.pooler, func(context.Context) (*localpg.Engine, error) {
			return &localpg.Engine{}, c.engine
		})
		if len(c.refused) == 0 {
			if err != nil || (m.password != "") != c.container {
				t.Errorf("%s: containers %v, %v", c.name, m.password != "", err)
			}
			continue
		}
		for _, part := range c.refused {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, without %q or on several lines", c.name, err, part)
			}
		}
	}
}
