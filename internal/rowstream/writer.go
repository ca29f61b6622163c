package rowstream

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Writer puts tuples together to a stream. It does not buffer.
type Writer struct {
	w       io.Writer
	format  Format
	begun   bool
	scratch []byte
}

// NewWriter makes a writer of a stream in the given format.
func NewWriter(w io.Writer, f Format) *Writer { return &Writer{w: w, format: f} }

// WriteTuple writes the tuple's fields from the given one on: a stream's leading
// routing fields are dropped so. A tuple of the other format is refused.
func (w *Writer) WriteTuple(t Tuple, from int) error {
	if err := w.begin(t.format); err != nil {
		return err
	}
	if w.format == Binary {
		if from == 0 {
			_, err := w.w.Write(t.raw)
			return err
		}
		w.scratch = binary.BigEndian.AppendUint16(w.scratch[:0], uint16(t.Len()-from))
		if _, err := w.w.Write(w.scratch); err != nil {
			return err
		}
	}
	_, err := w.w.Write(t.raw[t.offset(from):])
	return err
}

// WriteFields writes the named fields, in that order, as a tuple.
func (w *Writer) WriteFields(t Tuple, fields ...int) error {
	if err := w.begin(t.format); err != nil {
		return err
	}
	if cap(w.scratch) > keepSize {
		w.scratch = nil
	}
	w.scratch = t.AppendFields(w.scratch[:0], fields...)
	_, err := w.w.Write(w.scratch)
	return err
}

func (w *Writer) begin(f Format) error {
	if f != w.format {
		return fmt.Errorf("write a %s tuple to a %s stream", f, w.format)
	}
	if w.begun || w.format == Text {
		return nil
	}
	w.begun = true
	_, err := w.w.Write(w.format.Header())
	return err
}

// Close writes what a stream of the format ends with. It does not close the
// underlying writer.
func (w *Writer) Close() error {
	if err := w.begin(w.format); err != nil || w.format == Text {
		return err
	}
	_, err := w.w.Write(w.format.Trailer())
	return err
}
