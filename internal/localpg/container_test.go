package localpg

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// imageVariable names the image that tests may start: without one no engine is used.
const imageVariable = "SHARDCTL_TEST_IMAGE"

func testContainer(t *testing.T, e *Engine) *Container {
	t.Helper()
	c, err := e.NewContainer(t.Context(), ContainerOptions{Image: os.Getenv(imageVariable), Password: NewPassword(), Settings: []string{"max_connections=42"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // again, only if the test did not
	return c
}

func testEngine(t *testing.T) *Engine {
	t.Helper()
	if os.Getenv(imageVariable) == "" {
		t.Skipf("%s names no image, so no container is started", imageVariable)
	}
	e, err := FindEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// there reports whether the engine has the container.
func (c *Container) there(t *testing.T) bool {
	t.Helper()
	names, err := c.engine.run(context.Background(), engineAnswer, nil, "ps", "--all", "--format", "{{.Names}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(names, c.name)
}

func TestAContainerServesAndIsRemoved(t *testing.T) {
	e := testEngine(t)
	c := testContainer(t, e)
	conn, err := pgx.Connect(t.Context(), c.DSN("template1"))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('max_connections')").Scan(&got); err != nil || got != "42" {
		t.Errorf("the setting is %s: %v", got, err)
	}
	_ = conn.Close(t.Context())
	if err := c.Close(); err != nil || c.there(t) {
		t.Errorf("the container is there after Close: %v", err)
	}
}

func TestAContainerGoesWithItsFolderOnly(t *testing.T) {
	e := testEngine(t)
	left, kept := testContainer(t, e), testContainer(t, e)
	if err := kept.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := left.folder.Remove(); err != nil {
		t.Fatal(err)
	}
	e.sweep(t.Context())
	if left.there(t) || !kept.there(t) {
		t.Errorf("swept: without a folder it is there %v, kept %v", left.there(t), kept.there(t))
	}
	if out, err := exec.Command("sh", "-c", kept.StopCommand()).CombinedOutput(); err != nil || len(out) > 0 || kept.there(t) {
		t.Errorf("%s: %v: %s", kept.StopCommand(), err, out)
	}
}

func TestAnImageThatDoesNotServeIsReported(t *testing.T) {
	e := testEngine(t)
	_, err := e.NewContainer(t.Context(), ContainerOptions{Image: os.Getenv(imageVariable), Password: "p", Settings: []string{"no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error: %v", err)
	}
}
