package migrate

import (
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "spec.empty at shardctl.yaml"},
		"comments only":     {"# nothing\n\n", "spec.empty at shardctl.yaml"},
		"two documents":     {base + "---\n" + base, "spec.several_documents at shardctl.yaml"},
		"an empty second":   {base + "---\n", "spec.several_documents at shardctl.yaml"},
		"a list":            {"- a\n- b\n", "spec.wrong_type at line 1"},
		"a word":            {"hello\n", "spec.wrong_type at line 1"},
		"tab":               {"version: 1\n\tmigration: x\n", "spec.malformed at line 2: shardctl.yaml"},
		"unclosed bracket":  {"version: 1\ndatabases: {db0: {dsn: x}\n", "spec.malformed at line 2: shardctl.yaml"},
		"unclosed quote":    {"version: 1\nmigration: \"" + password + "\n", "spec.malformed at line 2: shardctl.yaml"},
		"bad indentation":   {"version: 1\n  migration: x\n", "spec.malformed at line 1: shardctl.yaml"},
		"header of a block": {"version: 1\nmigration: |" + password + "\n  x\n", "spec.malformed at line 2: shardctl.yaml"},
		"Latin-1":           {"migration: \xe9\n", "spec.malformed at shardctl.yaml"},
		"zero byte":         {"migration: a\x00\n", "spec.malformed at shardctl.yaml"},
		"our own marks":     {"migration: " + variableOpen + "HOME" + variableClose + "\n", "spec.malformed at shardctl.yaml"},
		"too large":         {strings.Repeat("# comment\n", 60000), "spec.too_large at shardctl.yaml"},
		"nested brackets":   {"a: " + strings.Repeat("[", 100000), "spec.malformed at shardctl.yaml"},
		"nested lists":      {strings.Repeat("- ", 100000), "spec.malformed at shardctl.yaml"},
		"nested by lines":   {strings.Repeat("[\n", 100000), "spec.malformed at shardctl.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failures := decode(t, c.text)
			if len(failures) == 0 {
				t.Fatal("it was decoded")
			}
			if got := failures[0].Code + " at " + failures[0].Object; got != c.want {
				t.Errorf("got %s: %v, want %s", got, failures, c.want)
			}
		})
	}
}

func TestOtherWaysToWriteIt(t *testing.T) {
	want, failures := decode(t, base)
	if failures != nil {
		t.Fatal(failures)
	}
	for name, text := range map[string]string{
		"BOM":             "\ufeff" + base,
		"CRLF":            strings.ReplaceAll(base, "\n", "\r\n"),
		"document marks":  "# spec\n---\n" + base + "...\n",
		"bare variable":   strings.ReplaceAll(base, `"${DB0}"`, "${DB0}"),
		"single quotes":   strings.ReplaceAll(base, `"${DB0}"`, "'${DB0}'"),
		"folded DSN":      strings.ReplaceAll(base, "dsn: ${SOURCE}", "dsn: >-\n    ${SOURCE}"),
		"count by env":    strings.ReplaceAll(base, "count: 4", "count: ${COUNT}"),
		"list of shards":  strings.ReplaceAll(base, `"2,3"`, "[2, '3']"),
		"verbose key":     strings.ReplaceAll(base, "    key: workspace_id", "    key: 'workspace_id'\n    as: block"),
		"short entry":     strings.ReplaceAll(base, "    entries:\n      - {database: \"app_%03d\"}", "    database: app_%03d"),
		"bare table name": strings.ReplaceAll(base, "name: public.comment", "name: comment"),
	} {
		s, err := Decode("x", []byte(text), func(name string) (string, bool) {
			if name == "COUNT" {
				return "4", true
			}
			return environment(name)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		equal(t, s, want)
		equal(t, s.Digest(), want.Digest())
	}
}

func TestVariables(t *testing.T) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"USER": "app", "PASS": `p{}: #"'$x`, "HOST": "h1,h2", "DB": "db", "EMPTY": ""}[name]
		return value, ok
	}
	for text, want := range map[string]string{
		"${DB}=":                             "db=",
		"postgres://${USER}:${PASS}@h/${DB}": `postgres://app:p{}: #"'$x@h/db`,
		"host=${HOST} port=1,2${EMPTY}":      "host=h1,h2 port=1,2",
		"password=$${USER} host=a":           "password=${USER} host=a",
		"password=$$x$y host=a":              "password=$$x$y host=a",
		"postgres://u@h1:1,h2:2,[::1]:3/db?target_session_attrs=read-write": "postgres://u@h1:1,h2:2,[::1]:3/db?target_session_attrs=read-write",
		"dbname='a b' options='-c x=y'":                                     "dbname='a b' options='-c x=y'",
		"user=a host=b://c":                                                 "user=a host=b://c",
	} {
		for _, quoted := range []string{text, "'" + strings.ReplaceAll(text, "'", "''") + "'", `"` + text + `"`} {
			d := &decoder{env: env}
			body, failure := parseDocument("x", []byte("dsn: "+quoted+"\n"))
			if failure != nil {
				t.Errorf("%s: %v", quoted, failure)
				continue
			}
			m := d.mapping(node{place{line: 1}, body})
			n, _ := m.required("dsn")
			if got := d.dsn(n); got.Reveal() != want || len(d.found) > 0 {
				t.Errorf("%s gives %q, %v, want %q", quoted, got.Reveal(), d.sorted(), want)
			}
		}
	}
}
