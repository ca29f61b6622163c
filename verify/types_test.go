package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/migrate"
)

const oddTypes = `
CREATE SCHEMA kind; CREATE EXTENSION citext SCHEMA kind; CREATE EXTENSION cube SCHEMA kind; CREATE EXTENSION seg SCHEMA kind; CREATE EXTENSION hstore SCHEMA kind;
CREATE TYPE kind.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN kind.score AS numeric CHECK (VALUE >= 0);
CREATE DOMAIN kind.scores AS kind.score[];
CREATE TYPE kind.pair AS (a int, b text);
CREATE TYPE kind.sum AS (n numeric, f float8, c kind.citext);
CREATE DOMAIN kind.total AS kind.sum CHECK ((VALUE).n > 0);
CREATE TYPE kind.folded AS RANGE (subtype = kind.citext);
CREATE COLLATION kind.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`

const oddTable = `
CREATE TABLE public."Odd Table" ("Key" bigint, "I d" kind.citext PRIMARY KEY, f8 float8, f4 real, num numeric, js json, jb jsonb, txt text,
 mood kind.mood, score kind.score, ints int[], texts text[], pad char(8), fix bpchar, iv interval, bits bit varying, p kind.pair, r int4range,
 tz timetz, ts timestamp, net inet, loose text COLLATE kind.loose, mon money,
 f8s float8[], nums numeric[], jbs jsonb[], numr numrange, cis kind.citext[], cir kind.folded, fixes bpchar[], pa path, ci circle, bo box, pt point, scores kind.scores, sum kind.sum,
 sums kind.sum[], total kind.total, se kind.seg, cu kind.cube, hs kind.hstore, ch "char", ba bytea, vec int2vector, tv tsvector, tq tsquery, x xml, jp jsonpath, gen int GENERATED ALWAYS AS (length(txt)) STORED)`

// changes are damages that a comparison by value, by hash or by a cast to text
// would let pass.
var changes = []struct{ column, before, after string }{
	{"f8", "0", "'-0'"},
	{"f4", "0", "'-0'"},
	{"f8", "1", "1.0000000000000002"},
	{"num", "1.0", "1.00"},
	{"js", `'{"a":1}'`, `'{"a": 1}'`},
	{"jb", `'{"a":1.0}'`, `'{"a":1.00}'`},
	{"txt", "NULL", "''"},
	{"txt", "'a'", "'a '"},
	{"txt", "'é'", "'e\u0301'"},
	{"mood", "'sad'", "'happy'"},
	{"score", "2.5", "2.50"},
	{"ints", "'{1,2}'", "'[0:1]={1,2}'"},
	{"ints", "'{1,2}'", "'{{1,2}}'"},
	{"ints", "'{}'", "NULL"},
	{"texts", "'{NULL}'", `'{"NULL"}'`},
	{"pad", "'ab'", "'ab c'"},
	{"fix", "'ab'", "'ab  '"},
	{"iv", "'1 mon'", "'30 days'"},
	{"bits", "'1'", "'10'"},
	{"p", "ROW(1, NULL)", "ROW(1, '')"},
	{"p", "ROW(NULL, NULL)", "NULL"},
	{"r", "'[1,3)'", "'[1,3]'"},
	{"tz", "'12:00+00'", "'13:00+01'"},
	{"ts", "'infinity'", "'-infinity'"},
	{"net", "'10.0.0.1/32'", "'10.0.0.1/24'"},
	{"loose", "'abc'", "'ABC'"},
	{"mon", "1.00", "1.01"},
	{"iv", "'24:00:00'", "'1 day'"},
	{"f8s", "'{0}'", "'{-0}'"},
	{"nums", "'{1.0}'", "'{1.00}'"},
	{"jbs", `'{"1.0"}'`, `'{"1.00"}'`},
	{"numr", "'[1.0,2)'", "'[1.00,2)'"},
	{"cis", "'{a}'", "'{A}'"},
	{"cir", "'[a,b]'", "'[A,b]'"},
	{"fixes", "'{ab}'", `'{"ab "}'`},
	{"pa", "'[(0,0),(1,1)]'", "'((0,0),(1,1))'"},
	{"ci", "'<(0,0),1>'", "'<(9,9),1>'"},
	{"bo", "'(1,1),(0,0)'", "'(2,1),(1,0)'"},
	{"pt", "'(0,0)'", "'(-0,0)'"},
	{"pt", "'(0,0)'", "'(1e-300,0)'"},
	{"scores", "'{2.5}'", "'{2.50}'"},
	{"sum", "'(1.0,0,a)'", "'(1.00,0,a)'"},
	{"sum", "'(1.0,0,a)'", "'(1.0,-0,a)'"},
	{"sums", `'{"(1.0,0,a)"}'`, `'{"(1.0,0,A)"}'`},
	{"total", "'(1.0,0,a)'", "'(1.00,0,a)'"},
	{"se", "'1.0'", "'1.00'"},
	{"cu", "'(0)'", "'(-0)'"},
	{"hs", `'"a"=>NULL'`, `'"a"=>"NULL"'`},
	{"ch", "''", "' '"},
	{"ba", `'\x00'`, `'\x0000'`},
	{"vec", "''", "NULL"},
	{"tv", "'a:1'", "'a:1A'"},
	{"tq", "'a & b'", "'b & a'"},
	{"x", "'<a/>'", "'<a></a>'"},
	{"jp", "'1.0'", "'1.00'"},
}

