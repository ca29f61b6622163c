package localpg

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
)

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	c, err := NewCluster(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := c.folder.path
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c.Running() {
		t.Error("the server still runs")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("folder %s was left: %v", path, err)
	}
}

func TestABadSettingIsReportedWithTheServersWords(t *testing.T) {
	t.Parallel()
	_, err := NewCluster(t.Context(), Options{Settings: []string{"no_such_setting=1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error: %v", err)
	}
}

func TestACancelledStartIsReported(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewCluster(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

func TestAnUnknownStopModeIsRefused(t *testing.T) {
	t.Parallel()
	c := &Cluster{}
	if err := c.Stop(t.Context(), "soon"); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("error: %v", err)
	}
}

func TestAFreePortCanBeUsed(t *testing.T) {
	t.Parallel()
	port, err := FreePort()
	if err != nil || port < lowestPort || port >= highestPort {
		t.Fatalf("port %d: %v", port, err)
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}
