package auditlog

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	feedBlock = 64 << 10
	feedDepth = 4 // blocks waiting: what a slow database may lag behind the stream
)

// errStalled says that a database took no data for longer than a shared tick
// waits for it.
var errStalled = errors.New("the database does not take its rows in time")

// feed carries one COPY stream to one database. The writer is the stream of the
// source, which must not stand still for one database.
type feed struct {
	blocks   chan []byte   // closed by the writer
	stopped  chan struct{} // closed by the reader when it has ended
	once     sync.Once
	patience time.Duration
	failed   error  // why the stream is cut short; set before blocks is closed
	fill     []byte // the writer's
	rest     []byte // the reader's
}

func newFeed(patience time.Duration) *feed {
	return &feed{blocks: make(chan []byte, feedDepth), stopped: make(chan struct{}), patience: patience}
}

// Write takes bytes; they are copied.
func (f *feed) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if f.fill == nil {
			f.fill = make([]byte, 0, feedBlock)
		}
		room := min(feedBlock-len(f.fill), len(p))
		f.fill, p = append(f.fill, p[:room]...), p[room:]
		if len(f.fill) == feedBlock {
			if err := f.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (f *feed) flush() error {
	if len(f.fill) == 0 {
		return nil
	}
	block := f.fill
	f.fill = nil
	select {
	case f.blocks <- block:
		return nil
	case <-f.stopped:
		return io.ErrClosedPipe
	default:
	}
	timer := time.NewTimer(f.patience)
	defer timer.Stop()
	select {
	case f.blocks <- block:
		return nil
	case <-f.stopped:
		return io.ErrClosedPipe
	case <-timer.C:
		return errStalled
	}
}

// Close ends the stream after what was written; with a cause, or where that
// cannot be handed over, the COPY fails instead of taking it for the whole.
func (f *feed) Close(cause error) error {
	f.failed = cause
	if cause == nil {
		f.failed = f.flush()
	}
	close(f.blocks)
	return f.failed
}

// Read gives the next bytes to the COPY.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		block, more := <-f.blocks
		if !more && f.failed != nil {
			return 0, f.failed
		}
		if !more {
			return 0, io.EOF
		}
		f.rest = block
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// stop tells the writer that the COPY has ended.
func (f *feed) stop() { f.once.Do(func() { close(f.stopped) }) }
