package pgbouncer

import (
	"context"
	"strconv"
	"sync"

	"github.com/shardctl/shardctl/internal/topology"
)

// Busy lists the servers' sessions that transactions of clients keep from being held, as
// every instance shows them now.
func (r *Router) Busy(ctx context.Context, scope topology.Scope) ([]topology.Session, error) {
	wanted := map[string]entry{}
	for _, e := range r.within(scope) {
		wanted[e.name] = e
	}
	var mu sync.Mutex
	var all []topology.Session
	err := r.each(func(i *instance) error {
		a, _, err := i.ask(ctx, "SHOW SERVERS")
		mu.Lock()
		defer mu.Unlock()
		for _, row := range a.rows {
			e, ours := wanted[a.column(row, "database")]
			pid, _ := strconv.ParseUint(a.column(row, "remote_pid"), 10, 32)
			if ours && pid != 0 && a.column(row, "state") == "active" {
				all = append(all, topology.Session{Router: "pgbouncer " + i.name, Entry: e.name, Shard: e.shard, To: e.to, PID: uint32(pid)})
			}
		}
		return err
	})
	return all, err
}
