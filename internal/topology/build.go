package topology

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Build makes the document of a spec and the source's ownership rows. Without rows,
// as before prepare, the source owns everything at epoch 0. It connects to nothing.
//
// A shard that the source owns leads to the address of source.dsn, its readers to
// that of source.read_dsn if there is one. Parts of an address that a database's
// router: leaves out are those of its DSN, and what reader: leaves out those of
// router:. Of a DSN with several hosts the first one counts.
func Build(spec *migrate.Spec, owners []store.Ownership) (Topology, error) {
	homes, err := addresses(spec)
	if err != nil {
		return Topology{}, err
	}
	t := Topology{Version: Version, Migration: spec.Migration, Shards: make([]Route, spec.Shards.Count)}
	if len(owners) == 0 {
		owners = []store.Ownership{{Owner: store.OwnerSource, Shards: allShards(spec.Shards.Count)}}
	}
	owned := make([]bool, len(t.Shards))
	for _, o := range owners {
		home, known := homes[o.Owner]
		if !known || o.Owner != store.OwnerSource && o.Owner != o.Database {
			return Topology{}, fmt.Errorf("topology of %s: shards of %q have the unknown owner %q", spec.Migration, o.Database, o.Owner)
		}
		t.Epoch = max(t.Epoch, o.Epoch)
		for _, shard := range o.Shards {
			if shard < 0 || shard >= len(owned) || owned[shard] {
				return Topology{}, fmt.Errorf("topology of %s: shard %d is no shard or has two owners", spec.Migration, shard)
			}
			owned[shard] = true
			t.Shards[shard] = route(spec, shard, o, home)
		}
	}
	if shard := slices.Index(owned, false); shard >= 0 {
		return Topology{}, fmt.Errorf("topology of %s: shard %d has no owner", spec.Migration, shard)
	}
	return t, t.Check()
}

func route(spec *migrate.Spec, shard int, o store.Ownership, h home) Route {
	schema := spec.Shards.SchemaName(shard)
	return Route{
		Shard: shard, Database: o.Owner, Epoch: o.Epoch, Schema: schema,
		Host: h.primary.Host, Port: h.primary.Port, DBName: h.primary.DBName, Reader: h.reader,
		SearchPath: append([]string{schema}, slices.DeleteFunc(spec.SourceSchemas(), func(s string) bool { return s == schema })...),
	}
}

func allShards(count int) []int {
	shards := make([]int, count)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// home is where one owner's shards live.
type home struct{ primary, reader Address }

// addresses gives the home of every owner that there may be.
func addresses(spec *migrate.Spec) (map[string]home, error) {
	source, err := parse("source", spec.Source.DSN)
	if err != nil {
		return nil, err
	}
	h := home{primary: source, reader: source}
	if spec.Source.ReadDSN != "" {
		if h.reader, err = parse("source.read_dsn", spec.Source.ReadDSN); err != nil {
			return nil, err
		}
	}
	homes := map[string]home{store.OwnerSource: h}
	for _, d := range spec.Databases {
		own, err := parse(d.Name, d.DSN)
		if err != nil {
			return nil, err
		}
		primary := over(own, d.Router)
		homes[d.Name] = home{primary: primary, reader: over(primary, d.Reader)}
	}
	return homes, nil
}

func parse(name string, dsn migrate.Secret) (Address, error) {
	cfg, err := pgconn.ParseConfig(dsn.Reveal())
	if err != nil {
		return Address{}, migrate.Usage("dsn.malformed", name, "the DSN cannot be parsed", "give a postgres:// URL or key=value pairs")
	}
	a := Address{Host: cfg.Host, Port: cfg.Port, DBName: cfg.Database}
	if a.DBName == "" {
		a.DBName = cfg.User // as the server itself does
	}
	return a, nil
}

// over puts the given parts of an address over a base.
func over(base Address, given migrate.Address) Address {
	if given.Host != "" {
		base.Host = given.Host
	}
	if given.Port != 0 {
		base.Port = given.Port
	}
	if given.DBName != "" {
		base.DBName = given.DBName
	}
	return base
}