func oddWorld(t *testing.T) *world {
	w := build(t, 2, migrate.Shards{Count: 4, Schema: "S %d"}, []migrate.Table{
		{Name: migrate.TableName{Schema: "public", Name: "Odd Table"}, Key: migrate.Key{Column: "Key"}},
	}, oddTypes, oddTable)
	for i, c := range changes {
		w.source.Exec(t, fmt.Sprintf(`INSERT INTO "Odd Table" ("Key", "I d", %s) VALUES (%d, 'Row %02d', %s)`, c.column, i, i, c.before))
	}
	w.source.Exec(t, `INSERT INTO "Odd Table" ("Key", "I d") VALUES (50, 'Spelled')`)
	w.catchUp()
	return w
}

// damageAll makes every change and gives what must be found.
func (w *world) damageAll() []string {
	var want []string
	table := w.layout.Tables[0]
	for i, c := range changes {
		key := fmt.Sprintf("Row %02d", i)
		s := w.find(table, fmt.Sprintf(`"I d" = '%s'`, key))
		w.damage(s.db, fmt.Sprintf(`UPDATE %s SET %s = %s WHERE "I d" = '%s'`, s.table, c.column, c.after, key))
		want = append(want, fmt.Sprintf(`different public."Odd Table" %s %s.%s %s`, key, s.name, s.schema, c.column))
	}
	// A key that is equal, but not the same.
	s := w.find(table, `"I d" = 'Spelled'`)
	w.damage(s.db, `UPDATE `+s.table+` SET "I d" = 'SPELLED' WHERE "I d" = 'Spelled'`)
	return append(want, fmt.Sprintf(`different public."Odd Table" Spelled %s.%s I d`, s.name, s.schema))
}

// means are the ways in which servers digest rows. Those before PostgreSQL 14 have
// neither hash_record_extended nor scans of a range of TIDs; those of another
// encoding have other bytes for the same text.
var means = map[string]func(*Verifier){
	"equal": func(*Verifier) {},
	"old": func(v *Verifier) {
		for _, s := range v.servers() {
			s.version = 130000
		}
	},
	"foreign":         func(v *Verifier) { v.databases[1].encoding = "LATIN1" },
	"old and foreign": func(v *Verifier) { v.databases[1].encoding, v.source.version = "LATIN1", 130000 },
}

func TestValuesThatOnlyLookEqualAreFound(t *testing.T) {
	t.Parallel()
	w := oddWorld(t)
	run := func(pretend func(*Verifier)) *Result {
		w.verifier.Close() // forgets what was pretended before
		for _, s := range w.verifier.servers() {
			_, err := s.open(t.Context())
			must(t, err)
		}
		pretend(w.verifier)
		return w.full()
	}
	for name, pretend := range means {
		if r := run(pretend); r.State != Clean || r.RowsCompared != int64(len(changes)+1) {
			t.Errorf("%s, before the damage: %+v", name, r)
		}
	}
	want := w.damageAll()
	slices.Sort(want)
	for name, pretend := range means {
		got := lines(run(pretend).Differences)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: found\n%q\nwant\n%q", name, got, want)
		}
	}
}
