package target

import (
	"strconv"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/blueprint"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// SequenceName is the place of a source's sequence on every database: the same
// schema and name, whatever the schemas of tables, so that defaults and the
// application's own nextval mean the same as before.
func SequenceName(_ *layout.Layout, schema, name string) (string, string) { return schema, name }

// names are what relations and their indexes are called on the databases. Names
// share one space in a schema, and tables of several source schemas may meet there.
type names struct {
	relations map[*blueprint.Relation]string
	indexes   map[indexRef]string
}

type indexRef struct {
	relation *blueprint.Relation
	name     string
}

// newNames gives the tables their spec names, then all else its own or, where that
// is taken, the next free one.
func newNames(b *blueprint.Blueprint) *names {
	n := &names{relations: map[*blueprint.Relation]string{}, indexes: map[indexRef]string{}}
	taken := map[string]bool{}
	for _, t := range b.Tables {
		n.relations[t.Root()] = t.Layout.TargetName()
		taken[home(b.Layout, t.Layout)+t.Layout.TargetName()] = true
	}
	for _, s := range b.Sequences {
		schema, name := SequenceName(b.Layout, s.Name.Schema, s.Name.Name)
		taken[sequenceHome(b.Layout, schema)+name] = true
	}
	for _, t := range b.Tables {
		for i, r := range t.Relations {
			if i > 0 {
				n.relations[r] = free(taken, home(b.Layout, t.Layout), r.Name.Name, t.Layout.No)
			}
			for _, k := range r.Keys {
				n.indexes[indexRef{r, k.Name}] = free(taken, home(b.Layout, t.Layout), k.Name, t.Layout.No)
			}
			for _, x := range r.Indexes {
				n.indexes[indexRef{r, x.Name}] = free(taken, home(b.Layout, t.Layout), x.Name, t.Layout.No)
			}
		}
	}
	return n
}

// home tells apart the kinds of schema that a table's names live in.
func home(l *layout.Layout, t *layout.Table) string {
	switch {
	case !l.Spec.Shards.SchemaPerShard():
		return "plain "
	case t.Everywhere():
		return "schema " + t.Spec.Name.Schema + " "
	}
	return "shard "
}

// sequenceHome is the home of a schema's sequences: that of tables, where tables
// live in a schema of that name.
func sequenceHome(l *layout.Layout, schema string) string {
	if !l.Spec.Shards.SchemaPerShard() && schema == l.Spec.Shards.SchemaName(0) {
		return "plain "
	}
	return "schema " + schema + " "
}

// free takes the wanted name or, if it is taken, one with the table's number.
func free(taken map[string]bool, home, want string, no int) string {
	name := want
	for i := 0; taken[home+name]; i++ {
		suffix := "_" + strconv.Itoa(no)
		if i > 0 {
			suffix += "_" + strconv.Itoa(i)
		}
		name = cut(want, migrate.MaxIdentifier-len(suffix)) + suffix
	}
	taken[home+name] = true
	return name
}

// cut shortens a name to at most n bytes, between characters.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}

// checkNames refuses a sequence that would meet a table of another schema.
func checkNames(b *blueprint.Blueprint) error {
	taken := map[string]string{}
	for _, t := range b.Tables {
		taken[home(b.Layout, t.Layout)+t.Layout.TargetName()] = t.Layout.Name()
	}
	for _, s := range b.Sequences {
		schema, name := SequenceName(b.Layout, s.Name.Schema, s.Name.Name)
		if other, ok := taken[sequenceHome(b.Layout, schema)+name]; ok {
			return migrate.Refuse("sequence.name_taken", s.Name.String(), "on the databases "+other+" would have the same name",
				"give that table another name with as:, or rename the sequence on the source")
		}
	}
	return nil
}
