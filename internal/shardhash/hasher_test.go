package shardhash

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		family string
		count  int
	}{{"", 1}, {"numeric", 8}, {Int, 0}, {Int, -1}, {UUID, math.MaxInt32 + 1}} {
		if h, err := New(c.family, c.count); err == nil {
			t.Errorf("New(%q, %d) = %v, want an error", c.family, c.count, h)
		}
	}
}

func TestMalformedKeysAreErrors(t *testing.T) {
	texts := map[string][]string{
		Int: {"", "-", "+", "1a", " 1", "1.0", "0x10", "9223372036854775808", "-9223372036854775809", "99999999999999999999999", "\x00"},
		UUID: {"", "{}", "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-0000000000000", "g0000000-0000-0000-0000-000000000000",
			"-00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000", "0-0000000-0000-0000-0000-000000000000"},
	}
	binaries := map[string][][]byte{Int: {nil, {1}, {1, 2, 3}, make([]byte, 16)}, UUID: {nil, make([]byte, 15), make([]byte, 17), make([]byte, 36)}}
	for family := range texts {
		h := Hasher{family: family, count: 8}
		for _, text := range texts[family] {
			if shard, err := h.ShardText([]byte(text)); err == nil || shard != 0 {
				t.Errorf("%s %q: shard %d, %v", family, text, shard, err)
			}
		}
		for _, b := range binaries[family] {
			if shard, err := h.ShardBinary(b); err == nil || shard != 0 {
				t.Errorf("%s %x: shard %d, %v", family, b, shard, err)
			}
		}
	}
}

func TestParseInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v")
		if got, err := parseInt(strconv.AppendInt(nil, v, 10)); err != nil || got != v {
			t.Fatalf("%d reads as %d, %v", v, got, err)
		}
	})
}

func TestOtherFormsOfAUUID(t *testing.T) {
	h := Hasher{family: UUID, count: 480}
	want, err := h.ShardText([]byte("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"} {
		if got, err := h.ShardText([]byte(form)); err != nil || got != want {
			t.Errorf("%s: shard %d, %v, want %d", form, got, err, want)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	text := map[string][]byte{Int: []byte("-9223372036854775808"), UUID: []byte("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), Text: []byte("größe")}
	binary := map[string][]byte{Int: make([]byte, 8), UUID: make([]byte, 16), Text: []byte("größe")}
	for family := range text {
		h := Hasher{family: family, count: 480}
		n := testing.AllocsPerRun(100, func() {
			if _, err := h.ShardText(text[family]); err != nil {
				t.Fatal(err)
			}
			if _, err := h.ShardBinary(binary[family]); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", family, n)
		}
	}
}

func BenchmarkShard(b *testing.B) {
	for _, c := range []struct {
		name, family string
		text         bool
		value        string
	}{
		{"int8/binary", Int, false, "\x00\x00\x00\x00\x01\x02\x03\x04"},
		{"int8/text", Int, true, "-1234567890123"},
		{"uuid/binary", UUID, false, "0123456789abcdef"},
		{"uuid/text", UUID, true, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"text/20", Text, true, "customer-00000012345"},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, value := Hasher{family: c.family, count: 480}, []byte(c.value)
			shard := h.ShardBinary
			if c.text {
				shard = h.ShardText
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := shard(value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
