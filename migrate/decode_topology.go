package migrate

import "strings"

// topology reads the routers.
func (d *decoder) topology(n node, shards Shards) []Router {
	items, _ := d.sequence(n)
	var routers []Router
	names := entryNames{}
	places := routerPlaces{}
	for _, item := range items {
		m := d.mapping(item)
		n, ok := m.required("driver")
		if !ok {
			continue // which keys are right depends on it
		}
		var r Router
		switch r.Driver, ok = d.text(n); {
		case !ok:
			continue
		case r.Driver == "pgbouncer":
			d.pgbouncer(m, &r, shards, names)
		case r.Driver == "file":
			d.fileRouter(m, &r, places)
		case r.Driver == "postgres":
			d.tableRouter(m, &r, places)
		case r.Driver == "exec":
			d.hookRouter(m, &r, places)
		default:
			d.unknownDriver(n, r.Driver)
			continue
		}
		m.done()
		routers = append(routers, r)
	}
	return routers
}

func (d *decoder) unknownDriver(n node, driver string) {
	hint := "use pgbouncer, file, postgres or exec"
	if near := nearest(driver, []string{"pgbouncer", "file", "postgres", "exec"}); near != "" {
		hint = "did you mean " + near + "?"
	}
	d.fail(n.place, "unknown_driver", "there is no such driver", hint)
}

// pgbouncer reads a group of poolers that have the same entries.
func (d *decoder) pgbouncer(m *mapping, r *Router, shards Shards, names entryNames) {
	if n, ok := m.required("instances"); ok {
		items, isList := d.sequence(n)
		if isList && len(items) == 0 {
			d.fail(n.place, "no_instances", "there is no instance", "name at least one pooler")
		}
		admins := map[Secret]place{}
		for _, item := range items {
			r.Instances = append(r.Instances, d.instance(item, admins))
		}
	}
	d.entries(m, r, shards, names)
}

func (d *decoder) instance(n node, admins map[Secret]place) RouterInstance {
	var i RouterInstance
	m := d.mapping(n)
	if n, ok := m.required("admin_dsn"); ok {
		i.AdminDSN = d.dsn(n)
		if earlier, twice := admins[i.AdminDSN]; twice && i.AdminDSN != "" {
			d.fail(n.place, "same_dsn", "the DSN is the same as that of "+earlier.path, "list each pooler once")
		}
		admins[i.AdminDSN] = n.place
	}
	if n, ok := m.required("databases_file"); ok {
		i.DatabasesFile, _ = d.text(n)
	}
	if n, ok := m.optional("file_via"); ok {
		via := d.mapping(n)
		if n, ok := via.required("exec"); ok {
			i.FileVia = d.command(n)
		}
		via.done()
	}
	m.done()
	return i
}

// command reads a program and its arguments as a list; a single word may stand
// alone. No shell takes texts apart.
func (d *decoder) command(n node) []string {
	if _, isText := d.written(n); isText {
		program, ok := d.text(n)
		if ok && strings.ContainsAny(program, " \t\n") {
			d.fail(n.place, "wrong_type", "a command with arguments must be a list", "write [program, argument]")
		}
		return []string{program}
	}
	items, isList := d.sequence(n)
	if isList && len(items) == 0 {
		d.fail(n.place, "no_value", "the command is empty", "give a list: [program, argument]")
	}
	var command []string
	for _, item := range items {
		if word, ok := d.text(item); ok {
			command = append(command, word)
		}
	}
	return command
}
