package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// copyBins copies what is to be kept into each location of this database.
func (w *writer) copyBins(ctx context.Context, tx pgx.Tx, j job, look, tombs bool) error {
	mine := w.bins(j)
	if len(mine) == 0 {
		return nil
	}
	dropped := make([][]int, len(j.route.bins))
	if look {
		if err := w.replace(ctx, tx, j, mine); err != nil {
			return err
		}
		var err error
		if dropped, err = w.judge(ctx, tx, j, mine, tombs); err != nil {
			return fmt.Errorf("compare %s: %w", j.chunk, err)
		}
		found := slices.ContainsFunc(dropped, func(list []int) bool { return len(list) > 0 })
		w.caution.of(j.chunk.Table.No).compared(found)
	}
	w.signals.on(w.signals.Judged, j.chunk, w.target.Name)
	for _, i := range mine {
		b := &j.part.bins[i]
		if len(dropped[i]) == len(b.ends) {
			continue
		}
		target := j.route.bins[i].target
		stream := b.stream(j.route.format, dropped[i])
		_, err := tx.Conn().PgConn().CopyFrom(ctx, stream, copyIn(j.chunk.Table, target, j.route.format))
		stream.close()
		if err != nil {
			return fmt.Errorf("copy %s into %s: %w", j.chunk, target, err)
		}
	}
	return nil
}

// bins are those of this database that hold a row.
func (w *writer) bins(j job) []int {
	var out []int
	for i, b := range j.route.bins {
		if (b.database == "" || b.database == w.target.Name) && len(j.part.bins[i].ends) > 0 {
			out = append(out, i)
		}
	}
	return out
}

// replace makes room for rows of a higher version than the one that is there,
// where no tick beyond the note has been applied. Then all that the database
// holds is at or before the chunk's snapshot, but for other chunks' rows, which
// the version judges; what changed after the snapshot comes with a later tick.
func (w *writer) replace(ctx context.Context, tx pgx.Tx, j job, mine []int) error {
	if j.route.version < 0 {
		return nil
	}
	var beyond bool
	const sql = `SELECT coalesce(max(tick), 0) > $3 FROM shardctl.position WHERE migration = $1 AND database = $2 AND direction = 'forward'`
	if err := tx.QueryRow(ctx, sql, w.migration, w.target.Name, j.chunk.Note).Scan(&beyond); err != nil {
		return fmt.Errorf("read the position of %s: %w", w.target.Name, err)
	}
	if beyond {
		return nil
	}
	for _, i := range mine {
		values := j.part.bins[i].keyArrays(j.route, j.route.version)
		sql := outdated(j.chunk.Table, j.route.bins[i].target, j.route.format)
		if res := tx.Conn().PgConn().ExecParams(ctx, sql, values, nil, binaryFormats(len(values)), nil).Read(); res.Err != nil {
			return fmt.Errorf("replace older versions in %s: %w", j.route.bins[i].target, res.Err)
		}
	}
	return nil
}

// judge finds the tuples of each bin that must not be copied, one round trip for
// all of them.
func (w *writer) judge(ctx context.Context, tx pgx.Tx, j job, mine []int, tombs bool) (dropped [][]int, err error) {
	pipe := tx.Conn().PgConn().StartPipeline(ctx)
	defer func() { err = errors.Join(err, pipe.Close()) }()
	var order []int
	for _, i := range mine {
		values := j.part.bins[i].keyArrays(j.route)
		formats := binaryFormats(len(values))
		pipe.SendQueryParams(existing(j.chunk.Table, j.route.bins[i].target, j.route.format), values, nil, formats, formats[:1])
		order = append(order, i)
		if tombs {
			pipe.SendQueryParams(buried(j.chunk.Table, w.migration, j.chunk.Note, j.route.format), values, nil, formats, formats[:1])
			order = append(order, i)
		}
	}
	if err := pipe.Sync(); err != nil {
		return nil, err
	}
	dropped = make([][]int, len(j.route.bins))
	for _, i := range order {
		found, err := ordinals(pipe)
		if err != nil {
			return nil, err
		}
		dropped[i] = append(dropped[i], found...)
	}
	for i := range dropped {
		slices.Sort(dropped[i])
		dropped[i] = slices.Compact(dropped[i])
	}
	return dropped, nil
}
