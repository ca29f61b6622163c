package shardhash_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/internal/shardhash"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// values is how many keys of each type the server is asked about.
const values = 10_000

// keyTypes are the types that hash, with a way to draw a value's text.
var keyTypes = []struct {
	name, family string
	draw         func(r *rand.Rand, i int) string
}{
	{"int2", shardhash.Int, func(r *rand.Rand, i int) string { return drawInt(r, i, 16) }},
	{"int4", shardhash.Int, func(r *rand.Rand, i int) string { return drawInt(r, i, 32) }},
	{"int8", shardhash.Int, func(r *rand.Rand, i int) string { return drawInt(r, i, 64) }},
	{"uuid", shardhash.UUID, drawUUID},
	{"text", shardhash.Text, drawString},
	{"varchar", shardhash.Text, drawString},
}

func drawInt(r *rand.Rand, i int, width int) string {
	low, high := int64(math.MinInt64)>>(64-width), int64(math.MaxInt64)>>(64-width)
	fixed := []int64{0, 1, -1, low, low + 1, high, high - 1, max(low, -1<<31), min(high, 1<<31-1), max(low, -1<<32), min(high, 1<<32)}
	switch {
	case i < len(fixed):
		return strconv.FormatInt(fixed[i], 10)
	case i%2 == 0: // short ones too, not only those near the extremes
		return strconv.FormatInt(int64(r.Uint64())>>(64-width)>>r.IntN(width), 10)
	}
	return strconv.FormatInt(int64(r.Uint64())>>(64-width), 10)
}

func drawUUID(r *rand.Rand, i int) string {
	var id uuid.UUID
	switch i {
	case 0:
	case 1:
		id = uuid.Max
	default:
		binary.LittleEndian.PutUint64(id[:8], r.Uint64())
		binary.LittleEndian.PutUint64(id[8:], r.Uint64())
	}
	return id.String()
}

func drawString(r *rand.Rand, i int) string {
	length := i // every short length once, the empty string first
	if i > 60 {
		length = r.IntN(1 + r.IntN(200))
	}
	var b strings.Builder
	for range length {
		switch r.IntN(4) {
		case 0:
			b.WriteRune(rune(1 + r.IntN(127))) // tabs, quotes and backslashes too
		case 1:
			b.WriteRune(rune(0x80 + r.IntN(0x700)))
		case 2:
			b.WriteRune(rune(0x4e00 + r.IntN(0x1000)))
		default:
			b.WriteRune(rune(0x1f300 + r.IntN(0x200)))
		}
	}
	return b.String()
}

// key is a value as the server sends it, with the number of its real partition.
type key struct {
	binary, text []byte
	partition    int
}

// partition makes a table with real partitions, fills it, and reads back where
// each row landed.
func partition(t *testing.T, db *pgtest.Database, table, keyType string, modulus int, texts []string) []key {
	t.Helper()
	db.Exec(t, fmt.Sprintf(`CREATE TABLE %[1]s (k %[2]s) PARTITION BY HASH (k);
		DO $$ BEGIN FOR r IN 0..%[3]d - 1 LOOP EXECUTE format('CREATE TABLE %[1]s_%%s PARTITION OF %[1]s FOR VALUES WITH (MODULUS %[3]d, REMAINDER %%s)', r, r); END LOOP; END $$`,
		table, keyType, modulus))
	db.Exec(t, fmt.Sprintf(`INSERT INTO %s SELECT v::%s FROM unnest($1::text[]) v`, table, keyType), texts)
	conn := db.Connect(t)
	sql := fmt.Sprintf(`SELECT k, k, substring(tableoid::regclass::text FROM '[0-9]+$')::int FROM %s`, table)
	rows, err := conn.Query(context.Background(), sql, pgx.QueryResultFormats{pgx.BinaryFormatCode, pgx.TextFormatCode, pgx.BinaryFormatCode})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key, error) {
		raw := row.RawValues()
		return key{append([]byte{}, raw[0]...), append([]byte{}, raw[1]...), int(binary.BigEndian.Uint32(raw[2]))}, nil
	})
	if err != nil || len(keys) != len(texts) {
		t.Fatalf("read %d of %d keys of %s: %v", len(keys), len(texts), table, err)
	}
	return keys
}

func draw(n int, f func(*rand.Rand, int) string) []string {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		texts[i] = f(r, i)
	}
	return texts
}

func TestShardIsTheServersPartition(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for _, kt := range keyTypes {
		for _, modulus := range []int{1, 3, 8} {
			keys := partition(t, db, fmt.Sprintf("p_%s_%d", kt.name, modulus), kt.name, modulus, draw(values, kt.draw))
			compare(t, kt.family, kt.name, modulus, keys)
		}
	}
}

func TestShardIsTheServersPartitionOf480(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for _, kt := range keyTypes {
		if kt.name == "int8" || kt.name == "uuid" || kt.name == "text" {
			compare(t, kt.family, kt.name, 480, partition(t, db, "p_"+kt.name, kt.name, 480, draw(values, kt.draw)))
		}
	}
}

func compare(t *testing.T, family, name string, modulus int, keys []key) {
	t.Helper()
	h, err := shardhash.New(family, modulus)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, k := range keys {
		fromBinary, err := h.ShardBinary(k.binary)
		if err != nil {
			t.Fatalf("%s %q: %v", name, k.text, err)
		}
		fromText, err := h.ShardText(k.text)
		if err != nil || fromBinary != k.partition || fromText != k.partition {
			t.Fatalf("%s %q of %d: binary %d, text %d, %v; the server says %d", name, k.text, modulus, fromBinary, fromText, err, k.partition)
		}
		seen[k.partition] = true
	}
	if len(seen) != modulus {
		t.Errorf("%s of %d: only %d partitions were hit", name, modulus, len(seen))
	}
}

// TestLargeCounts asks the server's own function for moduli that no test can
// make partitions for.
func TestLargeCounts(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t)
	for _, kt := range keyTypes {
		db.Exec(t, fmt.Sprintf("CREATE TABLE p_%s (k %s) PARTITION BY HASH (k)", kt.name, kt.name))
		for _, modulus := range []int{4095, 65536, math.MaxInt32} {
			h, err := shardhash.New(kt.family, modulus)
			if err != nil {
				t.Fatal(err)
			}
			texts, shards := draw(500, kt.draw), make([]int32, 500)
			for i, text := range texts {
				shard, err := h.ShardText([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				shards[i] = int32(shard)
			}
			wrong := db.Rows(t, fmt.Sprintf(`SELECT v FROM unnest($1::text[], $2::int[]) u(v, shard)
				WHERE NOT satisfies_hash_partition('p_%s'::regclass, %d, shard, v::%s)`, kt.name, modulus, kt.name), texts, shards)
			if len(wrong) > 0 {
				t.Errorf("%s of %d: %d of 500 shards are not the server's, the first for %q", kt.name, modulus, len(wrong), wrong[0])
			}
		}
	}
}
