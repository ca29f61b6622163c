package blueprint

import (
	"context"
	_ "embed" // the queries
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

//go:embed constraints.sql
var constraintsSQL string

//go:embed foreign_keys.sql
var foreignKeysSQL string

//go:embed indexes.sql
var indexesSQL string

//go:embed triggers.sql
var triggersSQL string

func (r *reader) readConstraints(ctx context.Context) error {
	var rel uint32
	var c Constraint
	var kind string
	scans := []any{&rel, &c.Name, &kind, &c.Def, &c.Options, &c.Validated, &c.Replica}
	return r.each(ctx, "constraints", constraintsSQL, []any{r.oids}, scans, func() error {
		c.Kind = kind[0]
		to := r.relations[rel]
		if c.Kind == 'c' || c.Kind == 'n' {
			to.Checks = append(to.Checks, c)
		} else {
			to.Keys = append(to.Keys, c)
		}
		return nil
	})
}

func (r *reader) readForeignKeys(ctx context.Context) error {
	var rel uint32
	var k ForeignKey
	var match, onUpdate, onDelete string
	scans := []any{&rel, &k.Name, &k.To.Schema, &k.To.Name, &k.Columns, &k.Referred, &match, &onUpdate, &onDelete, &k.SetColumns, &k.Deferrable, &k.Deferred, &k.Validated, &k.Enforced, &k.Period}
	return r.each(ctx, "foreign keys", foreignKeysSQL, []any{r.oids}, scans, func() error {
		k.Match, k.OnUpdate, k.OnDelete = match[0], onUpdate[0], onDelete[0]
		r.relations[rel].ForeignKeys = append(r.relations[rel].ForeignKeys, k)
		return nil
	})
}

func (r *reader) readIndexes(ctx context.Context) error {
	var rel uint32
	var i Index
	var def, prefix string
	return r.each(ctx, "indexes", indexesSQL, []any{r.oids}, []any{&rel, &i.Name, &i.Unique, &def, &prefix, &i.Replica}, func() error {
		rest, ok := strings.CutPrefix(def, prefix)
		if !ok {
			return unreadable("index", i.Name, def)
		}
		i.Rest = rest
		r.relations[rel].Indexes = append(r.relations[rel].Indexes, i)
		return nil
	})
}

func (r *reader) readTriggers(ctx context.Context) error {
	var rel uint32
	var t Trigger
	var def, table, state string
	return r.each(ctx, "triggers", triggersSQL, []any{r.oids}, []any{&rel, &t.Name, &def, &table, &state, &t.Inherited}, func() error {
		before, after, ok := splitTrigger(def, table)
		if !ok {
			return unreadable("trigger", t.Name, def)
		}
		t.Before, t.After, t.State = before, after, state[0]
		r.relations[rel].Triggers = append(r.relations[rel].Triggers, t)
		return nil
	})
}

// unreadable refuses a definition that is not written as expected: rather than
// guess, nothing is made of it.
func unreadable(kind, name, def string) error {
	return migrate.Refuse("definition.unreadable", kind+" "+name, "its definition cannot be taken apart: "+def, "drop it for the migration, and make it on the databases yourself")
}
