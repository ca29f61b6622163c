package backfill

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
	"github.com/shardctl/shardctl/migrate"
)

// reader is a worker's session on the source or a replica of it.
type reader struct {
	target  postgres.Target
	replica *replica // nil: the source itself
	conn    *pgx.Conn
	version int
}

// replica is what a server must prove before it is read in the source's place.
type replica struct {
	systemIdentifier string // the source's
	after            string // LSN that it must have replayed
}

// open connects where there is no session, and checks a replica on that very one.
func (r *reader) open(ctx context.Context) error {
	if r.conn != nil && !r.conn.IsClosed() {
		return nil
	}
	conn, err := postgres.Connect(ctx, r.target, "backfill")
	if err != nil {
		return err
	}
	id, err := postgres.ReadIdentity(ctx, conn)
	if err == nil && r.replica != nil {
		err = r.replica.check(ctx, conn, id)
	}
	if err != nil {
		postgres.CloseQuietly(ctx, conn)
		return err
	}
	r.conn = conn
	if r.version == 0 {
		r.version = id.VersionNum
	}
	return nil
}

func (p *replica) check(ctx context.Context, conn *pgx.Conn, id postgres.Identity) error {
	switch {
	case id.SystemIdentifier != p.systemIdentifier:
		return migrate.Refuse("read_dsn.other", "source.read_dsn", "it is not a replica of the source: its system identifier is "+id.SystemIdentifier, "name a physical replica of the source, or leave read_dsn out")
	case !id.Standby:
		return migrate.Refuse("read_dsn.not_standby", "source.read_dsn", "it is not in recovery: it may have been promoted and gone its own way", "name a replica that follows the source, or leave read_dsn out")
	}
	var behind bool
	if err := conn.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn() IS NULL OR pg_last_wal_replay_lsn() < $1::text::pg_lsn", p.after).Scan(&behind); err != nil {
		return fmt.Errorf("read how far the replica is: %w", err)
	}
	if behind {
		return errBehind
	}
	return nil
}

// errBehind says that a replica has yet to replay what a chunk must see.
var errBehind = errors.New("the replica has not replayed the end of install yet")

// replayed is where the replica stands; "" for the source itself.
func (r *reader) replayed(ctx context.Context) (lsn string, err error) {
	if r.replica == nil {
		return "", nil
	}
	if err := r.open(ctx); err != nil {
		return "", err
	}
	if err := r.conn.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn()::text").Scan(&lsn); err != nil {
		return "", fmt.Errorf("read how far the replica is: %w", err)
	}
	return lsn, nil
}

func (r *reader) close(ctx context.Context) { postgres.CloseQuietly(ctx, r.conn) }

// snapshot opens a chunk's snapshot: the locks come first, so that no rewrite
// stands between what the catalog says and what the snapshot sees.
func (r *reader) snapshot(ctx context.Context, c Chunk, route *route) error {
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL lock_timeout = %d; ", lockWait.Milliseconds())
	if _, err := r.conn.Exec(ctx, begin+c.lockTables(route)); err != nil {
		if state := postgres.SQLState(err); state == "42P01" || state == "3F000" {
			return errors.Join(rewritten{c.Relation}, r.end(ctx))
		}
		return errors.Join(fmt.Errorf("lock %s: %w", c.Relation, err), r.end(ctx))
	}
	if err := r.checkRelation(ctx, c); err != nil {
		return errors.Join(err, r.end(ctx))
	}
	return nil
}

// checkRelation compares the relation under its lock with the plan and with the
// columns that the copy's statements name.
func (r *reader) checkRelation(ctx context.Context, c Chunk) error {
	const sql = `SELECT pg_relation_filenode($1::text::regclass),
	(SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), E'\n' ORDER BY attname)
	   FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped)`
	var filenode uint32
	var columns string
	if err := r.conn.QueryRow(ctx, sql, c.Relation).Scan(&filenode, &columns); err != nil {
		return fmt.Errorf("look at %s: %w", c.Relation, err)
	}
	if !sameColumns(columns, c.Table.Source) {
		return columnsFailure(c.Table.Name())
	}
	if filenode != c.Filenode {
		return rewritten{c.Relation}
	}
	return nil
}

// sameColumns compares names and types with what the layout was made of. A leaf
// may have its columns in another order.
func sameColumns(found string, t *catalog.Table) bool {
	lines := strings.Split(found, "\n")
	if len(lines) != len(t.Columns) {
		return false
	}
	have := map[string]bool{}
	for _, line := range lines {
		have[line] = true
	}
	for _, c := range t.Columns {
		if !have[c.Name+" "+c.TypeName] {
			return false
		}
	}
	return true
}

// copyOut streams a chunk's rows to each, and asks large before it gathers a very
// large one. The snapshot stays open.
func (r *reader) copyOut(ctx context.Context, c Chunk, route *route, each func(rowstream.Tuple) error, large func() error) error {
	split := rowstream.NewSplitter(route.format, each)
	split.Large = large
	sql := fmt.Sprintf("COPY (%s) TO STDOUT (FORMAT %s)", c.query(route, r.version), route.format)
	if _, err := r.conn.PgConn().CopyTo(ctx, split, sql); err != nil {
		return fmt.Errorf("read %s: %w", c, err)
	}
	if err := split.Close(); err != nil {
		return fmt.Errorf("read %s: %w", c, err)
	}
	return nil
}

// end gives the snapshot and its locks back.
func (r *reader) end(ctx context.Context) error {
	if r.conn.IsClosed() {
		return nil
	}
	ctx, cancel := postgres.Cleanup(ctx)
	defer cancel()
	if _, err := r.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	return nil
}
