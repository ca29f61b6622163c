package migrate

import (
	"strings"
	"time"
)

// What holds where a router says nothing else.
const (
	defaultTopologySchema = "shardctl_topology"
	defaultTopologyTable  = "topology"
	defaultChannel        = "shardctl_topology"
	defaultHookTimeout    = 5 * time.Second
)

const (
	// shortestHook is less than what starting a program takes on a busy host.
	shortestHook = 50 * time.Millisecond
	// longestHook is past what any step of a switch waits.
	longestHook = time.Minute
)

// routerPlaces says where each file, table and command of a router was given.
type routerPlaces map[string]place

// claimRouter refuses what an earlier router of the same driver has already.
func (d *decoder) claimRouter(at place, r *Router, what string, places routerPlaces) {
	parts := []string{what, r.Path, r.DSN.Reveal(), r.Table.String(), strings.Join(r.Command, "\x00")}
	key := strings.Join(parts, "\x00")
	if earlier, twice := places[key]; twice {
		d.fail(at, "same_"+what, "the "+what+" is the same as that of "+earlier.path, "each "+r.Driver+" router needs a "+what+" of its own")
	}
	places[key] = at
}

// fileRouter reads a router that is a document in a file.
func (d *decoder) fileRouter(m *mapping, r *Router, places routerPlaces) {
	n, ok := m.required("path")
	if !ok {
		return
	}
	if r.Path, ok = d.text(n); ok {
		d.claimRouter(n.place, r, "path", places)
	}
}

// tableRouter reads a router that is a row in a table. The table may be on the source
// or on a database, so its DSN is not compared with theirs.
func (d *decoder) tableRouter(m *mapping, r *Router, places routerPlaces) {
	r.Table = TableName{Schema: defaultTopologySchema, Name: defaultTopologyTable}
	r.Channel = defaultChannel
	at := m.place
	if n, ok := m.required("dsn"); ok {
		r.DSN, at = d.dsn(n), n.place
	}
	if n, ok := m.optional("table"); ok {
		at = n.place
		if name, _, ok := d.qualified(n); ok {
			r.Table = name
		}
		if why := reservedSchema(r.Table.Schema); why != "" {
			d.fail(n.place, "bad_table", why, "keep the document in a schema of its own")
		}
	}
	if n, ok := m.optional("channel"); ok {
		d.identifier(n, &r.Channel)
	}
	if r.DSN != "" {
		d.claimRouter(at, r, "table", places)
	}
}

// hookRouter reads a router that is a program of the operator's.
func (d *decoder) hookRouter(m *mapping, r *Router, places routerPlaces) {
	r.Timeout = defaultHookTimeout
	if n, ok := m.required("command"); ok {
		r.Command = d.command(n)
		d.claimRouter(n.place, r, "command", places)
	}
	if n, ok := m.optional("timeout"); ok {
		d.duration(n, shortestHook, longestHook, &r.Timeout)
	}
}
