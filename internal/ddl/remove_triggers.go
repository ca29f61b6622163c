package ddl

import (
	"context"
	_ "embed" // the query
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
)

//go:embed triggers.sql
var triggersSQL string

// lockPatience bounds the tries for the locks of one table; each try gives way to
// the application after half a second.
const lockPatience = 30 * time.Second

// found is a trigger of ours as it stands: on the relation it was made for, or a
// partition's copy of it.
type found struct{ relation, name, on string }

// removeTriggers takes triggers off tables that stay. Disabling waits for no
// reader and ends their effect at once; dropping waits for all, so it comes after.
func removeTriggers(ctx context.Context, source postgres.Querier, place *pgx.Conn, objects []store.Object) error {
	byRelation := map[string][]store.Object{}
	var relations []string
	for _, o := range objects {
		r := relationOf(o)
		if byRelation[r] == nil {
			relations = append(relations, r)
		}
		byRelation[r] = append(byRelation[r], o)
	}
	slices.Sort(relations)
	for _, r := range relations {
		if err := disable(ctx, place, r, byRelation[r]); err != nil {
			return fmt.Errorf("disable triggers of %s: %w", r, err)
		}
	}
	for _, r := range relations {
		if err := drop(ctx, source, place, r, byRelation[r]); err != nil {
			return fmt.Errorf("drop triggers of %s: %w", r, err)
		}
	}
	return nil
}

func disable(ctx context.Context, place *pgx.Conn, relation string, objects []store.Object) error {
	return withLock(ctx, place, relation, objects, "SHARE ROW EXCLUSIVE", func(tx pgx.Tx, there []found) error {
		var b strings.Builder
		for _, t := range there {
			fmt.Fprintf(&b, "ALTER TABLE ONLY %s DISABLE TRIGGER %s;\n", t.on, postgres.Ident(t.name))
		}
		_, err := tx.Exec(ctx, b.String())
		return err
	})
}

func drop(ctx context.Context, source postgres.Querier, place *pgx.Conn, relation string, objects []store.Object) error {
	err := withLock(ctx, place, relation, objects, "ACCESS EXCLUSIVE", func(tx pgx.Tx, _ []found) error {
		for _, o := range objects {
			if _, err := tx.Exec(ctx, o.Undo); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids := make([]int64, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	return markRemoved(ctx, source, ids)
}

// withLock runs fn with a lock on a relation that has some of the triggers; else
// there is nothing to do and nothing is locked.
func withLock(ctx context.Context, place *pgx.Conn, relation string, objects []store.Object, mode string, fn func(pgx.Tx, []found) error) error {
	return postgres.WithTx(ctx, place, pgx.TxOptions{}, func(tx pgx.Tx) error {
		there, err := find(ctx, tx, relation, objects)
		if err != nil || len(there) == 0 {
			return err
		}
		if err := postgres.PreLock(ctx, tx, []string{relation}); err != nil {
			return err
		}
		if err := postgres.UpgradeLock(ctx, tx, mode, []string{relation}, time.Now().Add(lockPatience)); err != nil {
			return err
		}
		return fn(tx, there)
	})
}

func find(ctx context.Context, q postgres.Querier, relation string, objects []store.Object) ([]found, error) {
	relations, names := make([]string, len(objects)), make([]string, len(objects))
	for i, o := range objects {
		relations[i], names[i] = relation, triggerName(o)
	}
	rows, err := q.Query(ctx, triggersSQL, relations, names)
	if err != nil {
		return nil, fmt.Errorf("look for triggers: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (f found, err error) {
		err = r.Scan(&f.relation, &f.name, &f.on)
		return f, err
	})
}

// triggerName is the unquoted name of a trigger's object.
func triggerName(o store.Object) string {
	quoted, _, _ := strings.Cut(o.Name, " ON ")
	return strings.Trim(quoted, `"`)
}
