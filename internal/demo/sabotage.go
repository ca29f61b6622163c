package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The ways to damage one row at the end, to show that the comparison sees it.
const (
	Lose     = "lose"
	Double   = "double"
	Misplace = "misplace"
)

// damage hurts one row behind everybody's back: in replica role no fence or
// trigger but ours fires, and ours are told that it is the applier.
func (w *world) damage(ctx context.Context, how string) error {
	conn, err := session(ctx, w.targets[0].DSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SET session_replication_role = replica; SET shardctl.applier = 'demo'"); err != nil {
		return fmt.Errorf("sabotage: %w", err)
	}
	from, to, err := w.twoShards(ctx, conn)
	if err != nil {
		return err
	}
	const copyOne = "INSERT INTO %[2]s.block (id, workspace_id, body, version) SELECT id, workspace_id, body, version FROM %[1]s.block ORDER BY id LIMIT 1;"
	const deleteOne = "DELETE FROM %[1]s.block WHERE id = (SELECT id FROM %[1]s.block ORDER BY id LIMIT 1);"
	sql := map[string]string{Lose: deleteOne, Double: copyOne, Misplace: copyOne + deleteOne}[how]
	if _, err := conn.Exec(ctx, fmt.Sprintf(sql, from, to)); err != nil {
		return fmt.Errorf("sabotage: %w", err)
	}
	return nil
}

// twoShards finds a shard with a block, and another one.
func (w *world) twoShards(ctx context.Context, conn *pgx.Conn) (from, to string, err error) {
	half := w.shards / databases
	for i := range half {
		from, to = fmt.Sprintf("shard_%03d", i), fmt.Sprintf("shard_%03d", (i+1)%half)
		var there bool
		if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.block)", from)).Scan(&there); err != nil {
			return "", "", fmt.Errorf("sabotage: %w", err)
		}
		if there {
			return from, to, nil
		}
	}
	return "", "", fmt.Errorf("sabotage: the first database holds no block")
}
