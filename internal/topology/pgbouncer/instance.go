package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/internal/topology/wholefile"
	"github.com/shardctl/shardctl/migrate"
)

// The names of console sessions, as SHOW CLIENTS shows them.
const (
	controlName = "shardctl control"
	pauseName   = "shardctl pause"
)

// instance is one pooler process.
type instance struct {
	name  string // host:port of its console
	admin *pgconn.Config
	file  databasesFile

	mu      sync.Mutex // one command at a time on control
	control *console   // opened again when it broke

	pauseMu     sync.Mutex // held by a Pause until it ends; guards what follows
	pausing     *console
	withdrawn   []*console // on which a RESUME follows a PAUSE that was not answered
	held        heldBy     // what a finished Pause of this Router left
	heldEntries []string   // those that it held
	retry       string     // server_login_retry as it was before that Pause; "" is not known
}

// newInstance reads the instance's DSN.
func newInstance(i migrate.RouterInstance) (*instance, error) {
	cfg, err := pgconn.ParseConfig(i.AdminDSN.Reveal())
	if err != nil {
		return nil, migrate.Usage("dsn.malformed", "admin_dsn of "+i.DatabasesFile, "the DSN cannot be parsed", "give a postgres:// URL or key=value pairs")
	}
	for _, f := range cfg.Fallbacks {
		if f.Host != cfg.Host || f.Port != cfg.Port {
			return nil, migrate.Usage("router.hosts", "admin_dsn of "+i.DatabasesFile, "it names several hosts", "list each pooler as an instance of its own")
		}
	}
	in := &instance{name: net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), admin: cfg, file: wholefile.New(i.DatabasesFile, false)}
	if len(i.FileVia) > 0 {
		in.file = wholefile.NewCommand(i.FileVia, i.DatabasesFile)
	}
	return in, nil
}

func (i *instance) open(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, err := i.controlLocked(ctx); err != nil {
		return err
	}
	i.pauseMu.Lock()
	defer i.pauseMu.Unlock()
	_, err := i.pausingLocked(ctx)
	return err
}

func (i *instance) close() {
	i.mu.Lock()
	i.control.close()
	i.control = nil
	i.mu.Unlock()
	i.pauseMu.Lock()
	defer i.pauseMu.Unlock()
	i.pausing.close()
	i.pausing = nil
	for _, c := range i.withdrawn {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c.drain(ctx)
		cancel()
	}
	i.withdrawn = nil
}

func (i *instance) controlLocked(ctx context.Context) (*console, error) {
	return i.reopen(ctx, &i.control, controlName)
}

// pausingLocked gives a session that was just seen to be alive: a PAUSE is not sent twice.
func (i *instance) pausingLocked(ctx context.Context) (*console, error) {
	if i.pausing.usable() {
		_, _, _ = i.pausing.askThen(ctx, "SHOW VERSION") // a dead one is not usable afterwards
	}
	return i.reopen(ctx, &i.pausing, pauseName)
}

// reopen gives a session that can be used, a new one if the old one broke.
func (i *instance) reopen(ctx context.Context, c **console, name string) (*console, error) {
	if (*c).usable() {
		return *c, nil
	}
	(*c).close()
	fresh, err := connectConsole(ctx, i.admin, name)
	if err != nil {
		*c = nil
		return nil, i.unreachable(err)
	}
	*c = fresh
	return fresh, nil
}

// ask runs a command and then SHOW something on the control session, and again on a
// new session if the old one turns out to be broken: all that is asked here may be
// asked twice. It gives the answer of the latter, and what the former were refused for.
func (i *instance) ask(ctx context.Context, show string, commands ...string) (answer, []*pgconn.PgError, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for first := true; ; first = false {
		c, err := i.controlLocked(ctx)
		if err != nil {
			return answer{}, nil, err
		}
		a, refused, err := c.askThen(ctx, show, commands...)
		if err == nil {
			return a, refused, nil
		}
		if !first || ctx.Err() != nil {
			return a, refused, i.failed(strings.Join(append(commands, show), ", "), err)
		}
	}
}

// change replaces the file and makes the pooler read it.
func (i *instance) change(ctx context.Context, change wholefile.Change) error {
	if err := i.file.Replace(ctx, change); err != nil {
		return i.failed("change its file", err)
	}
	return i.reload(ctx)
}

// database is an entry as the pooler shows it.
type database struct {
	topology.Address
	poolMode string // "" is the pooler's default
	poolSize int
	paused   bool
	disabled bool
}

// databases asks for all entries, by name.
func (i *instance) databases(ctx context.Context) (map[string]database, error) {
	a, _, err := i.ask(ctx, "SHOW DATABASES")
	return databasesOf(a), err
}

func databasesOf(a answer) map[string]database {
	shown := make(map[string]database, len(a.rows))
	for _, row := range a.rows {
		port, _ := strconv.ParseUint(a.column(row, "port"), 10, 16)
		size, _ := strconv.Atoi(a.column(row, "pool_size"))
		shown[a.column(row, "name")] = database{
			Address:  topology.Address{Host: a.column(row, "host"), Port: uint16(port), DBName: a.column(row, "database")},
			poolMode: a.column(row, "pool_mode"), poolSize: size,
			paused: a.column(row, "paused") == "1", disabled: a.column(row, "disabled") == "1",
		}
	}
	return shown
}

// failed says where and what; a Failure is left as it is.
func (i *instance) failed(what string, err error) error {
	return fmt.Errorf("pgbouncer %s: %s: %w", i.name, shorten(what), err)
}

func (i *instance) unreachable(err error) error {
	return migrate.Broken("router.unreachable", "pgbouncer "+i.name, "no session on its console",
		"is it up, and is user "+i.admin.User+" one of its admin_users?", i.plain(err))
}

// plain is a connection's error without the connection string, which may hold a
// password, and without the addresses tried.
func (i *instance) plain(err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return fmt.Errorf("no answer in time: %w", end)
		}
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused
	}
	reason := err.Error()
	if i.admin.Password != "" {
		reason = strings.ReplaceAll(reason, i.admin.Password, "***")
	}
	if n := strings.LastIndex(reason, "): "); n >= 0 && strings.HasPrefix(reason, "failed to connect to `") {
		reason = reason[n+3:]
	}
	return errors.New(reason)
}

// shorten keeps a list of hundreds of commands out of messages.
func shorten(what string) string {
	if len(what) > 100 {
		return what[:100] + "…"
	}
	return what
}
