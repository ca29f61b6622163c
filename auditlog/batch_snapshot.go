package auditlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// snapshot is a pg_snapshot: it covers every transaction below xmax that is not
// in xip. A position is one, so that a long writer delays only itself.
type snapshot struct {
	xmin, xmax uint64
	xip        []uint64 // ascending, in [xmin, xmax)
}

// parseSnapshot reads the text of a pg_snapshot, "xmin:xmax:xip,xip".
func parseSnapshot(text string) (snapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return snapshot{}, fmt.Errorf("snapshot %q: three parts are expected", text)
	}
	var s snapshot
	var err error
	if s.xmin, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return snapshot{}, fmt.Errorf("snapshot %q: %w", text, err)
	}
	if s.xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return snapshot{}, fmt.Errorf("snapshot %q: %w", text, err)
	}
	if parts[2] == "" {
		return s, nil
	}
	for _, part := range strings.Split(parts[2], ",") {
		xid, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return snapshot{}, fmt.Errorf("snapshot %q: %w", text, err)
		}
		s.xip = append(s.xip, xid)
	}
	return s, nil
}

// String gives the server's own text of it.
func (s snapshot) String() string {
	return fmt.Sprintf("%d:%d:%s", s.xmin, s.xmax, strings.Join(xidTexts(s.xip), ","))
}

func xidTexts(xids []uint64) []string {
	out := make([]string, len(xids))
	for i, xid := range xids {
		out[i] = strconv.FormatUint(xid, 10)
	}
	return out
}

// covers reports whether a transaction that has ended is in it.
func (s snapshot) covers(xid uint64) bool {
	if xid >= s.xmax {
		return false
	}
	_, open := slices.BinarySearch(s.xip, xid)
	return !open
}

// includes reports whether s covers everything that o covers.
func (s snapshot) includes(o snapshot) bool {
	for _, xid := range s.xip {
		if o.covers(xid) {
			return false
		}
	}
	for xid := s.xmax; xid < o.xmax; xid++ {
		// Every xid from here on must be open in o; the list is short, so this ends soon.
		if o.covers(xid) {
			return false
		}
	}
	return true
}

// cutAt is the position reached from s by a batch read at now that is cut at an
// xid: what s covers, and what now covers below it.
func (s snapshot) cutAt(now snapshot, xid uint64) snapshot {
	xid = min(xid, now.xmax) // nothing that now has not seen may be covered
	next := snapshot{xmax: max(xid, s.xmax)}
	for _, open := range now.xip {
		if open < xid {
			next.xip = append(next.xip, open)
		}
	}
	for _, open := range s.xip {
		if open >= xid {
			next.xip = append(next.xip, open)
		}
	}
	next.xmin = next.xmax
	if len(next.xip) > 0 {
		next.xmin = next.xip[0]
	}
	return next
}

// window is the range of log entries of one batch: what after does not cover,
// below an xid if the batch is cut. What is in the range and visible is the batch.
type window struct {
	after snapshot
	below uint64 // 0: not cut
}

// condition is the SQL over a log's xid column. Both parts use the index.
func (w window) condition() string {
	c := fmt.Sprintf("xid >= '%d'::pg_catalog.xid8", w.after.xmax)
	if len(w.after.xip) > 0 {
		c = fmt.Sprintf("(%s OR xid = ANY ('{%s}'::pg_catalog.xid8[]))", c, strings.Join(xidTexts(w.after.xip), ","))
	}
	if w.below > 0 {
		c += fmt.Sprintf(" AND xid < '%d'::pg_catalog.xid8", w.below)
	}
	return c
}

// none is the condition of a batch without log entries, as a retry's is.
const none = "false"
