package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// console is one connection to PgBouncer's admin console. It speaks the wire protocol
// itself: commands are pipelined, and an end of the context never sends a cancel
// request, which the console takes for RESUME. PgBouncer runs the commands of one
// connection in their order, even while an earlier PAUSE still waits: a RESUME that
// follows it here cannot overtake it, as one on another connection could.
type console struct {
	conn     net.Conn
	frontend *pgproto3.Frontend
	broken   atomic.Bool // answers and commands may no longer match: only to be closed
	unread   []string    // commands that were written and perhaps not yet read by the pooler
}

// answer is what one command was answered: rows, or an error.
type answer struct {
	columns []string
	rows    [][]string // NULL is ""
	err     *pgconn.PgError
}

// connectConsole opens a console session under a name that SHOW CLIENTS shows.
func connectConsole(ctx context.Context, cfg *pgconn.Config, name string) (*console, error) {
	cfg = cfg.Copy()
	cfg.Database = "pgbouncer"
	cfg.RuntimeParams = map[string]string{"application_name": name} // PgBouncer refuses what it does not know
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	raw, err := conn.Hijack()
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &console{conn: raw.Conn, frontend: raw.Frontend}, nil
}

// usable reports whether the console can be asked.
func (c *console) usable() bool { return c != nil && !c.broken.Load() }

// close drops the connection. It may be called while another goroutine reads.
func (c *console) close() {
	if c != nil {
		c.broken.Store(true)
		_ = c.conn.Close() // nothing is owed to the console
	}
}

// batchBytes bounds what is written at once: one packet, well inside the console's
// buffer. A command that comes in two parts is "incomplete pkt" to it, and the end.
const batchBytes = 1200

// batch is how many of the commands are written at once.
func batch(commands []string) int {
	const overhead = 6 // of a message
	size := len("SHOW DATABASES") + overhead
	for n, command := range commands {
		if size += len(command) + overhead; size > batchBytes && n > 0 {
			return n
		}
	}
	return len(commands)
}

// askThen runs commands whose answers may come late or, for a PAUSE that another one
// was answered for, not at all, and then a SHOW command. It gives the answer of that,
// and the errors of the commands before it.
func (c *console) askThen(ctx context.Context, show string, commands ...string) (answer, []*pgconn.PgError, error) {
	defer c.bound(ctx)()
	var refused []*pgconn.PgError
	for {
		n, last := batch(commands), "SHOW VERSION"
		if n == len(commands) {
			last = show
		}
		c.unread, commands = commands[:n:n], commands[n:]
		c.queue(append(c.unread, last)...)
		a, err := c.untilShow(ctx, &refused)
		if err != nil || len(commands) == 0 {
			return a, refused, err
		}
	}
}

// untilShow writes what was queued and reads up to the answer of a SHOW command.
func (c *console) untilShow(ctx context.Context, refused *[]*pgconn.PgError) (answer, error) {
	if err := c.frontend.Flush(); err != nil {
		return answer{}, c.failed(ctx, err)
	}
	for {
		a, tag, err := c.next(ctx)
		switch {
		case err != nil:
			return answer{}, err
		case a.err != nil:
			*refused = append(*refused, a.err)
		case tag == "SHOW":
			c.unread = nil
			return a, nil
		}
	}
}

// queue puts commands into the buffer that Flush writes.
func (c *console) queue(commands ...string) {
	for _, command := range commands {
		c.frontend.SendQuery(&pgproto3.Query{String: command})
	}
}

// next reads the answer of one command.
func (c *console) next(ctx context.Context) (a answer, tag string, err error) {
	for {
		message, err := c.frontend.Receive()
		if err != nil {
			return answer{}, "", c.failed(ctx, err)
		}
		switch m := message.(type) {
		case *pgproto3.RowDescription:
			for _, f := range m.Fields {
				a.columns = append(a.columns, string(f.Name))
			}
		case *pgproto3.DataRow:
			row := make([]string, len(m.Values))
			for i, v := range m.Values {
				row[i] = string(v)
			}
			a.rows = append(a.rows, row)
		case *pgproto3.CommandComplete:
			tag = string(m.CommandTag)
		case *pgproto3.ErrorResponse:
			a.err = pgconn.ErrorResponseToPgError(m)
			if a.err.Severity == "FATAL" {
				return answer{}, "", a.err
			}
		case *pgproto3.ReadyForQuery:
			return a, tag, nil
		}
	}
}

// bound makes reads and writes end with the context. The function that it returns
// takes the bound off.
func (c *console) bound(ctx context.Context) (unbound func()) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if !stop() {
			c.broken.Store(true) // perhaps cut off in the middle of an answer
		}
	}
}

// failed puts the context's end in the place of the time-out that it caused.
func (c *console) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	c.broken.Store(true)
	if ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
	return fmt.Errorf("the console's connection broke: %w", err)
}

// takeBack writes the opposite of every PAUSE that the pooler has perhaps not read yet,
// and then more. It reports whether there was any. The connection has to stay open until
// drain: closed, it would answer the pooler's first answer with a reset, and what comes
// after that would be lost.
func (c *console) takeBack(more ...string) bool {
	var commands []string
	for _, command := range c.unread {
		if rest, ok := strings.CutPrefix(command, "PAUSE"); ok {
			commands = append(commands, "RESUME"+rest)
		}
	}
	if len(commands) == 0 {
		return false
	}
	_ = c.conn.SetDeadline(time.Now().Add(time.Second))
	c.queue(append(append(commands, more...), "SHOW LISTS")...) // asked for nowhere else on this connection
	_ = c.frontend.Flush()                                      // the caller makes sure on another connection
	return true
}

// drain waits a moment for the answers to what takeBack wrote, and closes.
func (c *console) drain(ctx context.Context) {
	_ = c.conn.SetDeadline(time.Time{})
	defer c.close()
	defer c.bound(ctx)()
	for {
		a, tag, err := c.next(ctx)
		if err != nil || tag == "SHOW" && len(a.columns) > 0 && a.columns[0] == "list" {
			return
		}
	}
}

// column gives a row's value by name; "" for a column that this version lacks.
func (a answer) column(row []string, name string) string {
	for i, c := range a.columns {
		if c == name && i < len(row) {
			return row[i]
		}
	}
	return ""
}
