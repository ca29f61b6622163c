package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// viaIndexes: a derived table's column that refers to its parent leads an index:
// each change of a parent re-reads its children by it.
func viaIndexes(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = $1 AND indkey[0] = $2 AND indisvalid AND indpred IS NULL)`
	for _, t := range s.Layout.Tables {
		if !t.Derived() {
			continue
		}
		var there bool
		if err := s.Source.QueryRow(ctx, sql, t.Source.OID, t.Via.Num).Scan(&there); err != nil {
			return nil, err
		}
		if !there {
			how := "CREATE INDEX CONCURRENTLY"
			if t.Source.Partitioned() {
				how = "CREATE INDEX" // a partitioned table knows no CONCURRENTLY
			}
			found = append(found, blocking("via.no_index", t.Name()+"."+t.Via.Name, "no index leads with this column: each change of a parent would read the whole table",
				fmt.Sprintf("%s ON %s (%s);", how, t.QualifiedSource(), postgres.Ident(t.Via.Name))))
		}
	}
	return found, nil
}
