package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
)

// message frames a body as a server does.
func message(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// chopped reads at most a few bytes at a time, of random number.
type chopped struct {
	r   io.Reader
	rnd *rand.Rand
	max int
}

func (c chopped) Read(p []byte) (int, error) {
	return c.r.Read(p[:min(len(p), 1+c.rnd.IntN(c.max))])
}

func TestLargeCopyDataIsCutAndNothingElseChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 9 {
		var stream, copied, others []byte
		for range 1 + rnd.IntN(20) {
			size := rnd.IntN(300)
			if rnd.IntN(4) == 0 {
				size = copyPiece - 2 + rnd.IntN(5)
			}
			if rnd.IntN(6) == 0 {
				size = rnd.IntN(3 * copyPiece)
			}
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(rnd.Uint32())
			}
			kind := "dDZ"[rnd.IntN(3)]
			stream = append(stream, message(kind, body)...)
			if kind == 'd' {
				copied = append(copied, body...)
			} else {
				others = append(others, message(kind, body)...)
			}
		}
		cutter := &copyCutter{r: chopped{bytes.NewReader(stream), rnd, []int{40, 900, 1 << 20}[round%3]}}
		got, err := io.ReadAll(chopped{cutter, rnd, []int{1 << 20, 50, 5000}[round%3]})
		if err != nil {
			t.Fatal(err)
		}
		var gotCopied, gotOthers []byte
		for len(got) > 0 {
			size := int(binary.BigEndian.Uint32(got[1:])) + 1
			if got[0] == 'd' {
				gotCopied = append(gotCopied, got[headerLen:size]...)
				if size > copyPiece+headerLen {
					t.Fatalf("a CopyData of %d bytes", size)
				}
			} else {
				gotOthers = append(gotOthers, got[:size]...)
			}
			got = got[size:]
		}
		if !bytes.Equal(gotCopied, copied) || !bytes.Equal(gotOthers, others) {
			t.Fatalf("round %d: the stream changed", round)
		}
	}
}
