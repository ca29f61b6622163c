package cutover

import (
	"context"

	"github.com/shardctl/shardctl/migrate"
)

// Settled refuses what would make the last switch impossible to finish: a database
// that is not what the source says, or a router that does not lead there. It releases
// routers that a switch left held which was killed together with its watchdog.
func Settled(ctx context.Context, cfg Config, last Direction) error {
	w, err := openWindow(ctx, cfg, last, &Report{})
	defer w.close(ctx)
	if err != nil {
		return err
	}
	s, err := w.observe(ctx)
	if err != nil {
		return err
	}
	if !w.ended(ctx, s) {
		return migrate.Refuse("switch.unfinished", "migration "+cfg.migration(), "the last "+string(last)+" was committed, but not carried out everywhere",
			"run shardctl "+string(last)+" again: it goes on from there")
	}
	return w.rec.always(ctx, "resume", w.resume)
}

// ended reports whether nothing is left to do of the last switch, but a release.
func (w *window) ended(ctx context.Context, s standing) bool {
	return s.settled() && (s.epoch == firstEpoch || w.leads(ctx, s.owners))
}
