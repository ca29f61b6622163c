package layout

import "github.com/shardctl/shardctl/migrate"

// ByName is the layout as far as the spec alone tells it: the tables' numbers, names and
// places, without columns and keys. It is for databases whose source cannot be read.
func ByName(spec *migrate.Spec) *Layout {
	l := &Layout{Spec: spec}
	for i, t := range spec.Tables {
		l.Tables = append(l.Tables, &Table{No: i + 1, Spec: t, StoreAs: t.Key.StoreAs})
	}
	return l
}
