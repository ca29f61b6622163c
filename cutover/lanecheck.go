package cutover

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/postgres"
)

// LaneFaults words which sequences of a database do not draw from its own lane, and
// tells how many there are. It reads only.
func LaneFaults(ctx context.Context, l *layout.Layout, source, conn postgres.Querier, database string) (faults []string, count int, err error) {
	sequences, err := shardedSequences(ctx, source, l)
	if err != nil {
		return nil, 0, err
	}
	own := laneOf(l.Spec, database)
	for _, s := range sequences {
		theirs := newTables(l).targetSequence(s)
		fault, err := s.laneFault(ctx, conn, postgres.Table(theirs.Schema, theirs.Name), own)
		if err != nil {
			return nil, 0, err
		}
		if fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults, len(sequences), nil
}

func (s sequence) laneFault(ctx context.Context, conn postgres.Querier, name string, own lane) (string, error) {
	var increment, last int64
	err := conn.QueryRow(ctx, "SELECT seqincrement FROM pg_sequence WHERE seqrelid = to_regclass($1)", name).Scan(&increment)
	if errors.Is(err, pgx.ErrNoRows) {
		return name + " is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if increment != s.step(own) {
		return fmt.Sprintf("%s steps by %d, its lane by %d", name, increment, s.step(own)), nil
	}
	if err := conn.QueryRow(ctx, "SELECT last_value FROM "+name).Scan(&last); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if !own.holds(last, s.Increment) {
		return fmt.Sprintf("%s stands at %d, which is in another lane", name, last), nil
	}
	return "", nil
}
