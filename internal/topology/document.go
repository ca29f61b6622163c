package topology

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/migrate"
)

// Version is the version of the document's form.
const Version = 1

// Topology is who owns what, as routers are told.
type Topology struct {
	Version   int     `json:"version"`
	Migration string  `json:"migration"`
	Epoch     int64   `json:"epoch"`  // the highest of the shards'
	Shards    []Route `json:"shards"` // in the order of their numbers, each once
}

// Route is the home of one logical shard.
type Route struct {
	Shard    int    `json:"shard"`
	Database string `json:"database"` // the spec's name of the database, or "source"
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
	DBName   string `json:"dbname"`
	// Schema holds the shard's rows on its database. On the source there is no such
	// schema: with SearchPath one unqualified statement works on both.
	Schema     string   `json:"schema"`
	Epoch      int64    `json:"epoch"`
	Reader     Address  `json:"reader"`      // for statements that only read
	SearchPath []string `json:"search_path"` // the shard's schema, then those of the source's tables
}

// Address is where a router connects to.
type Address struct {
	Host   string `json:"host"` // a name, an address, or the folder of a Unix socket
	Port   uint16 `json:"port"`
	DBName string `json:"dbname"`
}

// Primary is where statements of the shard go.
func (r Route) Primary() Address { return Address{Host: r.Host, Port: r.Port, DBName: r.DBName} }

// Address is where an entry that leads "to" primary or reader goes.
func (r Route) Address(to string) Address {
	if to == "reader" {
		return r.Reader
	}
	return r.Primary()
}

// String gives host:port/dbname.
func (a Address) String() string {
	host := a.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%d/%s", host, a.Port, a.DBName)
}

// Check reports what makes a document unfit to be written.
func (t Topology) Check() error {
	for i, r := range t.Shards {
		a, reader := r.Primary(), r.Reader
		switch {
		case r.Shard != i:
			return fmt.Errorf("topology: at place %d stands shard %d", i, r.Shard)
		case a.Host == "" || a.Port == 0 || a.DBName == "" || reader.Host == "" || reader.Port == 0 || reader.DBName == "":
			return fmt.Errorf("topology: shard %d has no whole address", r.Shard)
		case r.Epoch > t.Epoch:
			return fmt.Errorf("topology: shard %d has epoch %d, later than the document's %d", r.Shard, r.Epoch, t.Epoch)
		}
	}
	if t.Version != Version || t.Migration == "" || len(t.Shards) == 0 {
		return fmt.Errorf("topology: version %d, migration %q, %d shards are no document", t.Version, t.Migration, len(t.Shards))
	}
	return nil
}

// OlderEpoch is the refusal to write a document over one of a later epoch.
func OlderEpoch(place string, have, want int64) error {
	return migrate.Refuse("topology.older_epoch", place,
		fmt.Sprintf("it holds epoch %d, which is later than %d", have, want),
		"another command moved on, or the source went back in time: run shardctl status")
}
