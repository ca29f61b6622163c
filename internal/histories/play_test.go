package histories

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// player plays one history on a world.
type player struct {
	*world
	copies *copies
	owners []*session // of the databases, once they own the rows
	unique bool       // the databases have the uniques that follow the copy
}

// play plays the steps of a history, and gives what was wrong at the end.
func (w *world) play(ctx context.Context, h history) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	p := &player{world: w, copies: &copies{w: w, h: h}}
	at := "before its first step"
	defer func() { p.leave(context.WithoutCancel(ctx)) }()
	defer func() {
		if r := recover(); r != nil {
			f, ours := r.(failure)
			if !ours {
				panic(r)
			}
			err = fmt.Errorf("%s: %w", at, f.error)
		}
	}()
	w.reset(ctx, h.load)
	w.catchup.start(ctx, h.batch)
	for i, st := range h.steps {
		at = st.String()
		p.step(ctx, st, i)
	}
	at = "at the end"
	if p.owners != nil {
		p.settleBack(ctx)
	} else {
		p.settle(ctx, false)
	}
	return nil
}

func (w *world) newSession(ctx context.Context, server int, name string) *session {
	conn, err := pgx.Connect(ctx, w.servers[server].DSN())
	check(err)
	return &session{w: w, name: name, conn: conn}
}

// step makes one step: those of the source's writers and of the copy while the source
// owns the rows, those of the databases' while they do.
func (p *player) step(ctx context.Context, st step, n int) {
	moved := p.owners != nil
	_, onDatabase := backWrites[st.kind]
	switch {
	case tending[st.kind] > 0:
		p.catchup.play(ctx, st)
	case st.kind == giveBack && moved:
		p.settleBack(ctx)
		p.disown(ctx)
	case onDatabase && moved:
		p.writeBack(ctx, st, n)
	case (st.kind == back || st.kind == crashBack) && moved:
		p.catchup.play(ctx, st)
	case st.kind == "plan" && moved: // everywhere tables stay the source's
		p.sessions[st.who].play(ctx, st, n)
	case moved || onDatabase || st.kind == giveBack || st.kind == back || st.kind == crashBack:
	case st.kind == switchOver:
		p.settle(ctx, true)
		p.own(ctx)
	case st.kind == startCopy || copySteps[st.kind] > 0:
		if !p.unique {
			p.copies.play(ctx, st)
		}
	default:
		p.sessions[st.who].play(ctx, st, n)
	}
}

// settle ends everything forward and judges it.
func (p *player) settle(ctx context.Context, tidy bool) {
	if p.copies.now != nil {
		p.copies.now.release()
	}
	for _, o := range p.copies.old {
		o.release()
	}
	endAll(ctx, p.sessions)
	p.mend(ctx, tidy)
	if !p.unique {
		p.copies.finish(ctx, func() { p.mend(ctx, tidy) })
	}
	p.catchup.drain(ctx, false)
	p.makeUnique(ctx)
	p.judge(ctx)
}

// mend removes the rows without a key where the spec refuses them, and before the
// databases take over, which keep only what has a place.
func (p *player) mend(ctx context.Context, tidy bool) {
	if !tidy && p.shape.stray.Policy != "refuse" {
		return
	}
	_, err := p.conns[0].Exec(ctx, "DELETE FROM public.block WHERE ws IS NULL; DELETE FROM public.comment c WHERE NOT EXISTS (SELECT FROM public.block WHERE id = c.block_id); DELETE FROM public.reply r WHERE NOT EXISTS (SELECT FROM public.comment WHERE id = r.comment_id)")
	check(err)
}

// makeUnique makes on the databases what follows the copy.
func (p *player) makeUnique(ctx context.Context) {
	if p.unique {
		return
	}
	for i, place := range p.places {
		_, err := p.conns[place.db].Exec(ctx, fmt.Sprintf("CREATE UNIQUE INDEX history_%d ON %q.block (slug)", i, place.schema))
		check(err)
	}
	for i := range p.spec.Databases {
		_, err := p.conns[i+1].Exec(ctx, fmt.Sprintf("CREATE UNIQUE INDEX history_plan ON %q.plan (name)", p.layout.Locations(p.layout.Tables[3], p.spec.Databases[i].Name)[0].Schema))
		check(err)
	}
	p.unique = true
}

// leave ends what a history has left, also one that failed.
func (p *player) leave(ctx context.Context) {
	p.copies.abandon()
	for _, s := range p.owners {
		s.close(ctx)
	}
}

// leave ends all sessions.
func (w *world) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.catchup.stop(ctx)
	for _, s := range w.sessions {
		s.close(ctx)
		if s.prepared != "" {
			_, _ = w.conns[0].Exec(ctx, "ROLLBACK PREPARED '"+s.prepared+"'") // it may have failed to be prepared
		}
	}
}
