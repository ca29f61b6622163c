package cutover

import (
	"context"
	_ "embed" // the query
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/migrate"
)

//go:embed heldup.sql
var heldUpSQL string

// A drain before the window has time, but not for a lock that somebody keeps: it was not
// there yet when the gates looked for such.
const (
	heldUpLook  = time.Second
	heldUpAfter = 2 * time.Second
)

// unlessHeldUp runs a drain, and ends it once somebody has held it up for long: that is a
// refusal that names them.
func (w *window) unlessHeldUp(ctx context.Context, drain func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{}) // closed by the watcher
	go func() {
		defer close(watched)
		for sleep.For(ctx, heldUpLook) == nil {
			if err := w.heldUp(ctx); err != nil {
				stop(err)
			}
		}
	}()
	err := drain(ctx)
	stop(nil)
	<-watched
	var held *migrate.Failure
	if err != nil && errors.As(context.Cause(ctx), &held) {
		return held
	}
	return err
}

// heldUp looks once at every side. A look that fails says nothing, and it outlives the
// drain: the sessions are needed afterwards.
func (w *window) heldUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), heldUpAfter)
	defer cancel()
	look := func(ctx context.Context, place string, q postgres.Querier) error {
		found, err := texts(ctx, q, "look for who holds us up", heldUpSQL, heldUpAfter)
		if err != nil || len(found) == 0 {
			return nil
		}
		return migrate.Refuse(string(w.command)+".blocked", place, "the applier is held up by "+strings.Join(found, "; "), endThem)
	}
	return errors.Join(look(ctx, "source", w.side), w.each(ctx, func(ctx context.Context, name string, conn *pgx.Conn) error {
		return look(ctx, name, conn)
	}))
}
