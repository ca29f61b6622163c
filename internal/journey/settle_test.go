package journey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/binary"
)

// settle finds out what became of a request whose answer was lost, once the servers are
// back: all of it happened, or nothing. Anything else is a failure.
func (x *writer) settle(ctx context.Context, r *request, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, binary.Patience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := x.settleOnce(ctx, r)
		var wrong unsettled
		if err == nil || errors.As(err, &wrong) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("settle %s after %w: %w", r.kind, cause, err)
		case <-poll.C:
		}
	}
}

// unsettled is a request that half happened.
type unsettled struct{ error }

func (x *writer) settleOnce(ctx context.Context, r *request) error {
	conn, err := x.connection(ctx, r.entry)
	if err != nil {
		return err
	}
	if r.plan != nil {
		return x.settlePlan(ctx, conn, r.plan)
	}
	found := map[string]*block{}
	for _, id := range r.blocks {
		if found[id], err = x.readBlock(ctx, conn, id); err != nil {
			return err
		}
	}
	unchanged, happened := true, false
	for id, b := range found {
		before := x.blockOf(id)
		unchanged = unchanged && b.text() == before.text()
		happened = happened || b.holds(x.token()) || b == nil && before != nil && slices.Contains(r.gone, id)
	}
	if !unchanged && (!happened || r.note == nil) {
		return unsettled{fmt.Errorf("%s %s: the rows are neither as before nor as written", r.kind, x.token())}
	}
	if !unchanged {
		for id, b := range found {
			x.adopt(id, b)
		}
	}
	return nil
}

// blockOf finds a block of the book; nil if there is none of that id.
func (x *writer) blockOf(id string) *block {
	i := slices.IndexFunc(x.blocks, func(b *block) bool { return b.id == id })
	if i < 0 {
		return nil
	}
	return x.blocks[i]
}

// readBlock reads a block and the comments on it; nil if it is not there.
func (x *writer) readBlock(ctx context.Context, conn *pgx.Conn, id string) (b *block, err error) {
	err = read(ctx, conn, "SELECT b.workspace_id, "+blockText+" FROM block b WHERE b.id = '"+id+"'", func(v []string) error {
		b = &block{id: id, workspace: v[0], state: v[1]}
		return nil
	})
	if err != nil || b == nil {
		return nil, err
	}
	err = read(ctx, conn, "SELECT c.id, "+commentText+" FROM comment c WHERE c.block_id = '"+id+"' ORDER BY c.id", func(v []string) error {
		n, err := strconv.ParseInt(v[0], 10, 64)
		b.comments = append(b.comments, &comment{id: n, state: v[1], on: b})
		return err
	})
	return b, err
}

// text is all that a block and its comments hold.
func (b *block) text() string {
	if b == nil {
		return ""
	}
	states := []string{b.state}
	for _, c := range b.comments {
		states = append(states, c.state)
	}
	slices.Sort(states[1:])
	return strings.Join(states, "\n")
}

// holds reports whether a request wrote into a block or a comment on it.
func (b *block) holds(token string) bool {
	text := b.text()
	return strings.Contains(text, `""`+token+`""`) || strings.Contains(text, ","+token+",")
}

// adopt puts what was read in the place of what the book has.
func (x *writer) adopt(id string, b *block) {
	if old := x.blockOf(id); old != nil {
		x.dropBlock(old)
	}
	if b == nil {
		return
	}
	comments := b.comments
	b.comments = nil
	x.addBlock(b)
	for _, c := range comments {
		x.addComment(c)
	}
}

// settlePlan reads the row that a request touched: its only write says so in the name.
func (x *writer) settlePlan(ctx context.Context, conn *pgx.Conn, p *plan) error {
	var found *plan
	sql := fmt.Sprintf("SELECT p.id, p.name, %s FROM plan p WHERE p.id = %d OR p.name LIKE '%% %s'", planText, p.id, x.token())
	err := read(ctx, conn, sql, func(v []string) error {
		id, err := strconv.ParseInt(v[0], 10, 64)
		if v[2] != p.state && !strings.HasSuffix(v[1], " "+x.token()) {
			return unsettled{fmt.Errorf("plan %s is %s, neither as before nor as written", v[0], v[2])}
		}
		found = &plan{id: id, state: v[2], kept: p.kept}
		return err
	})
	if err != nil {
		return err
	}
	x.plans = slices.DeleteFunc(x.plans, func(q *plan) bool { return q == p })
	if found != nil {
		x.plans = append(x.plans, found)
	} else if p.kept {
		return unsettled{fmt.Errorf("plan %d is gone, and nobody deleted it", p.id)}
	}
	return nil
}
