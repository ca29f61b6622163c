package rowstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/shardctl/shardctl/internal/rowstream"
)

// field is one value; nil is NULL.
type field []byte

// encode writes rows as a server would.
func encode(f rowstream.Format, rows [][]field) []byte {
	out := f.Header()
	for _, row := range rows {
		if f == rowstream.Binary {
			out = binary.BigEndian.AppendUint16(out, uint16(len(row)))
		}
		for i, v := range row {
			out = appendField(out, f, i, v)
		}
		if f == rowstream.Text {
			out = append(out, '\n')
		}
	}
	return append(out, f.Trailer()...)
}

var escapes = map[byte]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\v': `\v`, '\\': `\\`}

func appendField(out []byte, f rowstream.Format, i int, v field) []byte {
	if f == rowstream.Binary {
		if v == nil {
			return append(out, 0xff, 0xff, 0xff, 0xff)
		}
		return append(binary.BigEndian.AppendUint32(out, uint32(len(v))), v...)
	}
	if i > 0 {
		out = append(out, '\t')
	}
	if v == nil {
		return append(out, `\N`...)
	}
	for _, c := range v {
		if s, ok := escapes[c]; ok {
			out = append(out, s...)
		} else {
			out = append(out, c)
		}
	}
	return out
}

var sample = [][]field{
	{field("17"), field("a\tb\nc\\d"), nil},
	{nil, field(""), field(`\N`)},
	{field("x"), field(bytes.Repeat([]byte("long\n"), 60_000)), field("end")},
	{field(`\.`), nil, nil},
	{field("é\x00\xff"), field("\b\f\r\v"), field("z")},
}

// texts drops the byte that no text value can hold.
func texts(f rowstream.Format, rows [][]field) [][]field {
	if f == rowstream.Binary {
		return rows
	}
	out := make([][]field, len(rows))
	for i, row := range rows {
		for _, v := range row {
			if v != nil {
				v = bytes.ReplaceAll(v, []byte{0}, nil)
				if v == nil {
					v = field{}
				}
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}

func formats(t *testing.T, test func(t *testing.T, f rowstream.Format)) {
	for _, f := range []rowstream.Format{rowstream.Binary, rowstream.Text} {
		t.Run(f.String(), func(t *testing.T) { test(t, f) })
	}
}

func checkTuple(t *testing.T, got rowstream.Tuple, want []field) {
	t.Helper()
	if got.Len() != len(want) {
		t.Fatalf("%d fields, want %d", got.Len(), len(want))
	}
	for i, w := range want {
		v, null := got.Field(i)
		if null != (w == nil) || !bytes.Equal(v, w) {
			t.Fatalf("field %d is %.40q (null %v), want %.40q", i, v, null, w)
		}
	}
}

func TestReaderGivesEveryTupleHoweverThePiecesFall(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		rows := texts(f, sample)
		stream := encode(f, rows)
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream)),
			"halves": iotest.HalfReader(bytes.NewReader(stream)), "data with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
		} {
			reader := rowstream.NewReader(r, f)
			for _, want := range rows {
				tuple, err := reader.Next()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				checkTuple(t, tuple, want)
			}
			if _, err := reader.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%s: after the last tuple: %v", name, err)
			}
		}
	})
}

func TestSplitterGivesEveryTupleHoweverThePiecesFall(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		rows := texts(f, sample)
		stream := encode(f, rows)
		for _, size := range []int{1, 7, 4096, len(stream)} {
			next := 0
			s := rowstream.NewSplitter(f, func(tuple rowstream.Tuple) error {
				checkTuple(t, tuple, rows[next])
				next++
				return nil
			})
			for at := 0; at < len(stream); at += size {
				if _, err := s.Write(stream[at:min(at+size, len(stream))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil || next != len(rows) {
				t.Fatalf("pieces of %d: %d tuples of %d, %v", size, next, len(rows), err)
			}
		}
	})
}

func TestAStreamCutShortIsNoEnd(t *testing.T) {
	stream := encode(rowstream.Binary, sample[:2])
	for cut := range stream {
		r := rowstream.NewReader(bytes.NewReader(stream[:cut]), rowstream.Binary)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %v", cut, len(stream), err)
		}
		s := rowstream.NewSplitter(rowstream.Binary, func(rowstream.Tuple) error { return nil })
		if _, err := s.Write(stream[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("splitter cut at %d of %d: %v", cut, len(stream), err)
		}
	}
	r := rowstream.NewReader(bytes.NewReader([]byte("a\tb\nc")), rowstream.Text)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("text without its newline: %v", err)
	}
}

