package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
)

// through opens a session by a proxy, under a name.
func through(t *testing.T, p *proxy, d *pgtest.Database, name string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(d.DSN())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = "127.0.0.1", uint16(p.port()), nil, nil
	cfg.RuntimeParams["application_name"] = name
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func proxied(t *testing.T) (*proxy, *pgtest.Database) {
	t.Helper()
	d := pgtest.NewDatabase(t)
	cfg, err := pgx.ParseConfig(d.DSN())
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProxy(fmt.Sprintf("%s:%d", cfg.Host, cfg.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, d
}

// works reports whether a session answers within a while.
func works(t *testing.T, conn *pgx.Conn, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT 1")
	return err == nil
}

// TestProxyHurtsShardctlAlone: what is cut, or half-open, are the sessions that say they
// are shardctl's; others and later ones pass.
func TestProxyHurtsShardctlAlone(t *testing.T) {
	t.Parallel()
	p, d := proxied(t)
	app, ours := through(t, p, d, "app"), through(t, p, d, "shardctl catchup")
	if names := p.cutAll(); len(names) != 1 || names[0] != "shardctl catchup" {
		t.Errorf("cut %v", names)
	}
	if works(t, ours, time.Minute) || !works(t, app, time.Minute) {
		t.Error("after a cut shardctl's session answers, or another does not")
	}
	ours = through(t, p, d, "shardctl apply")
	names, thaw := p.freeze()
	if len(names) != 1 || works(t, ours, 100*time.Millisecond) || !works(t, app, time.Minute) {
		t.Errorf("half-open: %v", names)
	}
	thaw()
	if later := through(t, p, d, "shardctl apply"); !works(t, later, time.Minute) {
		t.Error("a later session does not answer")
	}
	start := time.Now()
	slowed := through(t, p, d, "shardctl apply")
	p.slow(100 * time.Millisecond)
	if !works(t, slowed, time.Minute) || time.Since(start) < 200*time.Millisecond {
		t.Error("a delayed session does not answer, or at once")
	}
}

// TestProxyCutsAfterCommit: the server commits, and the client is not told.
func TestProxyCutsAfterCommit(t *testing.T) {
	t.Parallel()
	p, d := proxied(t)
	d.Exec(t, "CREATE TABLE public.t (a text)")
	write := func(conn *pgx.Conn, text string) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO public.t VALUES ($1)", text)
			return err
		})
	}
	var asked []string
	ours, app := through(t, p, d, "shardctl apply"), through(t, p, d, "app")
	p.whenCommitting(func(name string) bool {
		asked = append(asked, name)
		return len(asked) == 2
	})
	if err := write(ours, "first"); err != nil {
		t.Errorf("a COMMIT that was to pass: %v", err)
	}
	if err := write(app, "not asked"); err != nil {
		t.Errorf("a COMMIT of the application: %v", err)
	}
	if err := write(ours, "second"); err == nil {
		t.Error("the client was told")
	}
	pgtest.Eventually(t, 10*time.Second, func() bool { return d.Value(t, "SELECT count(*) FROM public.t") == "3" })
}
