package pgbouncer

import (
	"fmt"
	"testing"
)

func TestJudgeFiles(t *testing.T) {
	l := &look{config: map[string]string{"max_client_conn": "1000"}, clients: 300, users: []string{"a", "b"},
		databases: map[string]database{"pgbouncer": {poolSize: 2}}}
	var r Router
	for n := range 480 {
		name := fmt.Sprintf("app_%03d", n)
		r.entries = append(r.entries, entry{name: name})
		l.databases[name] = database{poolSize: 20}
	}
	for _, c := range []struct {
		limit int
		want  string
	}{{1024, "[error]"}, {8192, "[warning]"}, {100_000, "[]"}, {0, "[warning]"}} {
		j := &judgement{}
		r.judgeFiles(j, l, c.limit)
		got := []string{}
		for _, f := range j.findings {
			got = append(got, string(f.Severity))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("limit %d: %v, want %s: %+v", c.limit, got, c.want, j.findings)
		}
	}
}

func TestSoftFiles(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max processes             127567               127567               processes \nMax open files            1024                 524288               files     \n"
	if got := softFiles([]byte(limits)); got != 1024 || softFiles(nil) != 0 {
		t.Errorf("got %d", got)
	}
}
