package auditlog

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/logschema"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// leafRule is what a truncated leaf held: its partition constraint.
type leafRule struct {
	constraint string
	parents    map[string]migrate.TableName // of the hash partitions in it, by oid
}

var hashParent = regexp.MustCompile(`satisfies_hash_partition\('(\d+)'::oid`)

// resolveTruncate tells what a TRUNCATE of the log emptied: whole is the table, a
// rule is one leaf of it. Neither: the relation is no part of the table any more.
func resolveTruncate(ctx context.Context, q postgres.Querier, t *tablePlan, logged string) (rule *leafRule, whole bool, err error) {
	var oid uint32
	if err := q.QueryRow(ctx, "SELECT coalesce(to_regclass($1)::oid, 0)", pgx.QueryExecModeExec, logged).Scan(&oid); err != nil {
		return nil, false, fmt.Errorf("look for the truncated relation %s: %w", logged, err)
	}
	if oid == t.Source.OID {
		return nil, true, nil
	}
	for _, leaf := range t.Source.Leaves {
		if leaf.OID != oid {
			continue
		}
		var constraint *string
		if err := q.QueryRow(ctx, "SELECT pg_get_partition_constraintdef($1::oid)", pgx.QueryExecModeExec, oid).Scan(&constraint); err != nil {
			return nil, false, fmt.Errorf("read the partition constraint of %s: %w", leaf.Name, err)
		}
		if constraint == nil {
			return nil, false, nil
		}
		rule, err := hashParents(ctx, q, *constraint)
		return rule, false, err
	}
	return nil, false, nil
}

func hashParents(ctx context.Context, q postgres.Querier, constraint string) (*leafRule, error) {
	rule := &leafRule{constraint: constraint, parents: map[string]migrate.TableName{}}
	for _, m := range hashParent.FindAllStringSubmatch(constraint, -1) {
		var name migrate.TableName
		const sql = `SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::text::oid`
		if err := q.QueryRow(ctx, sql, pgx.QueryExecModeExec, m[1]).Scan(&name.Schema, &name.Name); err != nil {
			return nil, fmt.Errorf("read a hash partition's parent: %w", err)
		}
		rule.parents[m[1]] = name
	}
	return rule, nil
}

// at words the constraint for a table at a location: a hash partition's is
// computed with the operators of the parent there.
func (r *leafRule) at(t *tablePlan, schema string) string {
	return hashParent.ReplaceAllStringFunc(r.constraint, func(found string) string {
		parent := r.parents[hashParent.FindStringSubmatch(found)[1]]
		name := parent.Name
		if parent == t.Spec.Name {
			name = t.TargetName()
		}
		return "satisfies_hash_partition(" + postgres.Literal(postgres.Table(schema, name)) + "::regclass"
	})
}

// wipe is what the truncates of a batch emptied of one table.
type wipe struct {
	whole bool
	rules []*leafRule
}

// statements delete, at one location, what was emptied.
func (w *wipe) statements(t *tablePlan, at spot) []string {
	var out []string
	for _, emptied := range w.conditions(t, at) {
		out = append(out, "DELETE FROM "+at.table+" WHERE "+emptied)
	}
	return out
}

// conditions select, at one location, what was emptied.
func (w *wipe) conditions(t *tablePlan, at spot) []string {
	if w.whole {
		return []string{"true"}
	}
	var out []string
	for _, rule := range w.rules {
		out = append(out, rule.at(t, at.name))
	}
	return out
}

// tableTombstones notes, at every location, that a truncate was applied: a chunk
// that was read before it is read again.
func tableTombstones(migration string, t *tablePlan, spots []spot, tick int64) string {
	names := make([]string, len(spots))
	for i, at := range spots {
		names[i] = postgres.Literal(at.name)
	}
	return fmt.Sprintf(`INSERT INTO %s.table_tombstone AS t (migration, table_no, loc, tick) SELECT %s, %d, l.loc, %d FROM unnest(ARRAY[%s]::name[]) l(loc)
ON CONFLICT (migration, table_no, loc) DO UPDATE SET tick = greatest(t.tick, excluded.tick)`,
		logschema.Schema, postgres.Literal(migration), t.No, tick, strings.Join(names, ", "))
}

// noKeyMessage words why a row has no place.
func noKeyMessage(t *tablePlan) string {
	if t.Derived() {
		return "no row of " + t.Parent.Name() + " gives it a key, and the spec says orphans or null_keys: refuse"
	}
	return t.Key.Name + " is NULL, and the spec says null_keys: refuse"
}
