package backfill

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/catalog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// plan is one relation's row of shardctl.backfill_plan.
type plan struct {
	number   int64
	tableNo  int
	leaf     int
	relation string
	relid    uint32
	filenode uint32
	pages    int64 // when it was planned: after install's last commit
	bytes    int64 // with TOAST, then
	nextPage *int64
	nextNo   int
	pagesNow int64
}

// cut takes the next chunk of about so many pages off a plan, and gives where
// the one after begins; nil after the last. The last chunk is open-ended, unless
// the relation has grown so much since that this would make it too large: what
// is beyond the planned pages was written under capture and comes with catch-up.
func (p plan) cut(pages int64) (Chunk, *int64) {
	c := Chunk{Plan: p.number, No: p.nextNo, Relation: p.relation, Filenode: p.filenode, From: *p.nextPage}
	// A remainder of less than half a chunk is not worth one of its own.
	if end := c.From + pages; end+pages/2 < p.pages {
		c.To = &end
		return c, &end
	}
	if p.pagesNow-c.From > 4*pages && p.pages > c.From {
		c.To = &p.pages
	}
	return c, nil
}

// sync brings the plans in line with the source: a relation without one gets
// one, a relation that is gone loses its own, and one that was rewritten before
// all of it was copied begins anew. Must run after install's last commit.
func (q *queue) sync(ctx context.Context, now *layout.Layout) (restarted []string, err error) {
	err = q.with(ctx, func(conn *pgx.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			// One process plans at a time.
			if _, err := tx.Exec(ctx, "LOCK TABLE shardctl.backfill_plan IN SHARE ROW EXCLUSIVE MODE"); err != nil {
				return fmt.Errorf("lock the plan: %w", err)
			}
			for _, t := range q.layout.Tables {
				names, err := q.syncTable(ctx, tx, t, now.Tables[t.No-1].Source)
				if err != nil {
					return fmt.Errorf("plan %s: %w", t.Name(), err)
				}
				restarted = append(restarted, names...)
			}
			return nil
		})
	})
	return restarted, err
}

func (q *queue) syncTable(ctx context.Context, tx pgx.Tx, t *layout.Table, now *catalog.Table) (restarted []string, err error) {
	const sql = `SELECT p.plan, p.leaf, p.relid, p.filenode,
	  p.next_page IS NULL AND NOT EXISTS (SELECT FROM shardctl.chunk c WHERE (c.migration, c.plan, c.table_no, c.leaf) = (p.migration, p.plan, p.table_no, p.leaf) AND c.state <> 'done')
	FROM shardctl.backfill_plan p WHERE p.migration = $1 AND p.table_no = $2`
	rows, err := tx.Query(ctx, sql, q.migration(), t.No)
	if err != nil {
		return nil, err
	}
	type known struct {
		plan
		copied bool
	}
	plans, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (k known, err error) {
		err = r.Scan(&k.number, &k.leaf, &k.relid, &k.filenode, &k.copied)
		return k, err
	})
	if err != nil {
		return nil, err
	}
	next := 0
	have := map[uint32]bool{}
	for _, p := range plans {
		next = max(next, p.leaf+1)
		at := slices.IndexFunc(now.Heaps(), func(r catalog.Relation) bool { return r.OID == p.relid })
		if at >= 0 && (p.copied || now.Heaps()[at].Filenode == p.filenode) {
			have[p.relid] = true
			continue
		}
		if err := q.drop(ctx, tx, t.No, p.plan); err != nil {
			return nil, err
		}
		if at >= 0 {
			restarted = append(restarted, qualified(now.Heaps()[at].Name))
		}
	}
	for _, r := range now.Heaps() {
		if have[r.OID] {
			continue
		}
		if err := q.add(ctx, tx, t.No, next, r); err != nil {
			return nil, err
		}
		next++
	}
	return restarted, nil
}

func (q *queue) add(ctx context.Context, tx pgx.Tx, tableNo, leaf int, r catalog.Relation) error {
	const sql = `INSERT INTO shardctl.backfill_plan (migration, plan, table_no, leaf, relation, relid, filenode, pages, bytes, estimated_rows)
	SELECT $1, nextval('shardctl.plan_seq'), $2, $3, $4, $5, $6, s.pages, pg_table_size($5::oid::regclass),
	  CASE WHEN c.relpages > 0 AND c.reltuples >= 0 THEN (c.reltuples / c.relpages * s.pages)::bigint ELSE s.pages * 50 END
	FROM pg_class c, (SELECT pg_relation_size($5::oid::regclass) / current_setting('block_size')::bigint) s(pages) WHERE c.oid = $5`
	_, err := tx.Exec(ctx, sql, q.migration(), tableNo, leaf, qualified(r.Name), r.OID, r.Filenode)
	return err
}

// drop forgets a plan. Workers that still have a chunk of it hand back nothing;
// what they wrote is checked like any rows.
func (q *queue) drop(ctx context.Context, tx pgx.Tx, tableNo int, p plan) error {
	const chunks = `DELETE FROM shardctl.chunk WHERE migration = $1 AND plan = $2 AND table_no = $3`
	if _, err := tx.Exec(ctx, chunks, q.migration(), p.number, tableNo); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM shardctl.backfill_plan WHERE migration = $1 AND plan = $2 AND table_no = $3`, q.migration(), p.number, tableNo)
	return err
}
