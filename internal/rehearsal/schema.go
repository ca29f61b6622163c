package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/localpg"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// sourceName is the database that stands for the source.
const sourceName = "source"

// copySchema makes the roles and databases, and the source's definitions.
func (w *World) copySchema(ctx context.Context, real *pgx.Conn, spec *migrate.Spec) error {
	var encoding string
	if err := real.QueryRow(ctx, "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()").Scan(&encoding); err != nil {
		return fmt.Errorf("read the source's encoding: %w", err)
	}
	rows, err := real.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname NOT LIKE 'pg\_%' AND rolname <> $1 ORDER BY 1`, localpg.Superuser)
	if err != nil {
		return fmt.Errorf("read the source's roles: %w", err)
	}
	roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read the source's roles: %w", err)
	}
	names := map[*localpg.Cluster][]string{w.source: {sourceName}}
	for i, d := range spec.Databases {
		c, name := w.targets[i%len(w.targets)], fmt.Sprintf("database_%d", i)
		names[c] = append(names[c], name)
		w.at.databases[d.Name] = c.DSN(name)
	}
	for c, databases := range names {
		if err := makeDatabases(ctx, c, roles, databases, encoding); err != nil {
			return err
		}
	}
	return w.dump(ctx, real, spec.Source.DSN)
}

func makeDatabases(ctx context.Context, c *localpg.Cluster, roles, names []string, encoding string) error {
	conn, err := local(ctx, c, "postgres")
	if err != nil {
		return err
	}
	defer postgres.CloseQuietly(ctx, conn)
	var statements []string
	for _, r := range roles {
		statements = append(statements, "CREATE ROLE "+postgres.Ident(r))
	}
	for _, n := range names {
		statements = append(statements, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING %s LC_COLLATE 'C' LC_CTYPE 'C'", n, postgres.Literal(encoding)))
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func local(ctx context.Context, c *localpg.Cluster, database string) (*pgx.Conn, error) {
	return postgres.Connect(ctx, postgres.Target{Name: "rehearsal", DSN: migrate.Secret(c.DSN(database))}, "rehearse")
}

// dump passes pg_dump's definitions to psql. What it is to connect with goes through
// the environment: command lines are seen by everybody on the machine.
func (w *World) dump(ctx context.Context, real *pgx.Conn, dsn migrate.Secret) error {
	dumper, err := w.source.Program("pg_dump")
	if err != nil {
		return lackingClient("pg_dump", err)
	}
	loader, err := w.source.Program("psql")
	if err != nil {
		return lackingClient("psql", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := exec.CommandContext(ctx, dumper, "--schema-only", "--no-publications", "--no-subscriptions", "--exclude-schema=shardctl", "--no-password")
	from.Env = append(clean(from.Environ()), connectEnvironment(real.Config(), dsn.Reveal())...)
	to := exec.CommandContext(ctx, loader, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-", w.source.DSN(sourceName))
	to.Env = clean(to.Environ())
	var complaints, refusal bytes.Buffer
	from.Stderr, to.Stderr = &complaints, &refusal
	if to.Stdin, err = from.StdoutPipe(); err != nil {
		return fmt.Errorf("take the schema: %w", err)
	}
	if err := from.Start(); err != nil {
		return fmt.Errorf("take the schema: %w", err)
	}
	loaded := to.Run()
	if loaded != nil {
		cancel() // nobody reads any more
	}
	dumped := from.Wait()
	switch {
	case loaded != nil:
		return migrate.Broken("rehearse.schema", "source", "its schema cannot be made on this machine's PostgreSQL: "+firstLine(refusal.String()), "install what is missing, an extension perhaps, and the same major version", loaded)
	case dumped != nil:
		return migrate.Broken("rehearse.dump", "source", "its schema cannot be read: "+firstLine(complaints.String()), "pg_dump has to be of the source's major version or a later one", dumped)
	}
	return nil
}

func lackingClient(program string, err error) error {
	return migrate.Broken("rehearse.lacking", "rehearse", "needs "+program+" beside the server programs", "on Debian: apt-get install postgresql-client", errors.Unwrap(err))
}

// clean drops what libpq would take from the caller's environment.
func clean(environment []string) []string {
	var out []string
	for _, v := range environment {
		if !strings.HasPrefix(v, "PG") {
			out = append(out, v)
		}
	}
	return out
}

// passed are the parameters of a DSN that libpq needs beyond the address.
var passed = map[string]string{
	"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslcrl": "PGSSLCRL",
	"channel_binding": "PGCHANNELBINDING", "gssencmode": "PGGSSENCMODE", "options": "PGOPTIONS",
}

var keyword = regexp.MustCompile(`(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))`)

// connectEnvironment is what pg_dump needs to reach the server that a session is on.
func connectEnvironment(c *pgx.ConnConfig, dsn string) []string {
	out := []string{"PGHOST=" + c.Host, fmt.Sprintf("PGPORT=%d", c.Port), "PGUSER=" + c.User, "PGDATABASE=" + c.Database}
	if c.Password != "" {
		out = append(out, "PGPASSWORD="+c.Password)
	}
	add := func(name, value string) {
		if variable, known := passed[name]; known && value != "" {
			out = append(out, variable+"="+value)
		}
	}
	if u, err := url.Parse(dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		for name, values := range u.Query() {
			add(name, values[len(values)-1])
		}
		return out
	}
	for _, m := range keyword.FindAllStringSubmatch(dsn, -1) {
		add(m[1], m[2]+m[3])
	}
	return out
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
