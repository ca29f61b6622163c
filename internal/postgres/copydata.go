package postgres

import (
	"encoding/binary"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// copyPiece is the largest CopyData message that a session takes in one piece. A
// server sends a row of 100 MB as one message, and the driver would hold all of
// it before it hands on the first byte.
const copyPiece = 64 << 10

// boundedFrontend reads a server's messages with large CopyData cut into pieces,
// which the protocol allows: its boundaries mean nothing.
func boundedFrontend(r io.Reader, w io.Writer) *pgproto3.Frontend {
	return pgproto3.NewFrontend(&copyCutter{r: r}, w)
}

// headerLen is a message's type and length.
const headerLen = 5

// copyCutter follows the messages in a stream of a server and gives every large
// CopyData more headers. All other bytes pass unchanged and mostly uncopied.
type copyCutter struct {
	r     io.Reader
	left  int    // of the current message or piece
	more  int    // of the current CopyData, beyond this piece
	head  []byte // a header that is not complete yet
	ready []byte // to be given out before anything is read
}

// Read implements io.Reader.
func (c *copyCutter) Read(p []byte) (int, error) {
	for {
		if len(c.ready) > 0 {
			n := copy(p, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		}
		if c.left == 0 && c.more > 0 {
			c.piece()
			continue
		}
		if c.more > 0 {
			n, err := c.r.Read(p[:min(len(p), c.left)]) // up to where the next header goes
			c.left -= n
			return n, err
		}
		if len(c.head) > 0 {
			if err := c.completeHead(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := c.r.Read(p)
		if n = c.follow(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// follow walks the messages in bytes that were read, and gives how many of them
// may be handed on at once. The rest is kept.
func (c *copyCutter) follow(b []byte) int {
	at := min(c.left, len(b))
	c.left -= at
	for at < len(b) {
		if len(b)-at < headerLen {
			c.head = append(c.head, b[at:]...)
			return at
		}
		if c.begin(b[at:]); c.more > 0 {
			// The header is given out anew, and what was read beyond it is read again.
			c.r = io.MultiReader(bytesReader(b[at+headerLen:]), c.r)
			c.more += c.left
			c.left = 0
			return at
		}
		skip := min(headerLen+c.left, len(b)-at)
		c.left -= skip - headerLen
		at += skip
	}
	return at
}

// completeHead reads the rest of a header that came in parts.
func (c *copyCutter) completeHead() error {
	var rest [headerLen]byte
	n, err := c.r.Read(rest[:headerLen-len(c.head)])
	c.head = append(c.head, rest[:n]...)
	if len(c.head) < headerLen {
		return err
	}
	c.begin(c.head)
	if c.more > 0 {
		c.more, c.left = c.more+c.left, 0
	} else {
		c.ready = append(c.ready[:0], c.head...)
	}
	c.head = c.head[:0]
	return nil // an error shows again at the next read
}

// begin reads a header: what is left of its message, and whether it is a
// CopyData that needs cutting.
func (c *copyCutter) begin(header []byte) {
	c.left = max(int(binary.BigEndian.Uint32(header[1:]))-4, 0)
	if header[0] == 'd' && c.left > copyPiece {
		c.left, c.more = copyPiece, c.left-copyPiece
	}
}

// piece begins the next piece of a large CopyData with a header of its own.
func (c *copyCutter) piece() {
	c.left = min(c.more, copyPiece)
	c.more -= c.left
	c.ready = binary.BigEndian.AppendUint32(append(c.ready[:0], 'd'), uint32(c.left+4))
}

// bytesReader reads a copy of bytes: theirs is the caller's buffer.
func bytesReader(b []byte) io.Reader { return &once{append([]byte(nil), b...)} }

// once reads its bytes and is then at its end.
type once struct{ rest []byte }

func (o *once) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}
