package migrate

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseTableName(t *testing.T) {
	for text, want := range map[string]TableName{
		"public.block":     {"public", "block"},
		"block":            {"public", "block"},
		"app.Block":        {"app", "Block"},
		`"Odd Schema"."T"`: {"Odd Schema", "T"},
		`"a.b".c`:          {"a.b", "c"},
		`"say ""hi"""`:     {"public", `say "hi"`},
		"größe.straße":     {"größe", "straße"},
	} {
		got, err := ParseTableName(text)
		if err != nil || got != want {
			t.Errorf("ParseTableName(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "a.", ".b", "a.b.c", `"a`, `"a"b`, `a."b`, `""`, "odd name", `a"b`, "a\x00b", "a." + strings.Repeat("x", 64)} {
		if got, err := ParseTableName(text); err == nil {
			t.Errorf("ParseTableName(%q) = %v, want an error", text, got)
		}
	}
}

func TestTableNameReadsBackWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 20, MaxIdentifier).Filter(func(s string) bool { return CheckIdentifier(s) == nil })
		n := TableName{name.Draw(t, "schema"), name.Draw(t, "name")}
		if got, err := ParseTableName(n.String()); err != nil || got != n {
			t.Fatalf("%#v prints %s and reads back as %#v, %v", n, n, got, err)
		}
	})
}

func TestTableNameInJSON(t *testing.T) {
	b, err := json.Marshal(map[TableName]TableName{{"public", "block"}: {"App", "x"}})
	if err != nil || string(b) != `{"public.block":"\"App\".x"}` {
		t.Errorf("got %s, %v", b, err)
	}
	var back map[TableName]TableName
	if err := json.Unmarshal(b, &back); err != nil || back[TableName{"public", "block"}] != (TableName{"App", "x"}) {
		t.Errorf("got %v, %v", back, err)
	}
}
