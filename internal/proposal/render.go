package proposal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Variables are what the proposed spec takes from the environment.
var Variables = []string{"SOURCE_DSN", "DB0_DSN", "DB1_DSN"}

// head is all before the tables. The number of shards outlives the number of
// databases: 64 leave room to go from two to many, and few enough schemas to look at.
const head = `# Proposed by shardctl init from the catalog of database %[1]s. Read it, change what is
# not right, set the variables, then run: shardctl plan
version: 1
migration: %[2]s  # the name of the state, and part of the names of triggers
source:
  dsn: ${SOURCE_DSN}  # from the environment; a direct connection, not through a pooler
  # read_dsn: ${REPLICA_DSN}  # a replica that backfill and verify may read

# To decide: how many databases, and where. Each needs the source's encoding, and must be empty of these tables.
databases:
  db0: {dsn: "${DB0_DSN}"}
  db1: {dsn: "${DB1_DSN}"}

# To decide: count cannot be changed later, placement can only with another migration.
shards:
  count: 64  # logical shards; many more than databases, so that they can be spread again
  schema: "shard_%%03d"  # a schema for each shard; a plain name: all shards of a database share its tables
  hash: postgres  # as PARTITION BY HASH computes it
  placement: {db0: 0-31, db1: 32-63}  # each shard on one database

`

const foot = `
sequences: stride  # each writable side draws from a lane of its own; keep: goes on from the source's value
capture: {log_soft_limit: 10GB, log_hard_limit: 50GB}  # of the log on the source: the backfill pauses; capture stops
throttle: {max_replica_lag: 1s, max_catchup_lag: 30s}  # what a backfill may do to the source
cutover: {max_pause: 2s, verify_max_age: 24h, rollback_window: 4h}  # how long clients may wait, how old a verification may be
complete: {everywhere_owner: source}  # everywhere tables go on following the source; none: each database owns its copy

# To decide: what leads clients to their shard.
topology:
  - driver: file  # a JSON document that names each shard's home
    path: topology.json
  # - driver: pgbouncer  # entries of an included file, one for each shard
  #   instances: [{admin_dsn: "${PGB_ADMIN}", databases_file: /etc/pgbouncer/databases.ini}]
  #   entries: [{database: "app_%03d"}]
`

// Render writes a proposal as a spec with comments. It holds no address and no
// secret: servers are named by variables.
func Render(p *Proposal) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, head, label(p.Database), scalar(p.Migration))
	fmt.Fprintf(&b, "# The key is %s (%s): %s find their rows' shard by it.\n", label(p.Key.Column), p.Key.Type, count(p.sharded(), "table"))
	if others := p.otherKeys(); others != "" {
		fmt.Fprintf(&b, "# Other keys, with how many tables find theirs: %s. Choose one with shardctl init --key.\n", others)
	}
	b.WriteString("# key: COLUMN holds the key; key: {from, via} finds it in the parent's row (store_as: adds it on the databases);\n# everywhere: true is a full copy in each database. version: COLUMN, one that grows with each update, is compared too.\ntables:\n")
	for _, c := range p.Tables {
		c.render(&b)
	}
	if len(p.LeftOut) > 0 {
		b.WriteString("\n# Not migrated:\n")
		for _, l := range p.LeftOut {
			fmt.Fprintf(&b, "#   %s: %s\n", label(l.Name.String()), label(l.Reason))
		}
	}
	b.WriteString(foot)
	return []byte(b.String())
}

func (c Choice) render(b *strings.Builder) {
	fmt.Fprintf(b, "  - name: %s  # %s\n", scalar(c.Name.String()), c.size())
	for _, note := range c.notes {
		fmt.Fprintf(b, "    # %s\n", note)
	}
	switch {
	case c.Everywhere:
		b.WriteString("    everywhere: true\n")
	case c.From == nil:
		fmt.Fprintf(b, "    key: %s\n", scalar(c.Key))
	default:
		fmt.Fprintf(b, "    key:\n      from: %s\n      via: %s\n", scalar(c.From.String()), scalar(c.Via))
	}
	if c.As != "" {
		fmt.Fprintf(b, "    as: %s\n", scalar(c.As))
	}
}

func (p *Proposal) sharded() (n int) {
	for _, c := range p.Tables {
		if !c.Everywhere {
			n++
		}
	}
	return n
}

// otherKeys names the next best keys.
func (p *Proposal) otherKeys() string {
	const shown = 5
	var out []string
	for _, c := range p.Others[:min(len(p.Others), shown)] {
		out = append(out, fmt.Sprintf("%s (%d)", label(c.Column), c.Tables))
	}
	return strings.Join(out, ", ")
}

func (c Choice) size() string {
	if c.Rows < 0 {
		return "rows not known before ANALYZE, " + size(c.Bytes)
	}
	return fmt.Sprintf("about %s, %s", count(int(c.Rows), "row"), size(c.Bytes))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size words a number of bytes, as the spec writes sizes.
func size(bytes int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	n, unit := bytes, 0
	for n >= 10*1024 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprintf("%d %s", n, units[unit])
}

var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// reserved are plain words that YAML takes for something else than text.
var reserved = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// scalar writes a text so that the spec's reader takes it for itself.
func scalar(text string) string {
	if plain.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text)) {
		return text
	}
	text = strings.ReplaceAll(text, "${", "$${")
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	quoted, err := json.Marshal(text)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	return string(quoted)
}

// label writes a name into a comment, which ends with its line.
func label(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\u0085' {
			return '?'
		}
		return r
	}, text)
}
