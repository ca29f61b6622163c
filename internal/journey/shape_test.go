package journey

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shape is what differs between the migrations of this package.
type shape struct {
	migration string
	home      []int  // the database of each logical shard; their number is the count
	schema    string // of the spec's shards
	always    bool   // comment.id is GENERATED ALWAYS
	storeAs   bool   // comments get a column workspace_id on the databases
	blocks    int    // rows to load; there are two comments on three blocks
	writers   int
	pace      time.Duration // between two requests of a writer
	servers   int           // that share the databases; 0 is 1
	settings  []string      // of every server
	extra     string        // lines of the spec
	ownCopies bool          // after complete each database owns its copy of the everywhere table
}

// maxPause is the spec's.
const maxPause = 10 * time.Second

const (
	plans               = 60
	workspacesPerWriter = 16
)

func (s shape) databases() int        { return slices.Max(s.home) + 1 }
func (s shape) perShard() bool        { return strings.Contains(s.schema, "%") }
func (s shape) database(i int) string { return "db" + strconv.Itoa(i) }

// entry is the pooler's entry for a shard. Where all shards are on one database
// there is but one.
func (s shape) entry(shard int) string {
	if s.databases() == 1 {
		return "app"
	}
	return fmt.Sprintf("app_%03d", shard)
}

// schemaOf is the schema of a shard on its database.
func (s shape) schemaOf(shard int) string {
	if s.perShard() {
		return fmt.Sprintf(s.schema, shard)
	}
	return s.schema
}

// location is a place of sharded rows.
type location struct {
	database int
	schema   string
}

// locations lists the places of a database, each with the shards it may hold.
func (s shape) locations() map[location][]int {
	all := map[location][]int{}
	for shard, database := range s.home {
		at := location{database, s.schemaOf(shard)}
		all[at] = append(all[at], shard)
	}
	return all
}

// everywhereSchema is the schema of plan on the databases.
func (s shape) everywhereSchema() string {
	if s.perShard() {
		return "public"
	}
	return s.schema
}

// specText is the spec; servers are named by variables.
func (s shape) specText(databasesFile, topologyFile string) string {
	var dsns, placement, key, derived strings.Builder
	for i := range s.databases() {
		fmt.Fprintf(&dsns, "  db%d: {dsn: \"${DB%d_DSN}\"}\n", i, i)
		var shards []string
		for shard, database := range s.home {
			if database == i {
				shards = append(shards, strconv.Itoa(shard))
			}
		}
		fmt.Fprintf(&placement, "    db%d: \"%s\"\n", i, strings.Join(shards, ","))
	}
	if len(s.home) > 1 {
		key.WriteString("\n    key: workspace_id")
		store := ""
		if s.storeAs {
			store = ", store_as: workspace_id"
		}
		derived.WriteString("\n    key: {from: public.block, via: block_id" + store + "}")
	}
	entry, owner := "app", "source"
	if s.databases() > 1 {
		entry = "app_%03d"
	}
	if s.ownCopies {
		owner = "none"
	}
	return fmt.Sprintf(`version: 1
migration: %s
source:
  dsn: ${SOURCE_DSN}
databases:
%sshards:
  count: %d
  schema: "%s"
  hash: postgres
  placement:
%stables:
  - name: public.block%s
    version: version
  - name: public.comment%s
  - name: public.plan
    everywhere: true
sequences: stride
cutover: {max_pause: %s, verify_max_age: 1h, rollback_window: 1h}
complete: {everywhere_owner: %s}
topology:
  - driver: pgbouncer
    instances: [{admin_dsn: "${PGB_ADMIN}", databases_file: "%s"}]
    entries: [{database: "%s", to: primary}]
  - driver: file
    path: "%s"
%s`, s.migration, &dsns, len(s.home), s.schema, &placement, &key, &derived, maxPause, owner, databasesFile, entry, topologyFile, s.extra)
}
