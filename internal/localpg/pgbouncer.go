package localpg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// PgBouncerOptions says what pooler to start.
type PgBouncerOptions struct {
	Databases string   // the lines of section [databases]
	Users     []string // may connect without a password, next to Superuser
	Password  string   // of Superuser on the servers; none by default
	Settings  []string // "name=value" of section [pgbouncer]; a later one wins
}

// PgBouncer is a throw-away pooler in transaction mode.
type PgBouncer struct {
	// DatabasesFile holds the entries; the pooler's configuration includes it,
	// and reads it again on RELOAD.
	DatabasesFile string

	account *account
	folder  *Folder
	program string
	port    int
	kept    bool // outlives this process
	server  *process
}

// NewPgBouncer starts a pooler.
func NewPgBouncer(ctx context.Context, options PgBouncerOptions) (*PgBouncer, error) {
	program, err := FindPgBouncer()
	if err != nil {
		return nil, err
	}
	as, err := currentAccount()
	if err != nil {
		return nil, err
	}
	place, err := newFolder(as)
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{DatabasesFile: place.File("databases.ini"), account: as, folder: place, program: program}
	if err := b.firstStart(ctx, options); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// firstStart tries other ports if another process takes the one it found.
func (b *PgBouncer) firstStart(ctx context.Context, options PgBouncerOptions) error {
	const tries = 5
	var err error
	for range tries {
		if b.port, err = FreePort(); err != nil {
			return err
		}
		if err = b.configure(options); err != nil {
			return err
		}
		if err = b.Start(ctx); err == nil || !b.server.said("ddress already in use") {
			return err
		}
	}
	return err
}

func (b *PgBouncer) configure(options PgBouncerOptions) error {
	databases := options.Databases
	if !strings.Contains(databases, "[databases]") {
		databases = "[databases]\n" + databases
	}
	var users strings.Builder
	fmt.Fprintf(&users, "\"%s\" \"%s\"\n", Superuser, options.Password)
	for _, user := range options.Users {
		fmt.Fprintf(&users, "\"%s\" \"\"\n", strings.ReplaceAll(user, `"`, `""`))
	}
	settings := slices.Concat([]string{
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", b.port),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = " + b.folder.File("users.txt"),
		"admin_users = " + Superuser,
		"pool_mode = transaction",
		"default_pool_size = 20",
		"max_client_conn = 1000",
		"ignore_startup_parameters = extra_float_digits,options",
		"server_login_retry = 1", // the default of 15 s would make a test of a lost server slow
		"so_reuseport = 0",
	}, options.Settings)
	ini := "%include " + b.DatabasesFile + "\n\n[pgbouncer]\n" + strings.Join(settings, "\n") + "\n"
	return errors.Join(
		b.folder.write(b.account, "databases.ini", databases),
		b.folder.write(b.account, "users.txt", users.String()),
		b.folder.write(b.account, "pgbouncer.ini", ini),
	)
}

// raiseFiles lets the pooler open the descriptors that max_client_conn needs: it
// inherits the soft limit, which may be 1024 or, on macOS, 256.
const raiseFiles = `ulimit -n 8192 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$0" "$@"`

// Start starts the pooler on the port it had before and waits until it answers.
func (b *PgBouncer) Start(ctx context.Context) error {
	if b.server.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	server, err := startProcess(b.account, b.kept, b.folder.path, b.LogFile(), "/bin/sh",
		"-c", raiseFiles, b.program, b.folder.File("pgbouncer.ini"))
	b.server = server
	if err != nil {
		return err
	}
	return server.waitReady(ctx, func(ctx context.Context) error { return answers(ctx, b.AdminDSN()) })
}

// Kill ends the pooler as kill -9 does; Start brings it back.
func (b *PgBouncer) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.server.end(ctx, syscall.SIGKILL)
}

// Close ends the pooler and removes all it left.
func (b *PgBouncer) Close() error {
	// Which signal ends it without waiting for clients differs between versions,
	// and it has nothing to save.
	err := b.Kill(context.Background())
	return errors.Join(err, b.folder.Remove())
}

// DSN says how the superuser reaches an entry.
func (b *PgBouncer) DSN(entry string) string { return dsn(b.port, entry) }

// AdminDSN says how to reach the console.
func (b *PgBouncer) AdminDSN() string { return dsn(b.port, "pgbouncer") }

// Port is where the pooler listens on 127.0.0.1.
func (b *PgBouncer) Port() int { return b.port }

// PID is the process id of the pooler.
func (b *PgBouncer) PID() int { return b.server.pid() }

// LogFile is where the pooler writes its log.
func (b *PgBouncer) LogFile() string { return b.folder.File("pgbouncer.log") }
