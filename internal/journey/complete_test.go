package journey

import (
	"regexp"
	"strings"
)

// complete ends the rollback window and looks at what is left of shardctl.
func (j *trip) complete() {
	t, w := j.t, j.w
	w.catchupRuns(t)
	w.refused(t, 5, "complete", "--yes")
	if w.ownCopies {
		j.c.rest(func() {
			for _, x := range j.c.writers {
				x.noPlans = true
			}
		})
		j.c.databasesServe(t, false)
	}
	j.end()
	w.must(t, "complete", "--yes")
	w.status(t, "completed")
	j.copiesAfter()
	j.again("complete", "--yes")
	j.c.healthy(t)
	w.refused(t, 4, "rollback", "--yes")
	w.refused(t, 4, "abort", "--yes")
	for _, line := range j.before.difference(w.catalogs()) {
		if !strings.HasPrefix(line, "- source: ") && !strings.HasPrefix(line, "+ source: ") {
			continue // the databases keep what they were given
		}
		if !stays(w.migration, line, !w.ownCopies) {
			t.Errorf("after complete the source's catalog has a difference that no document promises: %s", line)
		}
	}
}

// stays reports whether a difference on the source is one that complete's help says
// stays: the state, with the audit log where the source still owns an everywhere table;
// fences on the tables that moved; lanes of their sequences.
func stays(migration, line string, log bool) bool {
	ours := "shardctl_" + migration
	if !log && strings.Contains(line, migration+"_log_") {
		return false
	}
	if log && regexp.MustCompile(`^\+ source: trigger `+ours+`_(capture|truncate) on `).MatchString(line) {
		return true
	}
	for _, pattern := range []string{
		`^\+ source: (schema|relation|column|index|type|sequence|function|comment on \S+) "?shardctl`,
		`^\+ source: (constraint \S+ on|function) shardctl\.`,
		`^\+ source: index CREATE (UNIQUE )?INDEX \S+ ON shardctl\.`,
		`^\+ source: comment on .* shardctl`,
		`^\+ source: trigger ` + ours + `_fence_(truncate_)?[0-9]+ on (public\.)?(block|comment) `,
		`^[-+] source: sequence (public\.)?comment_id_seq `,
		`^\+ source: comment on trigger ` + ours,
	} {
		if regexp.MustCompile(pattern).MatchString(line) {
			return true
		}
	}
	return false
}

// copiesAfter: either the source still owns the everywhere table and catchup goes on, or
// each database owns its copy and nothing is left to apply.
func (j *trip) copiesAfter() {
	t, w := j.t, j.w
	write := "INSERT INTO " + w.everywhereSchema() + ".plan (name) VALUES ('own')" // with the next number of its sequence
	err := asApplication(w, w.databaseDSN(0), write)
	if w.ownCopies {
		w.refused(t, 4, "catchup")
		if err != nil {
			t.Errorf("the application may not write its own copy: %v", err)
		}
		return
	}
	if err == nil {
		t.Errorf("a copy was written that the source owns: %s", write)
	}
	j.catchup = w.begin(t, "catchup")
}

// end stops catchup as an operator does.
func (j *trip) end() {
	j.alive()
	if r := j.catchup.Interrupt(j.t); r.Code != 130 {
		j.t.Errorf("an interrupted catchup: %s", r)
	}
}
