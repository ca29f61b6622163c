package pgcontainer

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
)

func TestAServerInAContainer(t *testing.T) {
	if os.Getenv(imageVariable) == "" {
		t.Skipf("%s names no image, so no container is started", imageVariable)
	}
	s, err := Start(t.Context(), []string{"wal_level=logical", "max_connections=42"})
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupContainer(t, s.container) // only if Close does not work
	conn, err := pgx.Connect(t.Context(), s.DSN("template1"))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	err = conn.QueryRow(t.Context(),
		"SELECT concat_ws(' ', current_database(), current_setting('wal_level'), current_setting('max_connections'))").Scan(&got)
	if want := "template1 logical 42"; err != nil || got != want {
		t.Errorf("server says %q, %v; want %q", got, err, want)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := pgx.Connect(t.Context(), s.DSN("postgres")); err == nil {
		t.Error("the server still answers", conn.Close(t.Context()))
	}
}

// On a machine without an engine it is the engine that is missing: an error too,
// where the library panics.
func TestAnImageThatCannotBeHadIsAnError(t *testing.T) {
	t.Setenv(imageVariable, "127.0.0.1:1/none:none")
	s, err := Start(t.Context(), nil)
	if err == nil {
		t.Fatal("a server was started from no image", s.Close())
	}
	if !strings.Contains(err.Error(), "container engine") && !strings.Contains(err.Error(), "127.0.0.1:1/none:none") {
		t.Errorf("the error names neither engine nor image: %v", err)
	}
}
