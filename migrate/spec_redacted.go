package migrate

import (
	"fmt"
	"strconv"
)

// Redacted is a spec as state keeps it: everything but secrets, in one form for
// one meaning. Commands that reach a router or its file are left out too: they may
// hold one.
type Redacted struct {
	Version   int                `json:"version"`
	Migration string             `json:"migration"`
	Databases []RedactedDatabase `json:"databases"`
	Shards    RedactedShards     `json:"shards"`
	Tables    []RedactedTable    `json:"tables"`
	Engine    string             `json:"engine"`
	Sequences string             `json:"sequences"`
	Settings  map[string]string  `json:"settings"` // by their path in the spec
	Topology  []RedactedRouter   `json:"topology,omitempty"`
}

// RedactedDatabase is a database without its DSN.
type RedactedDatabase struct {
	Name   string `json:"name"`
	Router string `json:"router,omitempty"` // host:port/dbname
	Reader string `json:"reader,omitempty"`
}

// RedactedShards is the shard map, with ranges in the place of single shards.
type RedactedShards struct {
	Count     int               `json:"count"`
	Schema    string            `json:"schema"`
	Hash      string            `json:"hash"`
	Placement map[string]string `json:"placement"` // database -> "0-239"
}

// RedactedTable is a table; its number is its place in the list, from 1.
type RedactedTable struct {
	Name       TableName  `json:"name"`
	As         string     `json:"as"`
	Key        string     `json:"key,omitempty"`
	From       *TableName `json:"from,omitempty"`
	Via        string     `json:"via,omitempty"`
	StoreAs    string     `json:"store_as,omitempty"`
	Version    string     `json:"version,omitempty"`
	Rollback   string     `json:"rollback"`
	Orphans    string     `json:"orphans"`
	NullKeys   string     `json:"null_keys"`
	Everywhere bool       `json:"everywhere,omitempty"`
}

// RedactedRouter is a router without how it is reached.
type RedactedRouter struct {
	Driver  string   `json:"driver"`
	Entries []string `json:"entries,omitempty"` // "app_%03d primary"
	Files   []string `json:"files,omitempty"`
	Table   string   `json:"table,omitempty"` // and its channel
}

// Redacted gives the spec as it may be stored and shown.
func (s *Spec) Redacted() Redacted {
	r := Redacted{Version: s.Version, Migration: s.Migration, Engine: s.Capture.Engine, Sequences: s.Sequences, Settings: s.settings()}
	r.Shards = RedactedShards{Count: s.Shards.Count, Schema: s.Shards.Schema, Hash: s.Shards.Hash, Placement: map[string]string{}}
	for _, d := range s.Databases {
		r.Databases = append(r.Databases, RedactedDatabase{Name: d.Name, Router: d.Router.String(), Reader: d.Reader.String()})
		r.Shards.Placement[d.Name] = FormatShards(s.Shards.ShardsOf(d.Name))
	}
	for _, t := range s.Tables {
		r.Tables = append(r.Tables, t.redacted())
	}
	for _, router := range s.Topology {
		r.Topology = append(r.Topology, router.redacted())
	}
	return r
}

// settings are what may change while a migration is under way.
func (s *Spec) settings() map[string]string {
	return map[string]string{
		"capture.log_soft_limit":     spellSize(s.Capture.LogSoftLimit),
		"capture.log_hard_limit":     spellSize(s.Capture.LogHardLimit),
		"throttle.max_replica_lag":   SpellDuration(s.Throttle.MaxReplicaLag),
		"throttle.max_catchup_lag":   SpellDuration(s.Throttle.MaxCatchupLag),
		"throttle.max_source_active": strconv.Itoa(s.Throttle.MaxSourceActive),
		"throttle.max_rate":          strconv.Itoa(s.Throttle.MaxRate),
		"throttle.schedule":          s.Throttle.Schedule,
		"cutover.max_pause":          SpellDuration(s.Cutover.MaxPause),
		"cutover.verify_max_age":     SpellDuration(s.Cutover.VerifyMaxAge),
		"cutover.rollback_window":    SpellDuration(s.Cutover.RollbackWindow),
		"complete.everywhere_owner":  s.Complete.EverywhereOwner,
	}
}

func (t Table) redacted() RedactedTable {
	r := RedactedTable{
		Name: t.Name, As: t.TargetName(), Key: t.Key.Column, Via: t.Key.Via, StoreAs: t.Key.StoreAs, Version: t.Version,
		Rollback: t.Rollback, Orphans: t.Orphans.String(), NullKeys: t.NullKeys.String(), Everywhere: t.Everywhere,
	}
	if t.Derived() {
		r.From = &t.Key.From
	}
	return r
}

func (r Router) redacted() RedactedRouter {
	out := RedactedRouter{Driver: r.Driver}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, e.Database+" "+e.To)
	}
	for _, i := range r.Instances {
		out.Files = append(out.Files, i.DatabasesFile)
	}
	if r.Path != "" {
		out.Files = append(out.Files, r.Path)
	}
	if r.Driver == "postgres" {
		out.Table = r.Table.String() + " " + r.Channel
	}
	return out
}

// String gives host:port/dbname, less what is not given.
func (a Address) String() string {
	text := a.Host
	if a.Port != 0 {
		text += ":" + strconv.Itoa(int(a.Port))
	}
	if a.DBName != "" {
		text += "/" + a.DBName
	}
	return text
}

// String gives the policy as the spec has it.
func (s Stray) String() string {
	if s.Policy == "shard" {
		return fmt.Sprintf("{shard: %d}", s.Shard)
	}
	return s.Policy
}
