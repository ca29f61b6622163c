package pgbouncer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parsed(t testing.TB, content string) *ini {
	t.Helper()
	f, err := parseINI([]byte(content))
	if err != nil {
		t.Fatalf("%q: %v", content, err)
	}
	return f
}

func TestParseINI(t *testing.T) {
	const content = "; comment app_000 = host=no\n# app_000 = host=no\n%include other.ini\n\n[databases] first = host=f\r\n" +
		"  app_000\t=\t host=h0   port = 5432 password='it''s a ; secret' user=u\r\n" +
		"\"odd \"\"name\" = host=/run/pg\n* = host=fallback\n[users]\napp_000 = pool_mode=session\n[pgbouncer]\nlisten_port = 6432\n[databases]\nlast=dbname='x y'"
	f := parsed(t, content)
	var names []string
	for _, e := range f.entries {
		names = append(names, e.name)
		if e.problem != nil {
			t.Errorf("%s: %v", e.name, e.problem)
		}
	}
	if got := strings.Join(names, "|"); got != `first|app_000|odd "name|*|last` {
		t.Fatalf("entries: %s", got)
	}
	e, err := f.find("app_000")
	if err != nil || f.line(e.start) != 6 || content[e.end-6:e.end] != "user=u" {
		t.Fatalf("%+v, %v", e, err)
	}
	for key, want := range map[string]string{"host": "h0", "port": "5432", "password": "it's a ; secret", "user": "u", "dbname": ""} {
		if got := e.value(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestParseINIRefuses(t *testing.T) {
	for content, want := range map[string]string{
		"[databases\na = host=h\n":         "line 1: a section has no closing bracket",
		"[databases]\na = host=h\nb host=": "line 3: a line is neither",
		"a = host=h\n\x00":                 "line 2: a zero byte",
		"\n\xef\xbb\xbf[databases]\n":      "line 2: a line is neither",
		"[databases]\n\"a = host=h\n":      "line 2: the name of an entry is not closed",
	} {
		if _, err := parseINI([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "there is no entry",
		"a = host=h\na = host=h":           "lines 2 and 3",
		"a = host=h\tport=5":               "a tab is part",
		"a = host='h'port=5":               "a space is missing",
		"a = host='h":                      "closing quote is missing",
		"a = host=":                        "no value",
		"a = host=''":                      "no value",
		"a = host=h host=i":                "given twice",
		"a = host=h ; comment":             "not key=value",
		"a = host":                         "not key=value",
		"a = =h":                           "not key=value",
		"a.b = host=h\nA = host=h\naa = b": "there is no entry",
	} {
		if _, err := parsed(t, "[databases]\n"+line+"\n").find("a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestQuoteReadsBack(t *testing.T) {
	for value, want := range map[string]string{"db0.internal": "db0.internal", "/run/pg": "/run/pg", "::1": "::1", "a b": "'a b'", "it's": "'it''s'", "a=b": "'a=b'", "é": "'é'"} {
		if got, err := quote(value); err != nil || got != want {
			t.Errorf("%q: %s, %v", value, got, err)
		}
	}
	for _, value := range []string{"", "a\nb", "a\rb", "\x00"} {
		if got, err := quote(value); err == nil {
			t.Errorf("%q: %s", value, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 30, -1).Filter(func(s string) bool { return !strings.ContainsAny(s, "\n\r\x00") }).Draw(t, "value")
		text, err := quote(value)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseINI([]byte("a = host=h connect_query=" + text + " user=u"))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := f.find("a"); err != nil || e.value("connect_query") != value || e.value("user") != "u" {
			t.Fatalf("%q written as %s reads as %+v, %v", value, text, e, err)
		}
	})
}

func TestSetChangesOnlyWhatItMust(t *testing.T) {
	for before, want := range map[string]string{
		"a = host=old port=1 user=u":                         "a = host=new port=5432 user=u dbname='my db'",
		"a=password='x'  host='new'   port=5432 \r\n":        "a=password='x'  host='new'   port=5432 dbname='my db' \r\n",
		"; c\r\n\ta\t= dbname=x pool_size=3\r\nb = host=old": "; c\r\n\ta\t= dbname='my db' pool_size=3 host=new port=5432\r\nb = host=old",
	} {
		f := parsed(t, before)
		e, err := f.find("a")
		if err != nil {
			t.Fatal(err)
		}
		edits, err := e.set([]setting{{"host", "new"}, {"port", "5432"}, {"dbname", "my db"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.apply(edits)); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", before, got, want)
		}
	}
}

func TestEpochLine(t *testing.T) {
	const rest = "[databases]\r\na = host=h\r\n; shardctl other epoch 9\r\n"
	f := parsed(t, rest)
	if f.epoch("m") != 0 || f.epoch("other") != 9 {
		t.Errorf("epochs %d, %d", f.epoch("m"), f.epoch("other"))
	}
	two := string(f.apply(f.setEpoch("m", 2)))
	if two != "; shardctl m epoch 2\r\n"+rest {
		t.Fatalf("%q", two)
	}
	f = parsed(t, two)
	if got := string(f.apply(f.setEpoch("m", 13))); f.epoch("m") != 2 || got != "; shardctl m epoch 13\r\n"+rest {
		t.Errorf("%q", got)
	}
	if got := string(f.apply(f.setEpoch("m", 0))); got != rest {
		t.Errorf("taken out: %q", got)
	}
	merged := parsed(t, "; shardctl m epoch 4\nx = host=h\n; shardctl m epoch 7")
	if got := string(merged.apply(merged.setEpoch("m", 8))); merged.epoch("m") != 7 || got != "; shardctl m epoch 8\nx = host=h\n" {
		t.Errorf("%q", got)
	}
	if parsed(t, "; shardctl m2 epoch 4\n # ; shardctl m epoch 4\n").epoch("m") != 0 {
		t.Error("another line was taken for ours")
	}
}

func FuzzParseINI(f *testing.F) {
	f.Add("[databases]\na = host=h port=1\n")
	f.Add("%include x\r\n\"q\" = host='a''b' \r\n; shardctl m epoch 3")
	f.Fuzz(func(t *testing.T, content string) {
		file, err := parseINI([]byte(content))
		if err != nil {
			return
		}
		if got := string(file.apply(nil)); got != content {
			t.Fatalf("no edit changes %q to %q", content, got)
		}
		for _, e := range file.entries {
			if e.problem != nil {
				continue
			}
			edits, err := e.set([]setting{{"host", "new host"}, {"zz", "1"}})
			if err != nil {
				t.Fatal(err)
			}
			again, err := parseINI(file.apply(edits))
			if err != nil || len(again.entries) != len(file.entries) {
				t.Fatalf("after a change of %s in %q: %v", e.name, content, err)
			}
		}
	})
}
