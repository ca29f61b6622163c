package journey

import (
	"regexp"
	"strings"
)

// complete ends the rollback window and looks at what is left of shardctl.
func (j *trip) complete() {
	t, w := j.t, j.w
	w.refused(t, 5, "complete", "--yes")
	j.end()
	w.must(t, "complete", "--yes")
	w.status(t, "completed")
	j.catchup = w.begin(t, "catchup") // the source still owns the everywhere tables
	j.again("complete", "--yes")
	j.c.healthy(t)
	w.refused(t, 4, "rollback", "--yes")
	w.refused(t, 4, "abort", "--yes")
	for _, line := range j.before.difference(w.catalogs()) {
		if !strings.HasPrefix(line, "- source: ") && !strings.HasPrefix(line, "+ source: ") {
			continue // the databases keep what they were given
		}
		if !stays(w.migration, line) {
			t.Errorf("after complete the source's catalog has a difference that no document promises: %s", line)
		}
	}
}

// stays reports whether a difference on the source is one that complete's help says
// stays: fences on the tables that moved; the audit log and the state, since the source
// still owns an everywhere table; lanes of the moved tables' sequences.
func stays(migration, line string) bool {
	ours := "shardctl_" + migration
	for _, pattern := range []string{
		`^\+ source: (schema|relation|column|index|type|sequence|function|comment on \S+) "?shardctl`,
		`^\+ source: (constraint \S+ on|function) shardctl\.`,
		`^\+ source: index CREATE (UNIQUE )?INDEX \S+ ON shardctl\.`,
		`^\+ source: comment on .* shardctl`,
		`^\+ source: trigger ` + ours + `_fence_(truncate_)?[0-9]+ on (public\.)?(block|comment) `,
		`^\+ source: trigger ` + ours + `_(capture|truncate) on `,
		`^[-+] source: sequence (public\.)?comment_id_seq `,
		`^\+ source: comment on trigger ` + ours,
	} {
		if regexp.MustCompile(pattern).MatchString(line) {
			return true
		}
	}
	return false
}

// end stops catchup as an operator does.
func (j *trip) end() {
	j.alive()
	if r := j.catchup.interrupt(j.t); r.code != 130 {
		j.t.Errorf("an interrupted catchup: %s", r)
	}
}
