package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Round is what comparing the keys written since the last round found.
type Round struct {
	Checked     int          // keys
	Unsettled   int          // keys left for the next round
	Differences []Difference // confirmed now
	Broken      []Break      // chains that broke: a new full pass is due
	Idle        []string     // databases without a chain, since there was no full pass: nothing was compared
}

// Break is why the chain of a database's rounds ended.
type Break struct {
	Database string
	Reason   string
}

// DeltaCheck compares, for some databases, the keys that were written and applied
// since the last round, and the unsettled ones. It waits for nothing, so that it may
// run between ticks; what it cannot decide is left for the next round. Databases
// that are level are compared with one reading of the source. One that is down holds
// back only itself: there is a round for the others beside the error.
func (v *Verifier) DeltaCheck(ctx context.Context, databases ...string) (*Round, error) {
	round := &Round{}
	groups, err := v.groups(ctx, databases, round)
	for _, g := range groups {
		err = errors.Join(err, v.compareRound(ctx, g, round))
	}
	return round, err
}

// Delta is DeltaCheck as a gate: an error if there are differences, if the chain
// broke, or if too much is unsettled.
func (v *Verifier) Delta(ctx context.Context, databases []string) error {
	r, err := v.DeltaCheck(ctx, databases...)
	switch {
	case err != nil:
		return err
	case len(r.Differences) > 0:
		return differ(r.Differences)
	case len(r.Broken) > 0:
		return stale(r.Broken[0].Database, r.Broken[0].Reason)
	case len(r.Idle) > 0:
		return stale(r.Idle[0], noRounds)
	case r.Unsettled > v.limits.unsettled:
		return migrate.Refuse("verify.unsettled", strings.Join(databases, ", "), fmt.Sprintf("%d keys went on changing and could not be compared", r.Unsettled),
			"let catchup come level, then try again")
	}
	return nil
}

const noRounds = "what was written since the last pass was never compared"

func differ(found []Difference) error {
	d := found[0]
	return migrate.Refuse("verify.differences", d.Database+"."+d.Schema, fmt.Sprintf("%d rows differ, the first is %s in %s: %s", len(found), d.Key, d.Table, d.Kind),
		"run shardctl verify")
}

func stale(database, reason string) error {
	return migrate.Refuse("verify.stale", database, reason, "run shardctl verify")
}

// group is links that are level, so that their log and the source are read once.
type group struct {
	links     []*link
	databases []*server
	owners    map[string]store.Ownership
}

// groups loads the databases' links, ends chains that broke, and puts together those
// that are level.
func (v *Verifier) groups(ctx context.Context, databases []string, round *Round) ([]*group, error) {
	servers := make([]*server, len(databases))
	for i, name := range databases {
		d, err := v.database(name)
		if err != nil {
			return nil, err
		}
		servers[i] = d
	}
	if err := v.ensureState(ctx); err != nil {
		return nil, err
	}
	links, owners, err := v.links(ctx, servers)
	if err != nil {
		return nil, err
	}
	reasons, errs := v.readyAll(ctx, links)
	var groups []*group
	at := map[string]*group{}
	for i, l := range links {
		if errs[i] != nil {
			continue
		}
		fit, err := v.fit(ctx, l, reasons[i], round)
		if errs[i] = err; !fit {
			continue
		}
		id := fmt.Sprint(l.log.Name, l.from.Snapshot, l.to.Snapshot, len(l.tables))
		if at[id] == nil {
			at[id] = &group{owners: owners}
			groups = append(groups, at[id])
		}
		at[id].links, at[id].databases = append(at[id].links, l), append(at[id].databases, l.database)
	}
	return groups, errors.Join(errs...)
}

// readyAll asks for all links at once: in the window of a switch each round trip counts.
func (v *Verifier) readyAll(ctx context.Context, links []*link) (reasons []string, errs []error) {
	reasons, errs = make([]string, len(links)), make([]error, len(links))
	var g errgroup.Group
	g.SetLimit(2 * v.limits.streams)
	for i, l := range links {
		g.Go(func() error {
			reasons[i], errs[i] = v.ready(ctx, l)
			return nil
		})
	}
	_ = g.Wait() // each error stands by its link
	return reasons, errs
}

// fit reports whether a link can be compared, and notes why not.
func (v *Verifier) fit(ctx context.Context, l *link, reason string, round *Round) (bool, error) {
	switch {
	case reason == "":
		return true, nil
	case !l.begun:
		round.Idle = append(round.Idle, l.database.Name)
		return false, nil
	}
	round.Broken = append(round.Broken, Break{l.database.Name, reason})
	return false, v.end(ctx, l)
}

// ensureState makes the tables where they lack; it looks once.
func (v *Verifier) ensureState(ctx context.Context) error {
	if v.hasState.Load() {
		return nil
	}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		there, err := hasState(ctx, conn)
		if err != nil || there {
			return err
		}
		return CreateState(ctx, conn)
	})
	if err == nil {
		v.hasState.Store(true)
	}
	return err
}

// tooManyOpen is why a round does not end that leaves more undecided than is kept.
const tooManyOpen = "more keys than can be kept went on changing"

