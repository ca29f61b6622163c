package auditlog

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed install_state.sql
var relationStateSQL string

// locationBatch is how many locations get their triggers in one transaction: few
// round trips, and no writer waits long if the database is open already.
const locationBatch = 60

// always is tgenabled of a trigger that replica-role sessions do not slip by.
const always = "A"

// relationState is a captured table, or a partition below it, with the state of
// our triggers on it: tgenabled, "" where there is none.
type relationState struct {
	root     migrate.TableName
	name     migrate.TableName
	kind     string // relkind
	row      string
	truncate string
}

func (r relationState) isRoot() bool { return r.name == r.root }

// wantsTruncate reports whether TRUNCATE is to be captured here: what names a
// branch empties its leaves.
func (r relationState) wantsTruncate() bool { return r.isRoot() || r.kind == "r" }

// ready reports whether all is captured.
func (r relationState) ready() bool {
	return r.row == always && (r.truncate == always || !r.wantsTruncate())
}

func (s Side) readRelations(ctx context.Context, q postgres.Querier, t *layout.Table, roots []migrate.TableName) ([]relationState, error) {
	schemas, names := make([]string, len(roots)), make([]string, len(roots))
	for i, r := range roots {
		schemas[i], names[i] = r.Schema, r.Name
	}
	m := s.migration()
	rows, err := q.Query(ctx, relationStateSQL, schemas, names, logschema.CaptureTrigger(m), logschema.CaptureTruncateTrigger(m), s.captureFunction(t), s.truncateFunction(t))
	if err != nil {
		return nil, fmt.Errorf("look for capture of %s on %s: %w", t.Name(), s.Name(), err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (relationState, error) {
		var st relationState
		var root int
		err := r.Scan(&root, &st.name.Schema, &st.name.Name, &st.kind, &st.row, &st.truncate)
		if err == nil {
			st.root = roots[root]
		}
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for capture of %s on %s: %w", t.Name(), s.Name(), err)
	}
	for _, root := range roots {
		if !slices.ContainsFunc(out, func(r relationState) bool { return r.name == root }) {
			return nil, migrate.Refuse("capture.no_table", root.String(), "there is no such table on "+s.Name(), "run shardctl prepare")
		}
	}
	return out, nil
}

// triggersLacking is the DDL for triggers that are missing or do not fire always.
func (s Side) triggersLacking(t *layout.Table, relations []relationState) []ddl.Statement {
	row, truncate := logschema.CaptureTrigger(s.migration()), logschema.CaptureTruncateTrigger(s.migration())
	var out []ddl.Statement
	for _, r := range relations {
		switch {
		case r.row == "" && r.isRoot():
			out = append(out, s.rowTrigger(t, r.root))
		case r.row != always: // on a partition the root's is there by now
			out = append(out, ddl.Statement{SQL: setTrigger(r.name, "ENABLE ALWAYS", row)})
		}
		switch {
		case !r.wantsTruncate() || r.truncate == always:
		case r.truncate == "":
			out = append(out, s.truncateTrigger(t, r.root, r.name))
		default:
			out = append(out, ddl.Statement{SQL: setTrigger(r.name, "ENABLE ALWAYS", truncate)})
		}
	}
	return out
}

// ensureTriggers makes a table's triggers stand, and reports whether any lacked.
func (in *installer) ensureTriggers(ctx context.Context, t *layout.Table, accepted bool) (bool, error) {
	roots := in.side.roots(t)
	relations, err := in.side.readRelations(ctx, in.conn, t, roots)
	if err != nil {
		return false, err
	}
	lacking, err := in.lacking(ctx, in.conn, t, relations)
	if err != nil {
		return false, err
	}
	if len(lacking) == 0 && accepted && !in.accept {
		return false, nil
	}
	unready := slices.DeleteFunc(slices.Clone(roots), func(root migrate.TableName) bool {
		return len(lacking) == 0 || !in.side.onSource() && in.complete(relations, root)
	})
	for batch := range slices.Chunk(unready, locationBatch) {
		if err := in.makeTriggers(ctx, t, batch); err != nil {
			return false, fmt.Errorf("capture %s on %s: %w", t.Name(), in.side.Name(), err)
		}
	}
	if in.side.onSource() && len(unready) > 0 {
		return true, nil // accepted in the same transaction
	}
	return len(lacking) > 0, in.watch.accept(ctx, in.conn, t)
}

func (in *installer) complete(relations []relationState, root migrate.TableName) bool {
	return !slices.ContainsFunc(relations, func(r relationState) bool { return r.root == root && !r.ready() })
}

// lacking is what a table lacks: capture, and on the source the dormant fences.
func (in *installer) lacking(ctx context.Context, q postgres.Querier, t *layout.Table, relations []relationState) ([]ddl.Statement, error) {
	out := in.side.triggersLacking(t, relations)
	if !in.side.onSource() {
		return out, nil
	}
	fences, err := ddl.LackingTriggers(ctx, q, fence.SourceTriggers(in.side.Layout, t))
	if err != nil || len(ddl.Objects(fences)) == 0 {
		return out, err
	}
	return append(out, fences...), nil
}

// makeTriggers makes what some roots of a table lack, in one transaction: whatever
// is written after it is captured, by older transactions too.
func (in *installer) makeTriggers(ctx context.Context, t *layout.Table, roots []migrate.TableName) error {
	return postgres.WithTx(ctx, in.conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var owned []string
		if in.side.onSource() {
			var err error
			if owned, err = in.lockOwnership(ctx, tx); err != nil {
				return err
			}
			if err := in.claim(ctx, tx, t); err != nil {
				return err
			}
		}
		relations, err := in.lock(ctx, tx, t, roots)
		if err != nil {
			return err
		}
		lacking, err := in.lacking(ctx, tx, t, relations)
		if err != nil {
			return err
		}
		if err := in.register(ctx, tx, lacking); err != nil {
			return err
		}
		if err := ddl.Exec(ctx, tx, lacking); err != nil {
			return err
		}
		if !in.side.onSource() {
			return nil
		}
		if err := in.raiseFences(ctx, tx, t, owned); err != nil {
			return err
		}
		return in.watch.accept(ctx, tx, t)
	})
}

// lock takes SHARE ROW EXCLUSIVE on tables and their partitions, giving way to
// applications and evicting autovacuum, and reads what is there under it.
func (in *installer) lock(ctx context.Context, tx pgx.Tx, t *layout.Table, roots []migrate.TableName) ([]relationState, error) {
	relations, err := in.side.readRelations(ctx, tx, t, roots)
	if err != nil {
		return nil, err
	}
	names := relationNames(relations)
	if err := postgres.PreLock(ctx, tx, names); err != nil {
		return nil, err
	}
	if err := postgres.UpgradeLock(ctx, tx, "SHARE ROW EXCLUSIVE", names, time.Now().Add(in.lockWait)); err != nil {
		return nil, err
	}
	locked, err := in.side.readRelations(ctx, tx, t, roots)
	if err != nil {
		return nil, err
	}
	known := names
	if in.side.onSource() {
		known = nil
		for _, r := range t.Source.Relations() {
			known = append(known, quoted(r.Name))
		}
	}
	if !sameNames(relationNames(locked), names) || !sameNames(names, known) {
		return nil, migrate.Refuse("capture.partitions_changed", t.Name(), "partitions came or went at this moment", "run the command again")
	}
	return locked, nil
}

func relationNames(relations []relationState) []string {
	out := make([]string, len(relations))
	for i, r := range relations {
		out[i] = quoted(r.name)
	}
	return out
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// lockOwnership keeps owners from changing while fences do, and names the databases
// that own their shards: a fence that is added late must stand, not sleep.
func (in *installer) lockOwnership(ctx context.Context, tx pgx.Tx) ([]string, error) {
	owners, err := store.LoadOwnership(ctx, tx, in.side.migration())
	if err != nil {
		return nil, err
	}
	var owned []string
	for _, o := range owners {
		o, err := store.ChangeOwnership(ctx, tx, in.side.migration(), o.Database)
		if err != nil {
			return nil, err
		}
		if o.Owner == o.Database {
			owned = append(owned, o.Database)
		}
	}
	return owned, nil
}

// raiseFences enables a table's fences of databases that own their shards.
func (in *installer) raiseFences(ctx context.Context, tx pgx.Tx, t *layout.Table, owned []string) error {
	if t.Everywhere() {
		return nil
	}
	m := in.side.migration()
	for k, d := range in.side.Layout.Spec.Databases {
		if !slices.Contains(owned, d.Name) {
			continue
		}
		for _, r := range t.Source.Relations() {
			for _, name := range []string{logschema.FenceTrigger(m, k+1), logschema.FenceTruncateTrigger(m, k+1)} {
				if _, err := tx.Exec(ctx, setTrigger(r.Name, "ENABLE ALWAYS", name)); err != nil {
					return fmt.Errorf("raise fence %s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// claim notes that this migration captures the table; no other may.
func (in *installer) claim(ctx context.Context, tx pgx.Tx, t *layout.Table) error {
	const sql = `INSERT INTO shardctl.captured (migration, table_no, schema_name, table_name) VALUES ($1, $2, $3, $4)
	ON CONFLICT (migration, table_no) DO UPDATE SET schema_name = excluded.schema_name, table_name = excluded.table_name`
	_, err := tx.Exec(ctx, sql, in.side.migration(), t.No, t.Spec.Name.Schema, t.Spec.Name.Name)
	if postgres.SQLState(err) == "23505" {
		return migrate.Refuse("capture.taken", t.Name(), "another migration captures this table", "finish or abort that one, or remove the table from the spec")
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", t.Name(), err)
	}
	return nil
}
