package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Superuser is the role that owns every throw-away server; it needs no password.
const Superuser = "postgres"

// patience bounds each start and stop: on a loaded machine with two cores a
// start takes up to a few seconds, crash recovery included.
const patience = 60 * time.Second

// Options says what server to start.
type Options struct {
	BinDir   string   // where initdb and postgres are; defaults to FindPostgres
	Fsync    bool     // defaults to false: the server survives its own crash, not the machine's
	Settings []string // "name=value", as in postgresql.conf; a later one wins
}

// Cluster is a throw-away PostgreSQL server. Its methods are not for concurrent
// use, but for DSN.
type Cluster struct {
	options Options
	account *account
	folder  *Folder
	port    int
	kept    bool // outlives this process
	server  *process
}

// NewCluster makes a server and starts it.
func NewCluster(ctx context.Context, options Options) (*Cluster, error) {
	if options.BinDir == "" {
		dir, err := FindPostgres()
		if err != nil {
			return nil, err
		}
		options.BinDir = dir
	}
	as, err := currentAccount()
	if err != nil {
		return nil, err
	}
	place, err := newFolder(as)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, account: as, folder: place}
	if err := errors.Join(c.initdb(ctx), c.firstStart(ctx)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// initdb makes the data folder. Its locale is C.UTF-8 where the system has it,
// else C: both sort by bytes, as tests expect. A copy of a folder made before
// would save half of the second that it takes, but all servers would then have
// one system identifier, which is how shardctl tells servers apart.
func (c *Cluster) initdb(ctx context.Context) error {
	var errs error
	for _, locale := range []string{"C.UTF-8", "C"} {
		err := c.tryInitdb(ctx, locale)
		if err == nil {
			return c.configure()
		}
		errs = errors.Join(errs, err)
		if ctx.Err() != nil {
			return errs
		}
		if err := os.RemoveAll(c.dataDir()); err != nil {
			return errors.Join(errs, err)
		}
	}
	return errs
}

func (c *Cluster) tryInitdb(ctx context.Context, locale string) error {
	p, err := startProcess(c.account, false, c.folder.path, c.folder.File("initdb.log"), c.options.BinDir+"/initdb",
		"-D", c.dataDir(), "-U", Superuser, "-A", "trust", "-E", "UTF8", "--locale="+locale, "--no-sync")
	if err != nil {
		return err
	}
	return p.finish(ctx, "initdb with locale "+locale)
}

func (c *Cluster) configure() error {
	settings := []string{
		"listen_addresses='127.0.0.1'",
		"unix_socket_directories='" + c.folder.path + "'",
		"logging_collector=off",
		"timezone='UTC'",
		"log_timezone='UTC'",
	}
	if !c.options.Fsync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	settings = append(settings, c.options.Settings...)
	path := c.dataDir() + "/postgresql.auto.conf"
	if err := os.WriteFile(path, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("configure server: %w", err)
	}
	return c.account.own(path)
}

// firstStart tries other ports if another process takes the one it found.
func (c *Cluster) firstStart(ctx context.Context) error {
	if _, err := os.Stat(c.dataDir() + "/PG_VERSION"); err != nil {
		return nil // initdb failed and said why
	}
	const tries = 5
	var err error
	for range tries {
		if c.port, err = FreePort(); err != nil {
			return err
		}
		if err = c.Start(ctx); err == nil || !c.server.said("could not bind") {
			return err
		}
	}
	return err
}

func (c *Cluster) dataDir() string { return c.folder.File("data") }

// Start starts the server on the port it had before and waits until it answers.
func (c *Cluster) Start(ctx context.Context) error {
	if c.server.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := c.startOnce(ctx)
		// After a kill -9 the backends take a moment to see that they are alone.
		if err == nil || ctx.Err() != nil || !c.server.said("pre-existing shared memory block") {
			return err
		}
	}
}

func (c *Cluster) startOnce(ctx context.Context) error {
	server, err := startProcess(c.account, c.kept, c.folder.path, c.LogFile(), c.options.BinDir+"/postgres",
		"-D", c.dataDir(), "-p", fmt.Sprint(c.port))
	c.server = server
	if err != nil {
		return err
	}
	return server.waitReady(ctx, func(ctx context.Context) error { return answers(ctx, c.DSN("postgres")) })
}

func answers(ctx context.Context, dsn string) error {
	conn, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Stop shuts the server down in one of PostgreSQL's modes: "smart", "fast" or
// "immediate" (as after a crash), or "kill", which is kill -9.
func (c *Cluster) Stop(ctx context.Context, mode string) error {
	signals := map[string]syscall.Signal{
		"smart": syscall.SIGTERM, "fast": syscall.SIGINT, "immediate": syscall.SIGQUIT, "kill": syscall.SIGKILL,
	}
	signal, ok := signals[mode]
	if !ok {
		return fmt.Errorf("stop server: mode %q is none of smart, fast, immediate, kill", mode)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.server.end(ctx, signal)
}

// Restart stops the server in a mode and starts it again.
func (c *Cluster) Restart(ctx context.Context, mode string) error {
	if err := c.Stop(ctx, mode); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Close ends the server and removes all it left.
func (c *Cluster) Close() error {
	err := c.Stop(context.Background(), "immediate")
	return errors.Join(err, c.folder.Remove())
}

// DSN says how the superuser reaches a database of the server.
func (c *Cluster) DSN(database string) string {
	return dsn(c.port, database)
}

func dsn(port int, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(Superuser), Host: fmt.Sprintf("127.0.0.1:%d", port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is where the server listens on 127.0.0.1.
func (c *Cluster) Port() int { return c.port }

// PID is the process id of the server's postmaster.
func (c *Cluster) PID() int { return c.server.pid() }

// Running reports whether the server's process is there.
func (c *Cluster) Running() bool { return c.server.running() }

// LogFile is where the server writes its log.
func (c *Cluster) LogFile() string { return c.folder.File("postgres.log") }

// Program gives the path of a program that belongs to the server, like psql.
func (c *Cluster) Program(name string) (string, error) {
	return exec.LookPath(c.options.BinDir + "/" + name)
}
