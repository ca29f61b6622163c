package shardsql

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	// partitionSeed is HASH_PARTITION_SEED, 0x7A5B22367996DCFD.
	partitionSeed = "8816678312871386365"
	// combined is the constant of hash_combine64, which PostgreSQL adds to the
	// hash of the first key column; combinedSQL is the same in SQL.
	combined    = uint64(0x49a0f4dd15e5a8e3)
	combinedSQL = "5305509591434766563"
)

// Expr gives the expression, of type int, for the shard of a key among count
// shards. The key is an SQL expression; it is mentioned twice unless count is a
// power of two. Family is "int", "uuid" or "text"; it and the count (1 to 2^31-1)
// come from a checked spec, so that others are a mistake in the program: it panics.
func Expr(key, family string, count int) string {
	if count < 1 || count > math.MaxInt32 {
		panic(fmt.Sprintf("shardsql: %d shards", count))
	}
	// PostgreSQL's shard is ((u + combined) mod 2^64) mod count, where u is the
	// hash taken as unsigned. SQL has only the signed hash h, whose addition to
	// the constant must not overflow. With the remainders taken first:
	//   u + combined wraps to h + combined + 2^64 where h < -combined,
	//   and to h + combined elsewhere.
	// h % count is above -count, so that one more count keeps the sum positive.
	h := hash(key, family)
	n := uint64(count)
	rest := combined%n + n
	if n&(n-1) == 0 { // 2^64 mod count is 0
		return fmt.Sprintf("((%s %% %d + %d) %% %d)::int", h, n, rest, n)
	}
	_, wrap := bits.Div64(1, 0, n)
	return fmt.Sprintf("((%[1]s %% %[2]d + CASE WHEN %[1]s < -%[3]s THEN %[4]d ELSE %[5]d END) %% %[2]d)::int", h, n, combinedSQL, rest+wrap, rest)
}

// hash is the server's extended hash of the key, of type bigint.
func hash(key, family string) string {
	switch family {
	case "int":
		return "pg_catalog.hashint8extended((" + key + ")::bigint, " + partitionSeed + ")"
	case "uuid":
		return "pg_catalog.uuid_hash_extended((" + key + ")::pg_catalog.uuid, " + partitionSeed + ")"
	case "text":
		// Every deterministic collation hashes alike; the C collation is the
		// quickest, and one that is stated cannot be ambiguous.
		return "pg_catalog.hashtextextended((" + key + `)::pg_catalog.text COLLATE pg_catalog."C", ` + partitionSeed + ")"
	}
	panic("shardsql: no family of types " + family)
}
