package migrate

import (
	"regexp"
	"strings"
)

// databaseName is what --database takes, with commas between names.
var databaseName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// hostName is a host, an address or the folder of a socket, as a pooler's file
// can hold it.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_.:/@%-]{1,255}$`)

// givenDSN is a DSN with the place where it was given.
type givenDSN struct {
	at     place
	dsn    Secret
	target bool // of a database, not of the source
}

func (d *decoder) source(n node) Source {
	var s Source
	m := d.mapping(n)
	if n, ok := m.required("dsn"); ok {
		s.DSN = d.dsn(n)
		d.dsns = append(d.dsns, givenDSN{at: n.place, dsn: s.DSN})
	}
	if n, ok := m.optional("read_dsn"); ok {
		s.ReadDSN = d.dsn(n)
		d.dsns = append(d.dsns, givenDSN{at: n.place, dsn: s.ReadDSN})
	}
	m.done()
	return s
}

func (d *decoder) databases(n node) []Database {
	m := d.mapping(n)
	var databases []Database
	for _, e := range m.entries {
		m.known = append(m.known, e.key)
		switch {
		case e.key == "source":
			d.fail(e.at, "bad_database", "a database may not be named source: that is the monolith", "give it another name")
		case !databaseName.MatchString(e.key):
			d.fail(e.at, "bad_database", "the name of a database is 1 to 63 letters, digits and _ . -", "")
		}
		databases = append(databases, d.database(e))
	}
	if len(m.entries) == 0 && !m.broken {
		d.fail(n.place, "no_databases", "there is no database", "name at least one target")
	}
	return databases
}

func (d *decoder) database(e entry) Database {
	db := Database{Name: e.key}
	m := d.mapping(e.value)
	if n, ok := m.required("dsn"); ok {
		db.DSN = d.dsn(n)
		d.dsns = append(d.dsns, givenDSN{at: n.place, dsn: db.DSN, target: true})
	}
	if n, ok := m.optional("router"); ok {
		db.Router = d.address(n)
	}
	if n, ok := m.optional("reader"); ok {
		db.Reader = d.address(n)
	}
	m.done()
	return db
}

func (d *decoder) address(n node) Address {
	var a Address
	m := d.mapping(n)
	if n, ok := m.optional("host"); ok {
		if host, ok := d.text(n); ok && !hostName.MatchString(host) {
			d.fail(n.place, "bad_address", "must be a host name, an address or the folder of a socket", "one host only; the port is a key of its own")
		} else if ok {
			a.Host = host
		}
	}
	if n, ok := m.optional("port"); ok {
		port := 0
		if d.integer(n, 1, 65535, &port) {
			a.Port = uint16(port)
		}
	}
	if n, ok := m.optional("dbname"); ok {
		d.identifier(n, &a.DBName)
	}
	m.done()
	return a
}

// dsn reads a connection string, as URL or as key=value pairs. It is not taken
// apart here: several hosts, services and options are the driver's to read.
func (d *decoder) dsn(n node) Secret {
	text, ok := d.text(n)
	if !ok {
		return ""
	}
	text = strings.TrimSpace(text) // $(cat file) in the shell leaves none, an env file may
	scheme, _, url := strings.Cut(text, "://")
	url = url && !strings.ContainsAny(scheme, "= '")
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		d.fail(n.place, "bad_dsn", "the DSN holds a line break or another control character", "write it in one line")
	case url && scheme != "postgres" && scheme != "postgresql",
		!url && !strings.Contains(text, "="):
		d.fail(n.place, "bad_dsn", "is no DSN of PostgreSQL", "give a postgres:// URL or key=value pairs")
	default:
		return Secret(text)
	}
	return ""
}

// checkDSNs refuses one DSN for two roles. Different texts may still lead to one
// database: that shows only when connected.
func (d *decoder) checkDSNs() {
	for i, given := range d.dsns {
		for _, earlier := range d.dsns[:i] {
			if given.dsn != "" && given.dsn == earlier.dsn && (given.target || earlier.target) {
				d.fail(given.at, "same_dsn", "the DSN is the same as that of "+earlier.at.path, "source and databases have to be different databases")
				break
			}
		}
	}
}
