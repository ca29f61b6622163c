package preflight

import (
	"context"

	"github.com/shardctl/shardctl/migrate"
)

// notCopied names what uses the tables and is not made on the databases.
func notCopied(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	views, err := texts(ctx, s.Source, `SELECT DISTINCT format('%I.%I', n.nspname, v.relname) FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
	JOIN pg_class v ON v.oid = r.ev_class JOIN pg_namespace n ON n.oid = v.relnamespace WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY($1) AND v.relkind IN ('v', 'm') ORDER BY 1`, s.oids())
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		found = append(found, info("view.not_copied", v, "the view uses migrated tables; create it on the databases yourself if it is needed there"))
	}
	return found, nil
}
