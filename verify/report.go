package verify

import (
	"strings"

	"github.com/shardctl/shardctl/internal/store"
)

// report turns what is wrong with one key, database by database, into
// differences. Home says that the row also is where it should be.
func (j *judge) report(home bool, pairs []pairing) {
	surplus := 0
	for _, p := range pairs {
		surplus += len(p.surplus)
	}
	for i := range pairs {
		p := &pairs[i]
		switch {
		case p.fault == differs:
			j.add(p, Different, p.place, p.columns)
		case p.fault == extra:
			j.add(p, Extra, p.place, nil)
		case p.fault == lost && surplus == 0:
			j.add(p, Missing, p.place, nil)
		}
		for _, r := range p.surplus {
			at := placeOf(j.places[p.database], r.at)
			switch {
			case home:
				j.add(p, Duplicate, at, nil)
			case p.source || p.reverse:
				j.add(p, WrongLocation, at, nil)
			default:
				j.add(p, Extra, at, nil)
			}
		}
	}
}

// add lists a difference once, and only so many.
func (j *judge) add(p *pairing, kind Kind, at *place, columns []string) {
	d := Difference{Kind: kind, Table: j.t.Spec.Name, Key: p.key, Database: p.database.Name, Columns: columns, Direction: string(store.Forward)}
	if at != nil {
		d.Schema = at.Schema
	}
	if p.reverse {
		d.Direction = string(store.Reverse)
	}
	if d.Columns == nil {
		d.Columns = []string{}
	}
	id := strings.Join([]string{string(kind), d.Database, d.Schema, p.key.id()}, "\x00")
	switch {
	case j.seen[id]:
	case len(j.found) >= j.v.limits.differences:
		j.truncated = true
	default:
		j.seen[id] = true
		j.found = append(j.found, d)
	}
}
