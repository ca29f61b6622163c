package journey

// The expressions by which the server writes a row of the application's tables, under
// an alias. Columns that shardctl adds on databases are not among them.
const (
	blockText   = "ROW(b.id, b.workspace_id, b.plan_id, b.doc, b.tags, b.amount, b.at, b.version)::text"
	commentText = "ROW(c.id, c.block_id, c.body, c.at)::text"
	planText    = "ROW(p.id, p.name, p.price, p.features, p.version)::text"
)
