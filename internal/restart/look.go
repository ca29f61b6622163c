package restart

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

// Subject is a database that may be started anew.
type Subject struct {
	Name string
	Gap  string // why its copy cannot be gone on with; "" where it can

	term int64 // of its control row
}

// Look judges databases, given with sessions to them: one that owns its shards, that is
// not the one that was prepared, or that knows more than the source, is refused.
func Look(ctx context.Context, source *pgx.Conn, databases map[string]*pgx.Conn, l *layout.Layout, names []string) ([]Subject, error) {
	members, err := store.Members(ctx, source, l.Spec.Migration)
	if err != nil {
		return nil, err
	}
	owners, err := store.LoadOwnership(ctx, source, l.Spec.Migration)
	if err != nil {
		return nil, err
	}
	var out []Subject
	for _, name := range names {
		conn := databases[name]
		id, err := postgres.ReadIdentity(ctx, conn)
		if err != nil {
			return nil, err
		}
		if err := store.CheckMember(members, name, id); err != nil {
			return nil, err
		}
		s, err := look(ctx, source, conn, l, name, owners)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func look(ctx context.Context, source, conn *pgx.Conn, l *layout.Layout, name string, owners []store.Ownership) (Subject, error) {
	s := Subject{Name: name}
	control, err := store.LoadControl(ctx, conn, l.Spec.Migration)
	if err != nil {
		return s, fmt.Errorf("database %s: %w", name, err)
	}
	s.term = control.Term
	if control.Owner != store.OwnerSource {
		return s, ownedFailure(name)
	}
	for _, o := range owners {
		switch {
		case o.Database != name:
		case o.Owner != store.OwnerSource:
			return s, ownedFailure(name)
		case control.Epoch > o.Epoch:
			return s, store.SourceBehind(control.Epoch, o.Epoch)
		}
	}
	_, err = auditlog.Reaches(ctx, source, conn, l.Spec.Migration, name, store.Forward)
	if auditlog.IsGap(err) {
		s.Gap = err.Error()
		var f *migrate.Failure
		if errors.As(err, &f) {
			s.Gap = f.Message
		}
		return s, nil
	}
	return s, err
}

func ownedFailure(name string) error {
	return migrate.Refuse("restart.owned", name, "it owns its shards: a gap never touches their rows",
		"while it owns them a gap only ends the way back, or the following of everywhere tables; roll it back first if its copy is to start over: shardctl rollback --database "+name)
}
