package migrate

// tableEntry is a table with the places that its checks point at.
type tableEntry struct {
	Table
	label    string // the name as the file has it
	at       place  // of the name
	asAt     place
	fromAt   place
	readable bool // name and key could be read
}

func (d *decoder) tables(n node, shards Shards) []Table {
	items, ok := d.sequence(n)
	if ok && len(items) == 0 {
		d.fail(n.place, "no_tables", "there is no table", "name at least one")
	}
	var entries []tableEntry
	for _, item := range items {
		entries = append(entries, d.table(item, shards.Count))
	}
	d.checkNames(entries)
	d.checkChains(entries)
	tables := make([]Table, len(entries))
	for i, e := range entries {
		tables[i] = e.Table
	}
	return tables
}

func (d *decoder) table(n node, count int) tableEntry {
	e := tableEntry{at: n.place, readable: true}
	e.Rollback, e.Orphans.Policy, e.NullKeys.Policy = "full", "refuse", "refuse"
	m := d.mapping(n)
	e.readable = !m.broken
	d.tableName(m, &e)
	everywhere := d.everywhere(m, &e)
	d.tableKey(m, &e, count, everywhere)
	if n, ok := m.optional("version"); ok {
		d.identifier(n, &e.Version)
	}
	if n, ok := m.optional("rollback"); ok {
		d.choice(n, &e.Rollback, "full", "none")
	}
	if n, ok := m.optional("orphans"); ok {
		d.stray(n, &e.Orphans, count)
		if e.readable && !e.Derived() {
			d.fail(n.place, "no_effect", "only a table whose key is looked up through a parent has orphans", "remove the key")
		}
	}
	if n, ok := m.optional("null_keys"); ok {
		d.stray(n, &e.NullKeys, count)
		if e.readable && e.Key == (Key{}) {
			d.fail(n.place, "no_effect", "a table without a key has no rows with a NULL key", "remove the key")
		}
	}
	m.done()
	return e
}

// tableName reads the name on the source and the one on the databases.
func (d *decoder) tableName(m *mapping, e *tableEntry) {
	n, ok := m.required("name")
	if ok {
		e.at = n.place
		e.Name, e.label, ok = d.qualified(n)
	}
	if ok {
		e.As, e.asAt = e.Name.Name, e.at
		if why := reservedSchema(e.Name.Schema); why != "" {
			d.fail(e.at, "bad_table", why, "migrate the application's tables only")
		}
	}
	if n, given := m.optional("as"); given {
		ok = d.identifier(n, &e.As) && ok
		e.asAt = n.place
	}
	e.readable = e.readable && ok
}

// qualified reads schema.name; the label is how messages call it.
func (d *decoder) qualified(n node) (name TableName, label string, ok bool) {
	text, ok := d.text(n)
	if !ok {
		return TableName{}, "", false
	}
	name, err := ParseTableName(text)
	if err != nil {
		d.fail(n.place, "bad_name", err.Error(), "write schema.table")
		return TableName{}, "", false
	}
	raw, _ := d.written(n)
	return name, show(raw), true
}

// everywhere reads whether the table is a reference table; maybe it is one where
// that cannot be read.
func (d *decoder) everywhere(m *mapping, e *tableEntry) (maybe bool) {
	n, ok := m.optional("everywhere")
	if !ok {
		return m.has("everywhere")
	}
	return !d.boolean(n, &e.Everywhere) || e.Everywhere
}

// tableKey reads how the rows find their shard. A table that maybe is everywhere
// does not lack a key.
func (d *decoder) tableKey(m *mapping, e *tableEntry, count int, maybe bool) {
	n, given := m.optional("key")
	if !given {
		if count > 1 && !m.broken && !m.has("key") && !maybe {
			d.fail(m.below(m.line, "key"), "missing_key", "a table needs a key where there is more than one shard",
				"add key: COLUMN, key: {from: PARENT, via: COLUMN}, or everywhere: true")
			e.readable = false
		}
		e.readable = e.readable && !m.has("key")
		return
	}
	if e.Everywhere {
		d.fail(n.place, "everywhere_key", "an everywhere table has no key: each database has all of its rows", "remove key or everywhere")
	}
	if _, isText := d.written(n); isText {
		e.readable = d.identifier(n, &e.Key.Column) && e.readable
		return
	}
	e.readable = d.derivedKey(n, e) && e.readable
}

// derivedKey reads a key that is looked up through a parent.
func (d *decoder) derivedKey(n node, e *tableEntry) bool {
	m := d.mapping(n)
	ok := false
	if n, given := m.required("from"); given {
		e.fromAt = n.place
		e.Key.From, _, ok = d.qualified(n)
	}
	via, given := m.required("via")
	ok = given && d.identifier(via, &e.Key.Via) && ok
	if n, given := m.optional("store_as"); given {
		ok = d.identifier(n, &e.Key.StoreAs) && ok
	}
	m.done()
	return ok
}

// stray reads what becomes of rows without a usable key: a word, or {shard: n}.
func (d *decoder) stray(n node, into *Stray, count int) {
	if _, isText := d.written(n); isText {
		d.choice(n, &into.Policy, "refuse", "skip")
		return
	}
	m := d.mapping(n)
	if n, ok := m.required("shard"); ok && d.integer(n, 0, max(count, 1)-1, &into.Shard) {
		into.Policy = "shard"
	}
	m.done()
}
