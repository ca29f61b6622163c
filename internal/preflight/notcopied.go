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
	rules, err := texts(ctx, s.Source, `SELECT format('%I on %I.%I', r.rulename, n.nspname, c.relname) FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
	JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.ev_class = ANY($1) ORDER BY 1`, s.oids())
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		found = append(found, warning("rule.not_copied", r, "the rule is not made on the databases; turn it into a trigger if the application needs it there"))
	}
	statistics, err := texts(ctx, s.Source, `SELECT format('%I.%I', n.nspname, e.stxname) FROM pg_statistic_ext e JOIN pg_namespace n ON n.oid = e.stxnamespace WHERE e.stxrelid = ANY($1) ORDER BY 1`, s.oids())
	if err != nil {
		return nil, err
	}
	for _, e := range statistics {
		found = append(found, info("statistics.not_copied", e, "these extended statistics are not made on the databases; create them there if plans need them"))
	}
	return found, nil
}
