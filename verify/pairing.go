package verify

import (
	"github.com/shardctl/shardctl/internal/layout"
)

// fault is what is wrong between the source and one database under one key.
type fault int

const (
	none    fault = iota
	lost          // the side that is brought up to date lacks the row
	extra         // it has a row that the other lacks
	differs       // the rows differ
)

// pairing compares what the source and one database have under one key.
type pairing struct {
	database *server
	reverse  bool // the database owns the row, the source is brought up to date
	fault    fault
	place    *place   // where the row is, or should be
	columns  []string // of differs
	surplus  []row    // rows at places where they should not be
	home     bool     // the row is where it should be, different or not
	source   bool     // the source has the row, whatever its place
	key      key      // as it is spelled there
}

func (p *pairing) clean() bool { return p.fault == none && len(p.surplus) == 0 }

// pair judges one key on one database. Places are those of the database, source is
// nil if the source has no such row.
func pair(l *layout.Layout, t *layout.Table, d *server, places []place, reverse bool, source *row, there []row) pairing {
	p := pairing{database: d, reverse: reverse, place: homeOf(l, t, places, source), source: source != nil}
	var at *row
	for i := range there {
		switch {
		case p.place != nil && there[i].at == p.place.ord && at == nil:
			at = &there[i]
		case p.place == nil && source == nil && reverse && at == nil && belongsAt(l, places, &there[i]):
			at = &there[i]
		default:
			p.surplus = append(p.surplus, there[i])
		}
	}
	p.home = at != nil
	switch {
	case source != nil:
		p.key = source.key
	case len(there) > 0:
		p.key = there[0].key
	}
	switch {
	case d.number == 0 && keyless(t, source):
		p.fault = lost // it should be somewhere; one database speaks for all
	case p.place != nil && at == nil:
		p.fault = lost
		if reverse {
			p.fault = extra
		}
	case p.place == nil && at != nil:
		p.fault, p.place = lost, placeOf(places, at.at) // reverse: the source lacks it
	case at != nil && !at.equal(source):
		p.fault, p.columns = differs, differing(t, source, at)
	}
	return p
}

// keyless reports whether a row has no shard, though the spec says that there is
// no such row.
func keyless(t *layout.Table, source *row) bool {
	return source != nil && source.shard == nil && !t.Everywhere() && t.NoKey.Policy != "skip"
}

// homeOf is the place on this database where a row of the source should be; nil if
// it should not be there.
func homeOf(l *layout.Layout, t *layout.Table, places []place, source *row) *place {
	switch {
	case source == nil || len(places) == 0:
		return nil
	case t.Everywhere():
		return &places[0]
	case source.shard == nil:
		return nil
	}
	want := l.LocationOf(t, *source.shard)
	for i := range places {
		if places[i].Location == want {
			return &places[i]
		}
	}
	return nil
}

// belongsAt reports whether a row on a database stands where its own key says.
func belongsAt(l *layout.Layout, places []place, r *row) bool {
	p := placeOf(places, r.at)
	return p != nil && r.shard != nil && l.Spec.LocationOf(*r.shard) == p.Location
}

func placeOf(places []place, ord int) *place {
	for i := range places {
		if places[i].ord == ord {
			return &places[i]
		}
	}
	return nil
}

// differing names the columns that differ, where rows were read column by column.
func differing(t *layout.Table, a, b *row) []string {
	columns := t.Copied()
	out := []string{}
	if len(a.digests) == len(columns) && len(b.digests) == len(columns) {
		for i, c := range columns {
			if a.digests[i] != b.digests[i] {
				out = append(out, c.Name)
			}
		}
	}
	if !a.storesAs(b) {
		out = append(out, t.StoreAs)
	}
	return out
}
