package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	pg "github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed look.sql
var lookSQL string

// place is what may be done where the table is, or is to be.
type place struct {
	user, database, version string
	standby                 bool
	schema, table           bool // exists
	createSchema            bool // the role may
	usage, createTable      bool
	write, filtered, fits   bool // of the table: privileges, row security, columns and key
}

func (r *Router) look(ctx context.Context, q pg.Querier) (place, error) {
	var p place
	err := q.QueryRow(ctx, lookSQL, r.table.Schema, r.table.Name).Scan(&p.user, &p.database, &p.version, &p.standby, &p.schema, &p.table,
		&p.createSchema, &p.usage, &p.createTable, &p.write, &p.filtered, &p.fits)
	return p, r.orNil("look at the table", err)
}

// statements make the table and its schema.
func (r *Router) statements(schemaThere bool) []string {
	table := "CREATE TABLE IF NOT EXISTS " + r.quoted() +
		" (migration text PRIMARY KEY, epoch bigint NOT NULL, document jsonb NOT NULL, updated timestamptz NOT NULL)"
	if schemaThere {
		return []string{table} // CREATE SCHEMA needs its right even where the schema exists
	}
	return []string{"CREATE SCHEMA IF NOT EXISTS " + pg.Ident(r.table.Schema), table}
}

// create makes what is missing, one process at a time.
func (r *Router) create(ctx context.Context, tx pgx.Tx) error {
	const there = `SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL`
	const wait = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`
	var schema, table bool
	look := func() error {
		return r.orNil("look for the table", tx.QueryRow(ctx, there, pg.Ident(r.table.Schema), r.quoted()).Scan(&schema, &table))
	}
	if err := look(); err != nil || table {
		return err
	}
	if _, err := tx.Exec(ctx, wait, "shardctl topology "+r.quoted()); err != nil {
		return r.failed("wait to create the table", err)
	}
	if err := look(); err != nil || table {
		return err
	}
	for _, sql := range r.statements(schema) {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return r.failed("create the table", err)
		}
	}
	return nil
}

// Describe looks at the table, the role's rights and the row.
func (r *Router) Describe(ctx context.Context) (topology.Description, error) {
	instance := topology.Instance{Name: r.name}
	found := []migrate.Finding{}
	err := r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		p, err := r.look(ctx, conn)
		if err != nil {
			return err
		}
		instance.Version, found = p.version, r.judge(p)
		if !p.table || len(found) > 0 {
			return nil
		}
		doc, _, err := r.read(ctx, conn)
		instance.Epoch = doc.Epoch
		return err
	})
	if ctx.Err() != nil {
		return topology.Description{}, ctx.Err()
	}
	if err != nil {
		found = append(found, r.unfit(err))
	}
	return topology.Description{Instances: []topology.Instance{instance}, Findings: found}, nil
}

// unfit makes a finding of an error.
func (r *Router) unfit(err error) migrate.Finding {
	fix := "bring the server up, or mend dsn in the spec"
	f := migrate.Finding{ID: "router.unreachable", Severity: migrate.SeverityError, Object: "postgres " + r.name, Message: err.Error(), Fix: &fix}
	var failure *migrate.Failure
	if !errors.As(err, &failure) {
		return f
	}
	switch {
	case failure.Code == "connect.pooler":
		f.ID = "router.pooler"
	case strings.HasPrefix(failure.Code, "router."):
		f.ID = failure.Code
	}
	if failure.Message != "" {
		f.Message = failure.Message
	}
	if failure.Err != nil {
		f.Message += ": " + failure.Err.Error()
	}
	if failure.Hint != "" {
		f.Fix = &failure.Hint
	}
	return f
}

// judge tells what forbids writing the row. The fix of each is the whole of it.
func (r *Router) judge(p place) []migrate.Finding {
	grantee, schema := pg.Ident(p.user), pg.Ident(r.table.Schema)
	var found []migrate.Finding
	add := func(id, message, fix string) {
		found = append(found, migrate.Finding{ID: id, Severity: migrate.SeverityError, Object: "postgres " + r.name, Message: message, Fix: &fix})
	}
	if p.standby {
		add("router.read_only", "the server is a standby: nothing can be written", "name the primary in dsn, or add target_session_attrs=read-write to it")
	}
	switch {
	case !p.schema && !p.createSchema:
		add("router.privilege", "the schema is missing and role "+p.user+" may not create it",
			strings.Join(r.statements(false), "; ")+fmt.Sprintf("; GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT, INSERT, UPDATE ON %s TO %s", schema, grantee, r.quoted(), grantee))
	case p.schema && !p.usage:
		add("router.privilege", "role "+p.user+" may not use the schema", fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", schema, grantee))
	case p.schema && !p.table && !p.createTable:
		add("router.privilege", "the table is missing and role "+p.user+" may not create it",
			strings.Join(r.statements(true), "; ")+fmt.Sprintf("; GRANT SELECT, INSERT, UPDATE ON %s TO %s", r.quoted(), grantee))
	case p.table && !p.fits:
		add("router.table", "it is no table with the columns migration text (unique), epoch bigint, document jsonb, updated timestamptz", "name another table, or drop this one: it is made anew")
	case p.table && !p.write:
		add("router.privilege", "role "+p.user+" may not read and write the table", fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s TO %s", r.quoted(), grantee))
	case p.filtered:
		add("router.row_security", "row level security hides rows from role "+p.user, fmt.Sprintf("ALTER TABLE %s DISABLE ROW LEVEL SECURITY", r.quoted()))
	}
	return found
}

// refusal makes an error of the first finding.
func refusal(found []migrate.Finding) error {
	for _, f := range found {
		return migrate.Refuse(f.ID, f.Object, f.Message, "fix: "+*f.Fix)
	}
	return nil
}