func TestMalformedStreamsAreRefused(t *testing.T) {
	header := rowstream.Binary.Header()
	for name, stream := range map[string][]byte{
		"no signature":    []byte("PGCOPX\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"critical flag":   append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 1, 0, 0, 0, 0, 0, 0),
		"negative fields": append(header[:len(header):len(header)], 0xff, 0xfe),
		"negative length": append(header[:len(header):len(header)], 0, 1, 0xff, 0xff, 0xff, 0xfe),
		"huge field":      append(header[:len(header):len(header)], 0, 1, 0x7f, 0xff, 0xff, 0xff),
		"after the end":   append(encode(rowstream.Binary, nil), 1),
	} {
		_, err := rowstream.NewReader(bytes.NewReader(stream), rowstream.Binary).Next()
		if !errors.Is(err, rowstream.ErrMalformed) && name != "after the end" {
			t.Errorf("%s: %v", name, err)
		}
		s := rowstream.NewSplitter(rowstream.Binary, func(rowstream.Tuple) error { return nil })
		if _, err := s.Write(stream); !errors.Is(err, rowstream.ErrMalformed) {
			t.Errorf("splitter, %s: %v", name, err)
		}
		if _, err := s.Write(nil); err == nil {
			t.Errorf("%s: the splitter forgot its error", name)
		}
	}
}

func TestWriterDropsRoutingFields(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		rows := texts(f, sample)
		var dropped, picked bytes.Buffer
		drop, pick := rowstream.NewWriter(&dropped, f), rowstream.NewWriter(&picked, f)
		var wantDropped, wantPicked [][]field
		r := rowstream.NewReader(bytes.NewReader(encode(f, rows)), f)
		for _, row := range rows {
			tuple, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(drop.WriteTuple(tuple, 1), pick.WriteFields(tuple, 2, 0)); err != nil {
				t.Fatal(err)
			}
			if tail := tuple.Clone().Tail(1); !bytes.Equal(tail.Bytes(), tuple.Append(nil, 1)) {
				t.Fatal("a tail differs from the copy of it")
			}
			wantDropped = append(wantDropped, row[1:])
			wantPicked = append(wantPicked, []field{row[2], row[0]})
		}
		if err := errors.Join(drop.Close(), pick.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dropped.Bytes(), encode(f, wantDropped)) || !bytes.Equal(picked.Bytes(), encode(f, wantPicked)) {
			t.Fatal("the written streams differ from what was read")
		}
	})
}

func TestWriterRefusesTheOtherFormat(t *testing.T) {
	tuple, err := rowstream.NewReader(bytes.NewReader([]byte("a\n")), rowstream.Text).Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := rowstream.NewWriter(io.Discard, rowstream.Binary).WriteTuple(tuple, 0); err == nil {
		t.Fatal("a text tuple went into a binary stream")
	}
}

func TestEmptyStreamIsComplete(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		var out bytes.Buffer
		if err := rowstream.NewWriter(&out, f).Close(); err != nil || !bytes.Equal(out.Bytes(), encode(f, nil)) {
			t.Fatalf("%q, %v", out.Bytes(), err)
		}
		if _, err := rowstream.NewReader(&out, f).Next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
}

func TestErrorOfEachEndsTheStream(t *testing.T) {
	stop := errors.New("stop")
	s := rowstream.NewSplitter(rowstream.Text, func(rowstream.Tuple) error { return stop })
	if _, err := s.Write([]byte("a\nb\n")); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, stop) {
		t.Fatal(err)
	}
}

func FuzzReaderAndSplitterAgree(f *testing.F) {
	for _, format := range []rowstream.Format{rowstream.Binary, rowstream.Text} {
		f.Add(int(format), encode(format, texts(format, sample[:2])), 3)
	}
	f.Fuzz(func(t *testing.T, format int, stream []byte, piece int) {
		form := rowstream.Format(format & 1)
		piece = max(piece&0xff, 1)
		var read, split, raw bytes.Buffer
		w := rowstream.NewWriter(&read, form)
		r := rowstream.NewReader(bytes.NewReader(stream), form)
		r.SetLimit(1 << 20)
		var readErr error
		for {
			var tuple rowstream.Tuple
			if tuple, readErr = r.Next(); readErr != nil {
				break
			}
			walk(t, tuple)
			raw.Write(tuple.Append(nil, 0))
			if err := w.WriteTuple(tuple, 0); err != nil {
				t.Fatal(err)
			}
		}
		s := rowstream.NewSplitter(form, func(tuple rowstream.Tuple) error {
			split.Write(tuple.Append(nil, 0))
			return nil
		})
		s.SetLimit(1 << 20)
		var splitErr error
		for at := 0; at < len(stream) && splitErr == nil; at += piece {
			_, splitErr = s.Write(stream[at:min(at+piece, len(stream))])
		}
		if splitErr == nil {
			splitErr = s.Close()
		}
		// The reader stops at the trailer, the splitter sees what follows it.
		if (readErr == io.EOF) != (splitErr == nil) && !(readErr == io.EOF && errors.Is(splitErr, rowstream.ErrMalformed)) {
			t.Fatalf("reader: %v, splitter: %v", readErr, splitErr)
		}
		if !bytes.Equal(raw.Bytes(), split.Bytes()) {
			t.Fatal("reader and splitter gave different tuples")
		}
		if readErr == io.EOF && form == rowstream.Text && !bytes.Contains(stream, []byte("\\.\n")) && !bytes.Equal(read.Bytes(), stream) {
			t.Fatal("what was read and written again differs")
		}
	})
}

