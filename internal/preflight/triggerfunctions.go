package preflight

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/migrate"
)

// triggerFunction is a function that the user's triggers on migrated tables call.
type triggerFunction struct {
	name, path, body string
}

// triggerFunctions: the application's triggers are made on the databases, where the
// tables lie in other schemas. A function that pins the source's schemas, or names a
// table with its schema, would not find it there.
func triggerFunctions(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT DISTINCT p.oid::regprocedure::text,
	  coalesce((SELECT substr(c, length('search_path=') + 1) FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%'), ''), p.prosrc
	FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
	WHERE t.tgrelid = ANY($1) AND NOT t.tgisinternal AND t.tgname NOT LIKE 'shardctl\_%' ORDER BY 1`
	rows, err := s.Source.Query(ctx, sql, s.oids())
	if err != nil {
		return nil, fmt.Errorf("read trigger functions: %w", err)
	}
	functions, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (f triggerFunction, err error) {
		err = r.Scan(&f.name, &f.path, &f.body)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read trigger functions: %w", err)
	}
	for _, f := range functions {
		for _, t := range s.moving() {
			if why := f.misses(t.Spec.Name); why != "" {
				found = append(found, warning("trigger.schema", f.name, fmt.Sprintf("%s, but on the databases %s lies in %s: the trigger would not find it there", why, t.Name(), s.Spec.Shards.Schema)))
				break
			}
		}
	}
	return found, nil
}

// moving are the tables whose schema on the databases is another one.
func (s *Survey) moving() (out []*layout.Table) {
	for _, t := range s.Layout.Tables {
		if !t.Everywhere() && t.Spec.Name.Schema != s.Spec.Shards.Schema {
			out = append(out, t)
		}
	}
	return out
}

// misses says why a function would look for a table in its old schema; "" if nothing
// tells so.
func (f triggerFunction) misses(table migrate.TableName) string {
	for _, schema := range strings.Split(f.path, ",") {
		if strings.Trim(strings.TrimSpace(schema), `"`) == table.Schema {
			return "it pins search_path to " + f.path
		}
	}
	qualified := regexp.MustCompile(`(?i)(^|[^\w."])"?` + regexp.QuoteMeta(table.Schema) + `"?\s*\.\s*"?` + regexp.QuoteMeta(table.Name) + `"?($|[^\w"])`)
	if qualified.MatchString(f.body) {
		return "it names " + table.String()
	}
	return ""
}
