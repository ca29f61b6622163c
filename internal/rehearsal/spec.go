package rehearsal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/migrate"
)

// place is what the rehearsal's spec names in the place of the real servers.
type place struct {
	source    string
	databases map[string]string // DSN by the database's name
	poolers   map[int]pooler    // by the router's place in topology
	files     map[int]string    // the same, of documents
	maxPause  time.Duration
}

// pooler is a PgBouncer of the rehearsal.
type pooler struct{ admin, file string }

type object = map[string]any

// document writes a spec that means the same for other servers. JSON is YAML. What
// spares a production source (throttles, hours) is left out, and so are the addresses
// that only real clients know.
func document(spec *migrate.Spec, at place) ([]byte, error) {
	databases, placement := object{}, object{}
	for _, d := range spec.Databases {
		databases[d.Name] = object{"dsn": at.databases[d.Name]}
		placement[d.Name] = migrate.FormatShards(spec.Shards.ShardsOf(d.Name))
	}
	var tables, routers []object
	for _, t := range spec.Tables {
		tables = append(tables, tableDocument(t))
	}
	for i, r := range spec.Topology {
		routers = append(routers, routerDocument(r, i, at))
	}
	doc := object{
		"version": 1, "migration": spec.Migration, "source": object{"dsn": at.source}, "tables": tables, "sequences": spec.Sequences,
		"shards":   object{"count": spec.Shards.Count, "schema": spec.Shards.Schema, "hash": spec.Shards.Hash, "placement": placement},
		"cutover":  object{"max_pause": at.maxPause.String()},
		"complete": object{"everywhere_owner": spec.Complete.EverywhereOwner},
	}
	if len(routers) > 0 {
		doc["topology"] = routers
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the rehearsal's spec: %w", err)
	}
	// The order of databases counts, and a JSON object has none in Go.
	names := make([]string, len(spec.Databases))
	for i, d := range spec.Databases {
		one, err := json.Marshal(databases[d.Name])
		if err != nil {
			return nil, fmt.Errorf("write the rehearsal's spec: %w", err)
		}
		names[i] = fmt.Sprintf("%q: %s", d.Name, one)
	}
	whole := strings.TrimSuffix(string(text), "\n}") + ",\n  \"databases\": {" + strings.Join(names, ", ") + "}\n}\n"
	return []byte(strings.ReplaceAll(whole, "${", "$${")), nil
}

func tableDocument(t migrate.Table) object {
	out := object{"name": t.Name.String(), "as": t.TargetName()}
	switch {
	case t.Derived():
		key := object{"from": t.Key.From.String(), "via": t.Key.Via}
		if t.Key.StoreAs != "" {
			key["store_as"] = t.Key.StoreAs
		}
		out["key"], out["orphans"], out["null_keys"] = key, strayDocument(t.Orphans), strayDocument(t.NullKeys)
	case t.Key.Column != "":
		out["key"], out["null_keys"] = t.Key.Column, strayDocument(t.NullKeys)
	}
	if t.Everywhere {
		out["everywhere"] = true
	}
	if t.Version != "" {
		out["version"] = t.Version
	}
	out["rollback"] = t.Rollback
	return out
}

func strayDocument(s migrate.Stray) any {
	if s.Policy == "shard" {
		return object{"shard": s.Shard}
	}
	return s.Policy
}

// routerDocument puts a throw-away router in the place of a real one. A hook reaches
// real proxies, so a file stands for it.
func routerDocument(r migrate.Router, i int, at place) object {
	switch r.Driver {
	case "file", "exec":
		return object{"driver": "file", "path": at.files[i]}
	case "postgres":
		return object{"driver": r.Driver, "dsn": at.source, "table": fmt.Sprintf("shardctl_topology.topology_%d", i), "channel": r.Channel}
	}
	var entries []object
	for _, e := range r.Entries {
		entries = append(entries, object{"database": e.Database, "to": e.To})
	}
	p := at.poolers[i]
	return object{"driver": r.Driver, "entries": entries, "instances": []object{{"admin_dsn": p.admin, "databases_file": p.file}}}
}