// errTooManyOpen ends such a round early: the next one begins where it began.
var errTooManyOpen = errors.New(tooManyOpen)

// compareRound compares level links, table by table, and ends their round. What it
// found is recorded together with how far the chains came by it. A round that leaves more
// undecided than can be kept does not end, and nothing of it is recorded: what it forgot
// is named by the log or by what was on record before.
func (v *Verifier) compareRound(ctx context.Context, g *group, round *Round) error {
	w, err := v.newWork(ctx, g, g.links[0].to.Snapshot)
	if err != nil {
		return err
	}
	for _, l := range g.links {
		if err := v.enter(ctx, l); err != nil {
			return err
		}
	}
	judges, err := v.compareTables(ctx, g, w)
	held := errors.Is(err, errTooManyOpen)
	if err != nil && !held {
		return err
	}
	found := false
	for _, j := range judges {
		round.Checked += j.looked
		round.Unsettled += int(j.unsettled())
		round.Differences = append(round.Differences, j.found...)
		found = found || len(j.found) > 0
	}
	switch {
	case held && !found && w.reason == "":
		return v.hold(ctx, g)
	case held && w.reason == "":
		// A full pass is due anyway, and each further try would list the differences again.
		w.reason = tooManyOpen
	}
	if err := v.saveRound(ctx, g, w, judges); err != nil || w.reason == "" {
		return err
	}
	for _, l := range g.links {
		round.Broken = append(round.Broken, Break{l.database.Name, w.reason})
		if err := v.end(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// compareTables judges the keys of all tables, and keeps the log meanwhile.
func (v *Verifier) compareTables(ctx context.Context, g *group, w *work) (judges []*judge, err error) {
	keeper := v.newKeeper(g)
	open := 0 // undecided keys of the tables before
	for _, t := range g.links[0].tables {
		j := v.newJudge(w.b, t, g.databases)
		j.owners = g.owners
		j.most = max(j.most, w.recorded(t)) // what is on record already comes first, and stays
		judges = append(judges, j)
		err := w.each(ctx, t, func(keys []key) error {
			if err := keeper.beat(ctx); err != nil {
				return err
			}
			if err := j.check(ctx, keys); err != nil {
				return err
			}
			if j.overflow > 0 || open+len(j.maybe) > max(maxPending, len(w.loaded)) {
				return errTooManyOpen
			}
			return nil
		})
		if err != nil {
			return judges, err
		}
		open += len(j.maybe)
	}
	return judges, nil
}

// saveRound records what a round found: differences, in place of the keys that were
// unsettled those that are, and, unless its chain breaks, its end.
func (v *Verifier) saveRound(ctx context.Context, g *group, w *work, judges []*judge) error {
	judges = slices.DeleteFunc(judges, func(j *judge) bool { return j.looked == 0 })
	var ended []*link
	for _, l := range g.links {
		if w.reason == "" && (l.due || l.from.Snapshot != l.to.Snapshot) {
			ended = append(ended, l)
		}
	}
	if len(judges)+len(ended) == 0 {
		return nil
	}
	err := v.onSource(ctx, func(conn *pgxpool.Conn) error {
		return postgres.WithTx(ctx, conn, pgx.TxOptions{}, func(tx pgx.Tx) error {
			for _, j := range judges {
				if err := v.removeUnsettled(ctx, tx, j.t.No, w.loaded); err != nil {
					return err
				}
				if err := v.saveUnsettled(ctx, tx, j.t, j.maybe); err != nil {
					return err
				}
			}
			if err := v.saveFound(ctx, tx, judges); err != nil {
				return err
			}
			for _, l := range ended {
				if err := v.advance(ctx, tx, l); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("record a round: %w", err)
	}
	return nil
}

// saveFound records a round's differences as those of a pass of their own.
func (v *Verifier) saveFound(ctx context.Context, tx pgx.Tx, judges []*judge) error {
	if !slices.ContainsFunc(judges, func(j *judge) bool { return len(j.found) > 0 }) {
		return nil
	}
	p := &pass{v: v, mode: delta}
	if err := p.insert(ctx, tx, "", nil); err != nil {
		return err
	}
	for _, j := range judges {
		if err := p.saveDifferences(ctx, tx, j.t, j.found); err != nil {
			return err
		}
	}
	const close = `UPDATE shardctl.verify_pass SET finished_at = clock_timestamp() WHERE migration = $1 AND pass = $2`
	_, err := tx.Exec(ctx, close, v.migration(), [16]byte(p.id))
	return err
}

// removeUnsettled takes keys off the record, unless another process has put them
// there again meanwhile.
func (v *Verifier) removeUnsettled(ctx context.Context, tx pgx.Tx, tableNo int, loaded []unsettled) error {
	batch := &pgx.Batch{}
	for _, u := range loaded {
		if u.tableNo == tableNo {
			batch.Queue(`DELETE FROM shardctl.verify_unsettled WHERE migration = $1 AND database = $2 AND table_no = $3 AND key = $4 AND at = $5`,
				v.migration(), u.database, u.tableNo, []string(u.key), u.at)
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, batch).Close()
}
