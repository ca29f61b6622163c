package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// mendSource raises the source's fences of all databases that own their shards by the
// highest epoch found, in one transaction with what the source knows of it.
func (e *Exam) mendSource() (Mend, bool) {
	var names []string
	for _, d := range e.cfg.Spec.Databases {
		n := e.newest[d.Name]
		behind := slices.ContainsFunc(e.owners, func(o store.Ownership) bool { return o.Database == d.Name && o.Epoch < n.Epoch && n.Owner == d.Name })
		down := slices.ContainsFunc(e.Of("fence.source", Broken), func(c Check) bool { return c.Object == "source, for "+d.Name })
		if behind || down && e.shouldOwn(d.Name) {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 || e.layout == nil {
		return Mend{}, false
	}
	slices.Sort(names) // the order in which ownership rows are locked
	return Mend{ID: "fence.source", Object: "source, for " + strings.Join(names, ", "), stale: true,
		Summary: "refuse writes of rows that " + strings.Join(names, " and ") + " own, and note on the source what the highest epoch says",
		apply:   func(ctx context.Context) error { return e.raiseSource(ctx, names) }}, true
}

func (e *Exam) raiseSource(ctx context.Context, names []string) error {
	locked := fence.SourceTables(e.layout)
	return postgres.WithTx(ctx, e.cfg.Source, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := postgres.PreLock(ctx, tx, locked); err != nil {
			return err
		}
		owners, raised, err := e.takeOver(ctx, tx, names)
		if err != nil || len(raised) == 0 {
			return err
		}
		if err := postgres.UpgradeLock(ctx, tx, "SHARE ROW EXCLUSIVE", locked, time.Now().Add(lockWait)); err != nil {
			return err
		}
		if err := e.makeFences(ctx, tx); err != nil {
			return err
		}
		if err := fence.Enable(ctx, tx, e.layout, raised...); err != nil {
			return err
		}
		for _, o := range owners {
			if err := store.SaveOwnership(ctx, tx, e.name(), o); err != nil {
				return err
			}
			if err := store.SkipTerms(ctx, tx, o.Term); err != nil {
				return err
			}
		}
		return e.mendPhase(ctx, tx)
	})
}

// takeOver locks the ownership rows and gives them what the highest epoch says. A row
// that moved on since it was looked at is left alone.
func (e *Exam) takeOver(ctx context.Context, tx pgx.Tx, names []string) (owners []store.Ownership, raised []string, err error) {
	for _, name := range names {
		o, err := store.ChangeOwnership(ctx, tx, e.name(), name)
		if err != nil {
			return nil, nil, err
		}
		n := e.newest[name]
		if n.Epoch > o.Epoch {
			o.Owner, o.Epoch, o.Shards = n.Owner, n.Epoch, n.Shards
		}
		o.Term = max(o.Term, n.Term)
		if o.Owner == name {
			owners, raised = append(owners, o), append(raised, name)
		}
	}
	return owners, raised, nil
}

// makeFences makes what lacks of fences, dormant, on a source that went back to before
// they were made.
func (e *Exam) makeFences(ctx context.Context, tx pgx.Tx) error {
	all := fence.SourceFunctions(e.layout)
	for _, t := range e.layout.Tables {
		all = append(all, fence.SourceTriggers(e.layout, t)...)
	}
	lacking, err := ddl.LackingTriggers(ctx, tx, all)
	if err != nil {
		return err
	}
	if err := store.Register(ctx, tx, ddl.Objects(lacking)...); err != nil {
		return err
	}
	return ddl.Exec(ctx, tx, lacking)
}

// mendPhase moves the phase to what the ownership rows say, where that is a legal move.
func (e *Exam) mendPhase(ctx context.Context, tx pgx.Tx) error {
	owners, err := store.LoadOwnership(ctx, tx, e.name())
	if err != nil {
		return err
	}
	to := migrate.CutOver
	if slices.ContainsFunc(owners, func(o store.Ownership) bool { return o.Owner == store.OwnerSource }) {
		to = migrate.PartlyCutOver
	}
	if e.in(to, migrate.Completed) || !migrate.CanMove(e.migration.Phase, to) {
		return nil
	}
	return store.SetPhase(ctx, tx, e.name(), to)
}
