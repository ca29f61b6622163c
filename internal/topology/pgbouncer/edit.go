package pgbouncer

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// edit is a replacement of a span of the file.
type edit struct {
	start, end int
	text       string
}

// apply makes the content with all edits done.
func (f *ini) apply(edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, f.content[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, f.content[at:]...)
}

// setting is a parameter that an entry is to have.
type setting struct{ key, value string }

// set gives the edits that make an entry have the settings. A value that is there
// already stays as it is written; a parameter that is missing is added at the end.
func (e *iniEntry) set(settings []setting) ([]edit, error) {
	var edits []edit
	for _, s := range settings {
		text, err := quote(s.value)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %s: %w", e.name, s.key, err)
		}
		i := slices.IndexFunc(e.params, func(p iniParam) bool { return p.key == s.key })
		switch {
		case i < 0:
			edits = append(edits, edit{e.end, e.end, " " + s.key + "=" + text})
		case e.params[i].value != s.value:
			edits = append(edits, edit{e.params[i].start, e.params[i].end, text})
		}
	}
	return edits, nil
}

// eol is how the file ends its lines.
func (f *ini) eol() string {
	if bytes.Contains(f.content, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// epochLine is the comment that keeps a migration's epoch. It is the only line of ours.
type epochLine struct {
	start, end int // its line break included
	epoch      int64
}

// epochLines finds them: one, or several where people merged two files.
func (f *ini) epochLines(migration string) []epochLine {
	var found []epochLine
	mark := []byte("; shardctl " + migration + " epoch ")
	for at := 0; ; {
		n := bytes.Index(f.content[at:], mark)
		if n < 0 {
			return found
		}
		l := epochLine{start: at + n}
		at = l.start + len(mark)
		l.end = lineEnd(f.content, at)
		epoch, err := strconv.ParseInt(strings.TrimRight(string(f.content[at:l.end]), " \t\r"), 10, 64)
		if err != nil || epoch < 0 || l.start > 0 && f.content[l.start-1] != '\n' {
			continue
		}
		l.epoch, l.end = epoch, min(l.end+1, len(f.content))
		found = append(found, l)
	}
}

// epoch reads the epoch that the file keeps; 0 is none. Of several the latest counts.
func (f *ini) epoch(migration string) int64 {
	var latest int64
	for _, l := range f.epochLines(migration) {
		latest = max(latest, l.epoch)
	}
	return latest
}

// setEpoch gives the edits that make the file keep an epoch: in the line of ours, or
// in a new one at the top. Epoch 0 takes the line out.
func (f *ini) setEpoch(migration string, epoch int64) []edit {
	line := fmt.Sprintf("; shardctl %s epoch %d%s", migration, epoch, f.eol())
	if epoch == 0 {
		line = ""
	}
	found := f.epochLines(migration)
	if len(found) == 0 {
		return []edit{{0, 0, line}}
	}
	var edits []edit
	for n, l := range found {
		if n > 0 {
			line = ""
		}
		edits = append(edits, edit{l.start, l.end, line})
	}
	return edits
}