// walk reaches for every field: none may lie outside its tuple.
func walk(t *testing.T, tuple rowstream.Tuple) {
	n, sum := tuple.Len(), 0
	for i := range n {
		sum += len(tuple.Span(i))
		if v, null := tuple.Field(i); null && len(v) > 0 {
			t.Fatal("a NULL with a value")
		}
	}
	overhead := 2 // binary: the count
	if tuple.Format() == rowstream.Text {
		overhead = n // a separator or newline each
	}
	if sum+overhead != tuple.Size() {
		t.Fatalf("fields have %d bytes, the tuple %d", sum, tuple.Size())
	}
}

func benchStream(f rowstream.Format) []byte {
	var rows [][]field
	for i := range 1000 {
		rows = append(rows, []field{field(fmt.Sprint(i)), field("0123456789abcdef"), field(bytes.Repeat([]byte("payload "), 25)), nil})
	}
	return encode(f, rows)
}

func TestLeaveIsAskedBeforeATupleGrowsLarge(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		large := field(bytes.Repeat([]byte("x"), 100_000))
		stream := encode(f, [][]field{{field("a")}, {large}, {large}, {field("b")}})
		asked, tuples := 0, 0
		s := rowstream.NewSplitter(f, func(rowstream.Tuple) error { tuples++; return nil })
		s.SetLarge(100_000)
		s.Large = func() error { asked++; return nil }
		for piece := range slices.Chunk(stream, 10_000) {
			if _, err := s.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil || asked != 2 || tuples != 4 {
			t.Fatalf("asked %d times for %d tuples, %v", asked, tuples, err)
		}
		stop := errors.New("stop")
		s = rowstream.NewSplitter(f, func(rowstream.Tuple) error { return nil })
		s.SetLarge(100_000)
		s.Large = func() error { return stop }
		var err error
		for piece := range slices.Chunk(stream, 10_000) {
			if _, err = s.Write(piece); err != nil {
				break
			}
		}
		if !errors.Is(err, stop) || !errors.Is(s.Close(), stop) {
			t.Fatalf("refused leave ended with %v", err)
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	for _, f := range []rowstream.Format{rowstream.Binary, rowstream.Text} {
		b.Run(f.String(), func(b *testing.B) {
			stream := benchStream(f)
			buf := make([]byte, 0, len(stream))
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				buf = buf[:0]
				s := rowstream.NewSplitter(f, func(t rowstream.Tuple) error {
					if v, null := t.Field(0); null || len(v) == 0 {
						b.Fatal("no key")
					}
					buf = t.Append(buf, 1)
					return nil
				})
				if _, err := s.Write(stream); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestNothingIsAllocatedPerTuple(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		stream := benchStream(f)
		w := rowstream.NewWriter(io.Discard, f)
		got := testing.AllocsPerRun(5, func() {
			r := rowstream.NewReader(bytes.NewReader(stream), f)
			for {
				tuple, err := r.Next()
				if err != nil {
					return
				}
				if _, null := tuple.Field(0); null {
					t.Fatal("no key")
				}
				if err := w.WriteTuple(tuple, 1); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got > 20 {
			t.Fatalf("%v allocations for 1000 tuples", got)
		}
	})
}

func TestRoomOfALargeTupleIsGivenBack(t *testing.T) {
	formats(t, func(t *testing.T, f rowstream.Format) {
		rows := [][]field{{bytes.Repeat([]byte("x"), 3<<20)}, {field("small")}, {field("small")}}
		r := rowstream.NewReader(iotest.HalfReader(bytes.NewReader(encode(f, rows))), f)
		for _, want := range rows {
			tuple, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			checkTuple(t, tuple, want)
		}
	})
}
