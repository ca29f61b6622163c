package preflight

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/migrate"
)

// encodings: every side has the source's encoding: the same text has other bytes,
// and so another hash, under another one.
func encodings(ctx context.Context, s *Survey) (found []migrate.Finding, err error) {
	const sql = `SELECT pg_encoding_to_char(encoding), datcollate FROM pg_database WHERE datname = current_database()`
	names, conns := s.sides()
	var encoding, collate string
	for i, conn := range conns {
		var enc, coll string
		if err := conn.QueryRow(ctx, sql).Scan(&enc, &coll); err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		if i == 0 {
			encoding, collate = enc, coll
			continue
		}
		if enc != encoding {
			found = append(found, blocking("encoding.differs", names[i], fmt.Sprintf("the database is %s, the source %s: text keys would hash apart and bytes may not convert; create the database with the source's encoding", enc, encoding)))
		}
		if coll != collate {
			found = append(found, warning("collation.differs", names[i], fmt.Sprintf("the database sorts by %s, the source by %s: ORDER BY and range conditions on text may answer differently", coll, collate)))
		}
	}
	return found, nil
}
