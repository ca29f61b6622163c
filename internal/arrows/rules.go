package arrows

// Module is the path that all rules are relative to.
const Module = "github.com/shardctl/shardctl"

// Rule forbids packages to reach others, over any number of steps. A name stands
// for that package and all below it; one with a dot in its first part is a full
// import path, any other is a package of this module.
type Rule struct {
	From   []string // empty: every package of this module
	Except []string // of From, those that may
	Never  []string // "." is every package of this module but From's own
	Why    string
}

// Rules are the arrows of this project.
var Rules = []Rule{
	{
		From: []string{"migrate"}, Never: []string{".", "github.com/jackc/pgx/v5"},
		Why: "everything depends inward on migrate; it opens no connection",
	},
	{
		From: []string{"backfill"}, Never: []string{"auditlog", "verify", "cutover"},
		Why: "the copier is driven and judged from outside",
	},
	{
		From: []string{"verify"}, Never: []string{"auditlog", "backfill", "cutover", "internal/shardhash"},
		Why: "what judges shares no code with what copies and routes, or one bug would hide itself in both",
	},
	{
		From: []string{"cutover"}, Never: []string{"auditlog", "backfill", "verify"},
		Why: "cutover declares what it needs as interfaces; cmd knows who implements them",
	},
	{
		From: []string{"auditlog"}, Never: []string{"backfill", "verify", "cutover"},
		Why: "capture and the applier know nothing of the phases around them",
	},
	{
		From: []string{"internal/shardhash"}, Never: []string{"internal/shardsql"},
		Why: "the hash in Go and the one in SQL judge each other",
	},
	{
		From: []string{"internal/shardsql"}, Never: []string{"internal/shardhash"},
		Why: "the hash in Go and the one in SQL judge each other",
	},
	{
		Except: []string{"cmd"}, Never: []string{"cmd"},
		Why: "cmd is the one place that knows every concrete type",
	},
	{
		Except: []string{"internal/pgtest", "internal/binary", "internal/chaos", "internal/benchmark"}, Never: []string{"internal/pgtest", "internal/binary"},
		Why: "what only tests need is not built into the program",
	},
	{
		From: []string{"internal/chaos"}, Never: []string{
			"migrate", "auditlog", "backfill", "verify", "cutover", "internal/store", "internal/layout", "internal/shardhash", "internal/shardsql",
		},
		Why: "what judges from outside knows the program by its command lines alone",
	},
	{
		From: []string{
			"migrate", "auditlog", "backfill", "verify", "cutover",
			"internal/postgres", "internal/store", "internal/catalog", "internal/layout", "internal/logschema",
			"internal/fence", "internal/target", "internal/moved", "internal/preflight", "internal/rowstream", "internal/topology",
		},
		Never: []string{"internal/localpg"},
		Why:   "throw-away servers are for tests and demo",
	},
}
