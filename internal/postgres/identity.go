package postgres

import (
	"context"
	"fmt"
)

// Identity tells one server's history from another's.
type Identity struct {
	SystemIdentifier string
	Timeline         int64
	VersionNum       int // server_version_num, e.g. 150018
	Database         string
	Standby          bool
}

// ReadIdentity asks a server who it is. The timeline is that of the running
// server's current WAL file, not of the last checkpoint: after a promotion the
// checkpoint still names the old one.
func ReadIdentity(ctx context.Context, q Querier) (Identity, error) {
	const sql = `SELECT (SELECT system_identifier::text FROM pg_control_system()),
	CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
	     ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint END,
	current_setting('server_version_num')::int, current_database(), pg_is_in_recovery()`
	var id Identity
	err := q.QueryRow(ctx, sql).Scan(&id.SystemIdentifier, &id.Timeline, &id.VersionNum, &id.Database, &id.Standby)
	if err != nil {
		return Identity{}, fmt.Errorf("read server identity: %w", err)
	}
	return id, nil
}
