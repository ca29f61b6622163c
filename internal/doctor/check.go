package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// State is what became of a check.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // holds, but needs attention
	Broken  State = "broken"  // does not hold
	NotRun  State = "not run" // could not look
)

// Check is one invariant with its evidence.
type Check struct {
	ID       string  `json:"id"` // stable, e.g. "fence.source"
	State    State   `json:"state"`
	Object   string  `json:"object"`
	Evidence string  `json:"evidence"`
	Fix      *string `json:"fix"` // what to run or to do, or null
}

// Config is what an examination needs. Sessions are the caller's.
type Config struct {
	Spec      *migrate.Spec
	Source    *pgx.Conn
	Databases map[string]*pgx.Conn // those that answer
	Silent    map[string]error     // those that do not
	Routers   []topology.Router
	RouterErr error // why there are none
}

// Exam is what was looked at, and what was found.
type Exam struct {
	Checks []Check

	cfg       Config
	migration *store.Migration // nil: the source has no state of it
	layout    *layout.Layout   // nil: the tables are not as the spec says
	owners    []store.Ownership
	copies    map[string]store.Copy // by database, of those that have any
	newest    map[string]store.Ownership
}

// check is one thing to look at.
type check struct {
	id     string
	object string
	run    func(context.Context, *Exam) error
}

// Examine runs every check that applies. An error means that the state itself could
// not be read.
func Examine(ctx context.Context, cfg Config) (*Exam, error) {
	e := &Exam{Checks: []Check{}, cfg: cfg, copies: map[string]store.Copy{}, newest: map[string]store.Ownership{}}
	e.servers(ctx)
	if err := e.load(ctx); err != nil {
		return e, err
	}
	if e.migration == nil {
		e.withoutState()
		return e, nil
	}
	for _, c := range []check{
		{"owner", "", owners}, {"phase", "source", phase}, {"lease", "source", leases}, {"layout", "source", tables},
	} {
		e.look(ctx, c)
	}
	if e.layout == nil {
		return e, nil
	}
	for _, c := range []check{
		{"columns", "", columns}, {"capture", "", capture}, {"fence.source", "source", sourceFences}, {"fence.database", "", databaseFences},
		{"position", "", positions}, {"log", "", logs}, {"quarantine", "", quarantine}, {"ledger", "", ledgers}, {"sequence", "", sequences},
		{"registry", "", registry}, {"verify", "source", verification}, {"router", "", routers},
	} {
		e.look(ctx, c)
	}
	return e, nil
}

// look runs a check; one that fails could not look.
func (e *Exam) look(ctx context.Context, c check) {
	if err := c.run(ctx, e); err != nil {
		e.add(NotRun, c.id, c.object, "", "%v", err)
	}
}

// load reads the state: of the databases first.
func (e *Exam) load(ctx context.Context) error {
	for name, conn := range e.cfg.Databases {
		c, err := store.LoadCopy(ctx, conn, e.cfg.Spec.Migration)
		if err == nil {
			e.copies[name] = c
		} else if !isNotFound(err) {
			e.add(NotRun, "owner", name, "", "%v", err)
		}
	}
	for _, o := range store.Newest(e.copies) {
		e.newest[o.Database] = o
	}
	m, err := store.LoadMigration(ctx, e.cfg.Source, e.cfg.Spec.Migration)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e.migration = m
	e.owners, err = store.LoadOwnership(ctx, e.cfg.Source, m.Name)
	return err
}

// withoutState says what it means that the source knows nothing of the migration.
func (e *Exam) withoutState() {
	for _, d := range e.cfg.Spec.Databases {
		if c, there := e.copies[d.Name]; there {
			e.add(Broken, "owner", d.Name, "keep the application off the source until a person has looked; if the source is lost for good: shardctl complete --source-lost",
				"the source has no state of the migration, but this database knows epoch %d, owner %s: the source went back in time", c.Control.Epoch, c.Control.Owner)
		}
	}
	if len(e.copies) == 0 {
		e.add(OK, "phase", "source", "", "nothing was prepared yet")
	}
}

func (e *Exam) add(s State, id, object, fix, format string, args ...any) {
	c := Check{ID: id, State: s, Object: object, Evidence: fmt.Sprintf(format, args...)}
	if fix != "" {
		c.Fix = &fix
	}
	e.Checks = append(e.Checks, c)
}

// Count tells how many checks are in a state.
func (e *Exam) Count(s State) (n int) {
	for _, c := range e.Checks {
		if c.State == s {
			n++
		}
	}
	return n
}

// Of gives the checks of an id that are in a state.
func (e *Exam) Of(id string, s State) (out []Check) {
	for _, c := range e.Checks {
		if c.ID == id && c.State == s {
			out = append(out, c)
		}
	}
	return out
}

func (e *Exam) name() string { return e.cfg.Spec.Migration }

// in reports whether the migration is in one of some phases.
func (e *Exam) in(phases ...migrate.Phase) bool {
	return e.migration != nil && slices.Contains(phases, e.migration.Phase)
}

// capturing are the phases in which the source's log stands and is read.
func (e *Exam) capturing() bool {
	return e.in(migrate.Installed, migrate.Backfilling, migrate.Backfilled, migrate.PartlyCutOver, migrate.CutOver, migrate.RolledBack) ||
		e.in(migrate.Completed) && e.follows()
}

// follows reports whether everywhere tables go on following the source after complete.
func (e *Exam) follows() bool {
	return e.cfg.Spec.Complete.EverywhereOwner == store.OwnerSource &&
		slices.ContainsFunc(e.cfg.Spec.Tables, func(t migrate.Table) bool { return t.Everywhere })
}

// owner of a database's shards, by the source.
func (e *Exam) owner(database string) string {
	for _, o := range e.owners {
		if o.Database == database {
			return o.Owner
		}
	}
	return store.OwnerSource
}

// each runs fn for every database that answers, in the spec's order.
func (e *Exam) each(fn func(name string, conn *pgx.Conn) error) error {
	for _, d := range e.cfg.Spec.Databases {
		if conn := e.cfg.Databases[d.Name]; conn != nil {
			if err := fn(d.Name, conn); err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
		}
	}
	return nil
}

// servers: each database answers, and is the one that was prepared.
func (e *Exam) servers(ctx context.Context) {
	for _, d := range e.cfg.Spec.Databases {
		if err := e.cfg.Silent[d.Name]; err != nil {
			e.add(NotRun, "server", d.Name, "bring it up, then run shardctl doctor again", "%v", err)
		}
	}
	err := e.each(func(name string, conn *pgx.Conn) error { return e.server(ctx, name, conn) })
	if err != nil {
		e.add(NotRun, "server", "", "", "%v", err)
	}
}

func (e *Exam) server(ctx context.Context, name string, conn *pgx.Conn) error {
	id, err := postgres.ReadIdentity(ctx, conn)
	if err != nil {
		return err
	}
	there, err := store.Exists(ctx, e.cfg.Source)
	if err != nil || !there {
		return err
	}
	noted, err := store.Members(ctx, e.cfg.Source, e.name())
	if err != nil {
		return err
	}
	if err := store.CheckMember(noted, name, id); err != nil {
		e.add(Broken, "server", name, "check its DSN in the spec", "system identifier %s, database %s: not the one that was prepared", id.SystemIdentifier, id.Database)
		return nil
	}
	e.add(OK, "server", name, "", "answers; system identifier %s, timeline %d", id.SystemIdentifier, id.Timeline)
	return nil
}
