package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// orphanVariable makes this test program a caller that starts servers, says
// where they are, and waits to be killed; or, with keepServers, keeps them and ends.
const (
	orphanVariable = "LOCALPG_TEST_ORPHAN"
	keepServers    = "keep"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		orphan()
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func orphan() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := NewCluster(ctx, Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	b, err := NewPgBouncer(ctx, PgBouncerOptions{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	if os.Getenv(orphanVariable) == keepServers {
		if err := errors.Join(c.Keep(ctx), b.Keep(ctx)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	fmt.Println(c.PID(), c.folder.path, c.DSN("postgres"), c.StopCommand())
	fmt.Println(b.PID(), b.folder.path, b.AdminDSN(), b.StopCommand())
	if os.Getenv(orphanVariable) == keepServers {
		os.Exit(0)
	}
	<-ctx.Done()
	os.Exit(1)
}
