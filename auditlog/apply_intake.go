package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/internal/rowstream"
)

// intake is what one side takes of one tick: it stages rows in the tick's
// transaction, and they are applied when all are there.
type intake struct {
	session  *link // of the applier, on the side that is written
	locs     int   // how many locations there are
	patience time.Duration
	cancel   context.CancelFunc // ends a COPY that hangs, and the session with it
	ctx      context.Context    // of the COPYs; ends with the tick

	tx     pgx.Tx // begun with the first row, or to apply
	staged []*staged
	feed   *feed
	writer *rowstream.Writer
	copied chan error
	err    error // why this side is out of the tick
}

// staged is what a tick holds of one table for one side.
type staged struct {
	stage   *stage
	upserts []bool // by location: rows are to be written there
	deletes []bool // by location: keys are to be deleted there
	sweep   bool   // keys are to be deleted wherever they may be
	refused bool   // rows without a key
	twice   bool   // a row may be there more than once
	wipe    *wipe  // what truncates emptied; nil is nothing
	singly  bool   // the wipe is staged key by key
	stays   bool   // no stored row may be deleted to be inserted again
}

func newIntake(ctx context.Context, session *link, locations int, patience time.Duration) *intake {
	in := &intake{session: session, locs: locations, patience: patience}
	in.ctx, in.cancel = context.WithCancel(ctx)
	return in
}

// begin starts the tick's transaction.
func (in *intake) begin(ctx context.Context) error {
	if in.tx != nil {
		return nil
	}
	conn, err := in.session.get(ctx)
	if err != nil {
		return err
	}
	if in.tx, err = conn.Begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	return nil
}

// of gives what is staged of a table.
func (in *intake) of(s *stage) *staged {
	for _, st := range in.staged {
		if st.stage == s {
			return st
		}
	}
	st := &staged{stage: s, upserts: make([]bool, in.locs), deletes: make([]bool, in.locs)}
	in.staged = append(in.staged, st)
	return st
}

// put stages one row as it came. A failure puts this side out of the tick and is
// not the stream's.
func (in *intake) put(s *stage, t rowstream.Tuple) {
	if in.err != nil {
		return
	}
	if in.feed == nil {
		in.open(s)
	}
	if err := in.writer.WriteTuple(t, 0); err != nil {
		in.end(err)
	}
}

// open begins to stage a table's rows.
func (in *intake) open(s *stage) {
	in.feed, in.copied = newFeed(in.patience), make(chan error, 1)
	in.writer = rowstream.NewWriter(in.feed, s.format)
	go func(feed *feed, done chan<- error) {
		defer feed.stop()
		if err := in.begin(in.ctx); err != nil {
			done <- err
			return
		}
		if in.tx.Conn() != s.conn {
			done <- fmt.Errorf("stage rows of %s: the session with the staging table was lost: %w", s.table.Name(), io.ErrUnexpectedEOF)
			return
		}
		_, err := in.tx.Conn().PgConn().CopyFrom(in.ctx, feed, s.copySQL())
		done <- err
	}(in.feed, in.copied)
}

// endTable ends the staging of one table.
func (in *intake) endTable() {
	if in.feed != nil {
		in.end(in.writer.Close())
	}
}

// end ends the COPY under way and waits for it; the server's error says more
// than that of a pipe whose reader has ended.
func (in *intake) end(cause error) {
	err := in.feed.Close(cause)
	if errors.Is(err, errStalled) {
		in.cancel()
	}
	timer := time.NewTimer(in.patience)
	defer timer.Stop()
	var copyErr error
	select {
	case copyErr = <-in.copied:
	case <-timer.C:
		in.cancel()
		err = errStalled
		<-in.copied
	}
	in.feed = nil
	if copyErr != nil && !errors.Is(err, errStalled) {
		err = copyErr
	}
	if err != nil && in.err == nil {
		in.err = err
	}
}

// abandon rolls back what is not committed, and ends the COPY under way.
func (in *intake) abandon(ctx context.Context) {
	if in.feed != nil {
		in.end(context.Canceled)
	}
	in.cancel()
	if in.tx == nil {
		return
	}
	ctx, done := postgres.Cleanup(ctx)
	defer done()
	if err := in.tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		in.session.close(ctx) // the server rolls back when the session is gone
	}
}
