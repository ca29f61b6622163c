package pgtest

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/internal/localpg"
)

// PgBouncer is a pooler of one test.
type PgBouncer struct {
	*localpg.PgBouncer
}

// NewPgBouncer starts a PgBouncer in transaction mode, without passwords for the
// superuser and the users named. The text holds the lines of section
// [databases]; it is in DatabasesFile, which RELOAD reads again.
func NewPgBouncer(t testing.TB, databases string, users ...string) *PgBouncer {
	t.Helper()
	pooler, err := localpg.NewPgBouncer(context.Background(), localpg.PgBouncerOptions{Databases: databases, Users: users})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Errorf("pgtest: close pooler: %v", err)
		}
	})
	return &PgBouncer{PgBouncer: pooler}
}

// Kill ends the pooler as kill -9 does.
func (b *PgBouncer) Kill(t testing.TB) {
	t.Helper()
	if err := b.PgBouncer.Kill(context.Background()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// Start starts the pooler again, on the same port.
func (b *PgBouncer) Start(t testing.TB) {
	t.Helper()
	if err := b.PgBouncer.Start(context.Background()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}
