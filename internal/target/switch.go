package target

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// A database's script of turning is a table there: for each relation, and then for
// each foreign key, the SQL that opens it to the application and the SQL that makes
// it an applied side again. It is data for our own commands; what forbids a write is
// in the catalog.

// turn is a line of the script.
type turn struct {
	everywhere       bool
	opening, closing string
	settling         string // after the opening, whenever there is time
}

// turns are a database's script.
func (p *plan) turns() []turn {
	var out []turn
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			for _, r := range t.Relations {
				out = append(out, p.turnRelation(t, r, loc))
			}
		}
	}
	if p.replica {
		return out
	}
	for _, t := range p.ordered() {
		for _, loc := range p.locations(t) {
			for _, k := range p.foreignKeys(t, loc) {
				if k.exchange(false) == "" {
					continue
				}
				line := turn{everywhere: t.Layout.Everywhere(), opening: k.exchange(false), closing: k.exchange(true)}
				if k.Validated && !k.partitioned && (k.OnUpdate != 'a' || k.OnDelete != 'a') {
					line.settling = k.validate()
				}
				out = append(out, line)
			}
		}
	}
	return out
}

// turnRelation is one ALTER TABLE each way. Each partition is named: whether a state
// reaches partitions by itself differs between versions.
func (p *plan) turnRelation(t *blueprint.Table, r *blueprint.Relation, loc migrate.Location) turn {
	m := p.migration()
	var open, shut []string
	both := func(name string, opened string) {
		open = append(open, opened)
		shut = append(shut, "DISABLE TRIGGER "+postgres.Ident(name))
	}
	closed := postgres.Ident(logschema.ClosedTrigger(m))
	open = append(open, "DISABLE TRIGGER "+closed)
	shut = append(shut, "ENABLE ALWAYS TRIGGER "+closed)
	if fence.Guarded(p.l, t.Layout) {
		both(logschema.GuardTrigger(m), state('A', postgres.Ident(logschema.GuardTrigger(m))))
	}
	if t.Layout.StoreAs != "" {
		both(logschema.StoreTrigger(m), state('A', postgres.Ident(logschema.StoreTrigger(m))))
	}
	if p.handDown(t, loc) != "" {
		both(logschema.HandDownTrigger(m), state('A', postgres.Ident(logschema.HandDownTrigger(m))))
	}
	for _, g := range r.Triggers {
		both(g.Name, state(g.State, postgres.Ident(g.Name)))
	}
	alter := "ALTER TABLE ONLY " + p.at(loc, r) + " "
	return turn{everywhere: t.Layout.Everywhere(), opening: alter + strings.Join(open, ", "), closing: alter + strings.Join(shut, ", ")}
}

func script(migration string) string {
	return postgres.Table(logschema.Schema, logschema.Switch(migration))
}

// scriptStatement makes the script's table.
func (p *plan) scriptStatement() ddl.Statement {
	name := script(p.migration())
	return ddl.Statement{
		SQL:    fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (place int PRIMARY KEY, everywhere bool NOT NULL, opening text NOT NULL, closing text NOT NULL, settling text NOT NULL)`, name),
		Object: p.object("table", name, "DROP TABLE IF EXISTS "+name),
	}
}

// saveTurns replaces the script; from then on the database can be opened.
func (p *plan) saveTurns(ctx context.Context, conn *pgx.Conn) error {
	turns := p.turns()
	return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM "+script(p.migration())); err != nil {
			return fmt.Errorf("write the script of turning: %w", err)
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{logschema.Schema, logschema.Switch(p.migration())}, []string{"place", "everywhere", "opening", "closing", "settling"},
			pgx.CopyFromSlice(len(turns), func(i int) ([]any, error) {
				return []any{i, turns[i].everywhere, turns[i].opening, turns[i].closing, turns[i].settling}, nil
			}))
		if err != nil {
			return fmt.Errorf("write the script of turning: %w", err)
		}
		return nil
	})
}

// Open turns a database's sharded tables to the application: closed fence down,
// guards and stored keys on, the user's triggers and foreign keys as on the source.
// The transaction holds SHARE ROW EXCLUSIVE on the tables.
func Open(ctx context.Context, tx postgres.Querier, l *layout.Layout, database string) error {
	return run(ctx, tx, l, database, "opening", "NOT everywhere")
}

// Close makes a database's sharded tables an applied side again.
func Close(ctx context.Context, tx postgres.Querier, l *layout.Layout, database string) error {
	return run(ctx, tx, l, database, "closing", "NOT everywhere")
}

// OpenEverywhere turns a database's everywhere tables to the application: it owns
// its copies from then on.
func OpenEverywhere(ctx context.Context, tx postgres.Querier, l *layout.Layout, database string) error {
	return run(ctx, tx, l, database, "opening", "everywhere")
}

// Settle does what opening left: it validates foreign keys that were exchanged,
// one by one, beside the application. It may be run at any time after Open.
func Settle(ctx context.Context, conn postgres.Querier, l *layout.Layout) error {
	return postgres.ExecFound(ctx, conn, "read the script of turning", "SELECT settling FROM "+script(l.Spec.Migration)+" WHERE settling <> '' ORDER BY place")
}

func run(ctx context.Context, tx postgres.Querier, l *layout.Layout, database, column, where string) error {
	var text string
	var lines int
	sql := fmt.Sprintf(`SELECT coalesce(string_agg(%s, E';\n' ORDER BY place) FILTER (WHERE %s), ''), count(*) FROM %s`, column, where, script(l.Spec.Migration))
	err := tx.QueryRow(ctx, sql).Scan(&text, &lines)
	if postgres.SQLState(err) == "42P01" || err == nil && lines == 0 {
		return unfinished(database)
	}
	if err != nil {
		return fmt.Errorf("read the script of turning: %w", err)
	}
	if text == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, text); err != nil {
		return fmt.Errorf("turn %s (%s): %w", database, column, err)
	}
	return nil
}

func unfinished(database string) error {
	return migrate.Refuse("target.unfinished", database, "indexes, constraints and triggers that follow the copy are not there yet", "run shardctl backfill")
}

// Finished reports whether all that follows the copy stands on a database.
func Finished(ctx context.Context, q postgres.Querier, l *layout.Layout) (bool, error) {
	var there bool
	name := script(l.Spec.Migration)
	if err := q.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&there); err != nil || !there {
		return false, err
	}
	err := q.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+name+")").Scan(&there)
	return there, err
}
