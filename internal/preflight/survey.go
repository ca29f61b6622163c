package preflight

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// Survey is what the checks look at. Sessions that could not be had are absent,
// and are a finding already.
type Survey struct {
	Spec       *migrate.Spec
	Source     *pgx.Conn
	Databases  map[string]*pgx.Conn
	Identities map[string]postgres.Identity // by name, "source" included
	Layout     *layout.Layout               // nil if the tables are not as the spec says
}

// check is one thing to look for.
type check struct {
	name string
	find func(context.Context, *Survey) ([]migrate.Finding, error)
}

// onConnections need sessions only; onRows need the layout too, and read rows.
var (
	onConnections = []check{
		{"versions", versions}, {"servers", servers}, {"connections", connections}, {"source privileges", sourcePrivileges},
		{"database privileges", databasePrivileges}, {"encodings", encodings}, {"transactions", transactions}, {"other users", otherUsers}, {"entries", entries},
	}
	onRows = []check{
		{"keys", keys}, {"orphans", orphans}, {"uniques", uniques}, {"foreign keys", foreignKeys}, {"via indexes", viaIndexes},
		{"applied sides", appliedSides}, {"targets", targets}, {"definitions", definitions}, {"sequences", sequences}, {"not copied", notCopied}, {"trigger functions", triggerFunctions}, {"large objects", largeObjects}, {"object names", objectNames},
	}
)

// Run connects to every server and runs every check that it can. The findings are
// in the order of the checks; an error means that a check could not look.
func Run(ctx context.Context, spec *migrate.Spec) ([]migrate.Finding, *Survey, error) {
	s := &Survey{Spec: spec, Databases: map[string]*pgx.Conn{}, Identities: map[string]postgres.Identity{}}
	found, err := s.connect(ctx)
	if err != nil || s.Source == nil {
		return found, s, err
	}
	more, err := s.run(ctx, onConnections)
	found = append(found, more...)
	if err != nil {
		return found, s, err
	}
	if s.Layout, err = layout.Load(ctx, s.Source, spec); err != nil {
		failures := refusals(err)
		if failures == nil {
			return found, s, err
		}
		return append(found, failures...), s, nil
	}
	unread, all, err := readable(ctx, s)
	found = append(found, unread...)
	if err != nil || !all {
		return found, s, err
	}
	hidden, err := rowSecurity(ctx, s)
	found = append(found, hidden...)
	if err != nil || len(hidden) > 0 {
		return found, s, err // rows that a policy hides cannot be counted
	}
	more, err = s.run(ctx, onRows)
	return append(found, more...), s, err
}

// Close ends the sessions.
func (s *Survey) Close(ctx context.Context) {
	postgres.CloseQuietly(ctx, s.Source)
	for _, c := range s.Databases {
		postgres.CloseQuietly(ctx, c)
	}
}

func (s *Survey) run(ctx context.Context, checks []check) (found []migrate.Finding, err error) {
	for _, c := range checks {
		more, err := c.find(ctx, s)
		if err != nil {
			return found, fmt.Errorf("check %s: %w", c.name, err)
		}
		found = append(found, more...)
	}
	return found, nil
}

// connect opens the sessions; one that cannot be had is a finding.
func (s *Survey) connect(ctx context.Context) (found []migrate.Finding, err error) {
	open := func(t postgres.Target) (*pgx.Conn, error) {
		conn, err := postgres.Connect(ctx, t, "plan")
		if err != nil {
			failures := refusals(err)
			if failures == nil {
				return nil, err
			}
			found = append(found, failures...)
			return nil, nil
		}
		s.Identities[t.Name], err = postgres.ReadIdentity(ctx, conn)
		return conn, err
	}
	if s.Source, err = open(postgres.Target{Name: "source", DSN: s.Spec.Source.DSN}); err != nil {
		return found, err
	}
	for _, d := range s.Spec.Databases {
		conn, err := open(postgres.Target{Name: d.Name, DSN: d.DSN})
		if err != nil {
			return found, err
		}
		if conn != nil {
			s.Databases[d.Name] = conn
		}
	}
	return found, nil
}

// refusals turns failures into findings; nil if err is no failure.
func refusals(err error) []migrate.Finding {
	var many migrate.Failures
	if errors.As(err, &many) {
		var out []migrate.Finding
		for _, f := range many {
			out = append(out, refusal(f))
		}
		return out
	}
	var f *migrate.Failure
	if errors.As(err, &f) {
		return []migrate.Finding{refusal(f)}
	}
	return nil
}

func refusal(f *migrate.Failure) migrate.Finding {
	message := f.Message
	if f.Err != nil {
		message += ": " + f.Err.Error()
	}
	if f.Hint != "" {
		message += " (" + f.Hint + ")"
	}
	return migrate.Finding{ID: f.Code, Severity: migrate.SeverityError, Object: f.Object, Message: message}
}

// sides lists source and databases that answered, in the spec's order.
func (s *Survey) sides() (names []string, conns []*pgx.Conn) {
	names, conns = []string{"source"}, []*pgx.Conn{s.Source}
	for _, d := range s.Spec.Databases {
		if c := s.Databases[d.Name]; c != nil {
			names, conns = append(names, d.Name), append(conns, c)
		}
	}
	return names, conns
}

func blocking(id, object, message string, fix ...string) migrate.Finding {
	return finding(id, migrate.SeverityError, object, message, fix)
}

func warning(id, object, message string, fix ...string) migrate.Finding {
	return finding(id, migrate.SeverityWarning, object, message, fix)
}

func info(id, object, message string) migrate.Finding {
	return finding(id, migrate.SeverityInfo, object, message, nil)
}

func finding(id string, severity migrate.Severity, object, message string, fix []string) migrate.Finding {
	f := migrate.Finding{ID: id, Severity: severity, Object: object, Message: message}
	if len(fix) > 0 && fix[0] != "" {
		f.Fix = &fix[0]
	}
	return f
}

// strings reads one text column.
func texts(ctx context.Context, q postgres.Querier, sql string, args ...any) ([]string, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// oids of every migrated table and its leaves.
func (s *Survey) oids() []uint32 {
	var out []uint32
	for _, t := range s.Layout.Tables {
		out = append(out, t.Source.OID)
		for _, leaf := range t.Source.Leaves {
			out = append(out, leaf.OID)
		}
	}
	return out
}
