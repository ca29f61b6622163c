package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// failOverLate cuts over, and then fails the source over to the standby, which knows nothing
// of the cutover. The databases own their shards and go on to serve: nothing that was
// acknowledged is lost, nothing of the old source is applied to them, and doctor raises
// the fences that are down.
func (g *game) failOverLate(ctx context.Context) error {
	if err := g.run(ctx, "verify"); err != nil {
		return err
	}
	if err := g.turn(ctx, over, "cutover"); err != nil {
		return err
	}
	if err := g.writes(ctx, stageWrites); err != nil {
		return err
	}
	at, err := g.promote(ctx)
	if err != nil {
		return err
	}
	g.source.proxy.lead(fmt.Sprintf("127.0.0.1:%d", g.pair.standby.Port()))
	g.touch()
	if err := g.patiently(ctx, func() error {
		if r := g.catchup.result(); !strings.Contains(r.Stdout, `"code":"epoch.source_behind"`) {
			return fmt.Errorf("catchup did not say that the source went back in time: %s", r)
		}
		return nil
	}); err != nil {
		return err
	}
	g.catchup.hold()
	res, err := g.once(ctx, "status")
	if err != nil {
		return err
	}
	if !strings.Contains(res.Stdout, "went back in time") {
		return fmt.Errorf("status does not say that the source went back in time: %s", res)
	}
	g.record.hit(fault{failover, served}, at)
	for _, command := range []string{"cutover", "rollback", "complete", "abort"} {
		if res, err := g.once(ctx, command, "--yes"); err != nil {
			return err
		} else if res.Code == 0 {
			return fmt.Errorf("%s by a source that went back in time: %s", command, res)
		}
	}
	if err := g.writes(ctx, stageWrites); err != nil {
		return err
	}
	if err := g.raised(ctx); err != nil {
		return err
	}
	return g.serves(ctx, g.databaseRows)
}

// raised lets doctor raise the fences, after which the old source refuses writes.
func (g *game) raised(ctx context.Context) error {
	if res, err := g.once(ctx, "doctor", "--repair", "--yes"); err != nil {
		return err
	} else if res.Code == 0 {
		return fmt.Errorf("doctor --repair finds nothing wrong with a source that went back in time: %s", res)
	}
	err := execSQL(ctx, g.pair.standby.DSN(g.name), "UPDATE public.block SET version = version WHERE id = (SELECT id FROM public.block LIMIT 1)")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !strings.Contains(pg.Message, "chaos") {
		return fmt.Errorf("after doctor --repair the source that went back in time takes writes: %w", err)
	}
	return nil
}
