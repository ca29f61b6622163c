package catalog

import (
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/migrate"
)

// relation is what was found under a name, before it is known to be usable.
type relation struct {
	Table
	persistence string // p permanent, u unlogged, t temporary
	parent      string // of which it is a partition or an inheritor
	inherited   bool   // an ordinary table that others inherit from
	deferrable  bool   // its primary key is
	temporal    bool   // its primary key ends in WITHOUT OVERLAPS
	similar     string // tables of this name in other schemas or cases
}

func scanRelation(row pgx.CollectableRow) (relation, error) {
	var r relation
	var kind string
	err := row.Scan(&r.Name.Schema, &r.Name.Name, &r.OID, &r.Filenode, &kind, &r.Owner, &r.RLS, &r.ForceRLS, &r.persistence,
		&r.parent, &r.inherited, &r.PrimaryKey, &r.KeyEqual, &r.deferrable, &r.temporal, &r.similar)
	if err == nil {
		r.Kind = kind[0]
	}
	return r, err
}

// notTables words the kinds of relation that hold no rows of their own.
var notTables = map[byte]string{
	'v': "is a view", 'm': "is a materialized view", 'f': "is a foreign table", 'S': "is a sequence",
	'i': "is an index", 'I': "is an index", 'c': "is a composite type", 't': "is a TOAST table",
}

// refusal says why a relation cannot be migrated; nil if it can.
func (r *relation) refusal() *migrate.Failure {
	object := r.Name.String()
	what, isOther := notTables[r.Kind]
	switch {
	case r.Kind == ' ' && r.similar != "":
		return migrate.Refuse("table.missing", object, "there is no such table on the source", "did you mean "+r.similar+"?")
	case r.Kind == ' ':
		return migrate.Refuse("table.missing", object, "there is no such table on the source", "correct the name in the spec, or create the table")
	case isOther:
		return migrate.Refuse("table.not_a_table", object, what+", not a table", "name the tables that hold its rows")
	case r.persistence == "t":
		return migrate.Refuse("table.temporary", object, "is a temporary table", "remove it from the spec")
	case r.parent != "" && !r.inherited:
		return migrate.Refuse("table.partition", object, "belongs to "+r.parent, "name "+r.parent+" in the spec instead")
	case r.inherited:
		return migrate.Refuse("table.inherited", object, "other tables inherit from it", "turn inheritance into declarative partitioning first")
	case len(r.PrimaryKey) == 0:
		return migrate.Refuse("table.no_primary_key", object, "has no primary key", "add one: ALTER TABLE … ADD PRIMARY KEY")
	case r.deferrable:
		return migrate.Refuse("table.deferrable_primary_key", object, "its primary key is deferrable, and such a key settles no conflict",
			"make it NOT DEFERRABLE")
	case r.temporal:
		return migrate.Refuse("table.temporal_primary_key", object, "its primary key ends in WITHOUT OVERLAPS, and such a key settles no conflict",
			"give the table an ordinary primary key, and keep this one as a UNIQUE constraint")
	}
	return nil
}
