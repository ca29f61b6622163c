package shardsql_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/shardsql"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// keyTypes are the types that hash, with SQL that makes 10 000 random values of
// each and the extremes.
var keyTypes = []struct{ name, family, values string }{
	{"int2", "int", `SELECT (g % 65536 - 32768)::int2 FROM generate_series(0, 65535, 6) g UNION ALL VALUES (32767::int2), (0), (-1)`},
	{"int4", "int", `SELECT hashint4extended(g, 7)::bit(32)::int4 FROM generate_series(1, 10000) g UNION ALL VALUES (2147483647), (-2147483648), (0), (-1)`},
	{"int8", "int", `SELECT hashint4extended(g, 8) >> (g % 64) FROM generate_series(1, 10000) g UNION ALL VALUES (9223372036854775807), (-9223372036854775808), (0), (-1)`},
	{"uuid", "uuid", `SELECT md5(g::text)::uuid FROM generate_series(1, 10000) g UNION ALL VALUES ('00000000-0000-0000-0000-000000000000'::uuid), ('ffffffff-ffff-ffff-ffff-ffffffffffff')`},
	{"text", "text", strings},
	{"varchar(200)", "text", strings},
	{`text COLLATE "C"`, "text", strings},
	{"char(40)", "text", `SELECT left(md5(g::text), g % 20) || repeat(' ', g % 3) FROM generate_series(1, 10000) g`},
}

// strings are of all lengths up to 120 bytes, with letters of one to four bytes.
const strings = `SELECT left(repeat(translate(md5(g::text), '0123456789', 'éß世界🎈''\"% '), 4), g % 60) FROM generate_series(1, 10000) g
	UNION ALL VALUES (''), (' '), (E'\t\n\\'), (repeat('長', 150))`

func TestExprIsTheServersPartition(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for i, kt := range keyTypes {
		for _, modulus := range []int{1, 3, 8, 480} {
			if modulus == 480 && i%2 == 0 {
				continue // 480 tables take a while; int4, uuid and varchar are one of each family
			}
			table := fmt.Sprintf("p_%d_%d", i, modulus)
			db.Exec(t, fmt.Sprintf(`CREATE TABLE %[1]s (k %[2]s) PARTITION BY HASH (k);
				DO $$ BEGIN FOR r IN 0..%[3]d - 1 LOOP EXECUTE format('CREATE TABLE %[1]s_r%%s PARTITION OF %[1]s FOR VALUES WITH (MODULUS %[3]d, REMAINDER %%s)', r, r); END LOOP; END $$;
				INSERT INTO %[1]s %[4]s`, table, kt.name, modulus, kt.values))
			got := db.Value(t, fmt.Sprintf(`SELECT count(*) >= 10000, count(DISTINCT tableoid), count(*) FILTER (WHERE %s IS DISTINCT FROM substring(tableoid::regclass::text FROM 'r([0-9]+)$')::int)
				FROM %s`, shardsql.Expr("k", kt.family, modulus), table))
			if want := fmt.Sprintf("t|%d|0", modulus); got != want {
				t.Errorf("%s of %d: enough rows, partitions hit, rows elsewhere: %s, want %s", kt.name, modulus, got, want)
			}
		}
	}
}

func TestExprWithLargeCounts(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for i, kt := range keyTypes {
		db.Exec(t, fmt.Sprintf("CREATE TABLE p_%d (k %s) PARTITION BY HASH (k)", i, kt.name))
		for _, modulus := range []int{65536, 1_000_003, 1 << 30, math.MaxInt32} {
			got := db.Value(t, fmt.Sprintf(`SELECT count(*) >= 10000, count(*) FILTER (WHERE satisfies_hash_partition('p_%d'::regclass, %d, %s, k) IS NOT TRUE) FROM (SELECT k::%s FROM (%s) x(k)) v`,
				i, modulus, shardsql.Expr("k", kt.family, modulus), kt.name, kt.values))
			if got != "t|0" {
				t.Errorf("%s of %d: enough rows, rows elsewhere: %s", kt.name, modulus, got)
			}
		}
	}
}

func TestExprOfNull(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for _, family := range []string{"int", "uuid", "text"} {
		for _, count := range []int{1, 7, 8} {
			if got := db.Value(t, "SELECT "+shardsql.Expr("NULL", family, count)); got != "NULL" {
				t.Errorf("%s of %d: %s", family, count, got)
			}
		}
	}
}

// TestExprInAnIndex shows that the server takes the expression for immutable.
func TestExprInAnIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	db.Exec(t, `CREATE TABLE t (i int, u uuid, s varchar)`)
	for column, family := range map[string]string{"i": "int", "u": "uuid", "s": "text"} {
		db.Exec(t, fmt.Sprintf("CREATE INDEX ON t ((%s))", shardsql.Expr(column, family, 480)))
	}
}

func TestExprPanics(t *testing.T) {
	for _, c := range []struct {
		family string
		count  int
	}{{"numeric", 8}, {"", 1}, {"int", 0}, {"text", math.MaxInt32 + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Expr of family %q, %d shards gives an expression", c.family, c.count)
				}
			}()
			shardsql.Expr("k", c.family, c.count)
		}()
	}
}

// BenchmarkExpr compares the expression with the bare hash and with the plain
// way, numeric, over 100 000 rows.
func BenchmarkExpr(b *testing.B) {
	db := pgtest.NewDatabase(b)
	db.Exec(b, `CREATE TABLE t AS SELECT md5(g::text)::uuid k FROM generate_series(1, 100000) g`)
	const hash = "uuid_hash_extended(k, 8816678312871386365)"
	for name, expr := range map[string]string{
		"hash":    hash,
		"expr":    shardsql.Expr("k", "uuid", 480),
		"numeric": "mod(mod(" + hash + "::numeric + 18446744073709551616 + 5305509591434766563, 18446744073709551616), 480)::int",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				db.Value(b, "SELECT count("+expr+") FROM t")
			}
		})
	}
}
