package auditlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/store"
)

// group is the databases at one position: the log is read once for them.
type group struct {
	databases []*database
	after     snapshot
	retry     bool     // quarantined keys alone; the position stays
	retried   []parked // a retry: its keys

	look    survey
	census  census
	window  window
	entries entries
	wipes   map[int]*wipe // by table number
	next    store.Position
	backlog int64     // entries beyond the cut, counted up to a limit
	members []*member // those that take part, once rows are read
}

// groups sorts databases by their positions. One with keys of its own to read, or
// one that stages text, is alone.
func groups(databases []*database) []*group {
	var out []*group
	for _, db := range databases {
		alone := len(db.extra) > 0 || db.textual
		i := slices.IndexFunc(out, func(g *group) bool {
			first := g.databases[0]
			return !alone && first.pos.Snapshot == db.pos.Snapshot && first.pos.Marker == db.pos.Marker && len(first.extra) == 0 && !first.textual
		})
		if i >= 0 {
			out[i].databases = append(out[i].databases, db)
			continue
		}
		out = append(out, &group{databases: []*database{db}, after: db.after})
	}
	return out
}

// retryGroup is one database with its quarantined keys.
func retryGroup(db *database, keys []parked) *group {
	return &group{databases: []*database{db}, after: db.after, retry: true, retried: keys,
		entries: entries{condition: none, extra: byTable(keys)}}
}

// measure decides what the batch is: all that is new, or what lies below a cut.
func (g *group) measure(ctx context.Context, r *reader, tx pgx.Tx, now present) (err error) {
	if g.retry {
		return nil
	}
	if g.look, err = r.survey.look(ctx, tx, g.after, r.limit); err != nil {
		return err
	}
	if g.look.empty() {
		return nil
	}
	g.window = window{after: g.after, below: g.look.cut}
	if g.window.below > 0 {
		if g.window.below, err = r.survey.pastTruncates(ctx, tx, g.after, now.now, g.window.below); err != nil {
			return err
		}
		if g.backlog, err = r.survey.beyond(ctx, tx, g.window.below); err != nil {
			return err
		}
	}
	part := g.window.below > 0 || slices.ContainsFunc(g.databases, func(db *database) bool { return !db.whole })
	g.entries = entries{condition: g.window.condition(), extra: g.databases[0].extra, part: part}
	if g.census, err = r.survey.count(ctx, tx, r.a.plan, g.look, g.entries.condition); err != nil {
		return err
	}
	return g.readTruncates(ctx, r, tx)
}

func (g *group) empty() bool { return !g.retry && g.look.empty() }

// reached is the position's snapshot after the batch.
func (g *group) reached(now snapshot) snapshot {
	if g.window.below > 0 {
		return g.after.cutAt(now, g.window.below)
	}
	return now
}

// readTruncates finds out what the batch's truncates emptied. The children of a
// truncated table are read as a whole: their places may have gone with it.
func (g *group) readTruncates(ctx context.Context, r *reader, tx pgx.Tx) error {
	g.wipes, g.entries.full = map[int]*wipe{}, map[int]bool{}
	for _, tr := range g.census.truncates {
		t := r.a.plan.tables[tr.table-1]
		rule, whole, err := resolveTruncate(ctx, tx, t, tr.loc)
		if err != nil {
			return err
		}
		w := g.wipes[t.No]
		if w == nil {
			w = &wipe{}
			g.wipes[t.No] = w
		}
		switch {
		case whole:
			w.whole = true
		case rule != nil:
			w.rules = append(w.rules, rule)
		default: // the relation is gone: what was in it is only known from what is left
			w.whole, g.entries.full[t.No] = true, true
		}
		for _, d := range t.Descendants() {
			if t.keyed {
				g.wipes[d.No], g.entries.full[d.No] = &wipe{whole: true}, true
			}
		}
	}
	return nil
}

// tables are those to be read, in the order of the spec.
func (g *group) tables(p *plan) []*tablePlan {
	left := map[int]bool{}
	for _, t := range p.order { // parents first
		left[t.No] = g.census.left[t.No] || t.Parent != nil && left[t.Parent.No]
	}
	var out []*tablePlan
	for _, t := range p.tables {
		children := t.keyed && t.Parent != nil && left[t.Parent.No]
		if g.look.tables[t.No] || children || len(g.entries.extra[t.No]) > 0 || g.entries.full[t.No] || g.wipes[t.No] != nil {
			out = append(out, t)
		}
	}
	return out
}

// query is the SQL for one table of the batch.
func (g *group) query(p *plan, t *tablePlan, textual bool) string {
	format := t.format.String()
	if textual {
		format = "text"
	}
	return fmt.Sprintf("COPY (%s) TO STDOUT (FORMAT %s)", p.forwardSQL(t, g.entries), format)
}
