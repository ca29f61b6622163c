package migrate

import (
	"errors"
	"fmt"
	"strings"
)

// MaxShards bounds the count: each shard has a line in state and, with a pattern,
// a schema and an entry of the pooler.
const MaxShards = 65536

// shards reads the shard map. Count is zero and the placement empty where they
// are wrong, which was reported.
func (d *decoder) shards(n node, databases []string) Shards {
	s := Shards{Hash: "postgres"}
	m := d.mapping(n)
	if n, ok := m.required("count"); ok {
		d.integer(n, 1, MaxShards, &s.Count)
	}
	if n, ok := m.required("schema"); ok {
		d.schema(n, &s)
	}
	if n, ok := m.optional("hash"); ok {
		d.choice(n, &s.Hash, "postgres")
	}
	if n, ok := m.required("placement"); ok {
		s.Placement = d.placement(n, s.Count, databases)
	}
	m.done()
	return s
}

func (d *decoder) schema(n node, s *Shards) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	if err := checkPattern(text); err != nil {
		d.fail(n.place, "bad_schema", err.Error(), "a plain name puts all shards of a database into one schema")
		return
	}
	longestName := Number(text, max(s.Count, 1)-1)
	if err := CheckIdentifier(longestName); err != nil {
		d.fail(n.place, "bad_schema", err.Error(), "shorten it")
	} else if why := reservedSchema(longestName); why != "" {
		d.fail(n.place, "bad_schema", why, "choose another name")
	} else {
		s.Schema = text
	}
}

// checkPattern allows one %d or %03d in a name, and no other percent sign.
func checkPattern(text string) error {
	at := schemaVerb.FindStringIndex(text)
	if at == nil {
		if strings.Contains(text, "%") {
			return errors.New("only %d, or %03d for leading zeros, may stand for the number of a shard")
		}
		return nil
	}
	if strings.Contains(text[:at[0]]+text[at[1]:], "%") {
		return errors.New("the number of a shard may stand once, as %d or %03d")
	}
	return nil
}

// reservedSchema says why a schema cannot hold migrated tables.
func reservedSchema(name string) string {
	switch {
	case name == "shardctl":
		return "the schema shardctl holds shardctl's own state"
	case strings.HasPrefix(name, "pg_") || name == "information_schema":
		return "the schema belongs to PostgreSQL"
	}
	return ""
}

// placement reads which database holds which shards and checks that each shard
// has exactly one.
func (d *decoder) placement(n node, count int, databases []string) []string {
	m := d.mapping(n)
	placed := make([]string, count)
	before := len(d.found)
	for _, e := range m.entries {
		if !has(databases, e.key) {
			hint := "name it under databases"
			if near := nearest(e.key, databases); near != "" {
				hint = "did you mean " + near + "?"
			}
			d.fail(e.at, "unknown_database", "there is no such database", hint)
		}
		shards := d.ranges(e.value, count)
		twice := map[string][]int{}
		for _, shard := range shards {
			if other := placed[shard]; other != "" {
				twice[other] = append(twice[other], shard)
				continue
			}
			placed[shard] = e.key
		}
		for _, other := range databases {
			if len(twice[other]) > 0 {
				d.fail(e.at, "placed_twice", fmt.Sprintf("%s placed twice: on %s too", shardList(twice[other]), show(other)), "place each shard on one database")
			}
		}
	}
	d.checkPlacement(m, placed, databases, len(d.found) > before)
	return placed
}

// checkPlacement looks for shards and databases that were left out. Where a
// range could not be read, what is missing is not known.
func (d *decoder) checkPlacement(m *mapping, placed, databases []string, unread bool) {
	if m.broken || unread || len(placed) == 0 {
		return
	}
	if nowhere := (Shards{Placement: placed}).ShardsOf(""); len(nowhere) > 0 {
		d.fail(m.place, "placed_nowhere", shardList(nowhere)+" placed on no database", "place each shard on one database")
	}
	for _, database := range databases {
		if !has(placed, database) {
			d.fail(m.place, "unused_database", "no shard is placed on "+show(database), "place shards on it, or remove it")
		}
	}
}
