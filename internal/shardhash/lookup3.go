package shardhash

import (
	"encoding/binary"
	"math/bits"
)

// The hash is Bob Jenkins' lookup3 (public domain, May 2006) in the form that
// PostgreSQL gives it in src/common/hashfn.c: hash_bytes_extended and
// hash_bytes_uint32_extended, for little-endian machines.

// start is what all three words begin with, plus the length of the key.
const start = 0x9e3779b9 + 3923095

// mix reverses: no pair of inputs is lost between two blocks.
func mix(a, b, c uint32) (uint32, uint32, uint32) {
	a -= c
	a ^= bits.RotateLeft32(c, 4)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 6)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 8)
	b += a
	a -= c
	a ^= bits.RotateLeft32(c, 16)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 19)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

// final mixes the last block into b and c, which are the result.
func final(a, b, c uint32) uint64 {
	c ^= b
	c -= bits.RotateLeft32(b, 14)
	a ^= c
	a -= bits.RotateLeft32(c, 11)
	b ^= a
	b -= bits.RotateLeft32(a, 25)
	c ^= b
	c -= bits.RotateLeft32(b, 16)
	a ^= c
	a -= bits.RotateLeft32(c, 4)
	b ^= a
	b -= bits.RotateLeft32(a, 14)
	c ^= b
	c -= bits.RotateLeft32(b, 24)
	return uint64(b)<<32 | uint64(c)
}

// seeded is the state before the first block of a key of that length.
func seeded(length int, seed uint64) (a, b, c uint32) {
	a = start + uint32(length)
	b, c = a, a
	if seed != 0 {
		a, b, c = mix(a+uint32(seed>>32), b+uint32(seed), c)
	}
	return a, b, c
}

// hashBytes is hash_bytes_extended.
func hashBytes(k []byte, seed uint64) uint64 {
	a, b, c := seeded(len(k), seed)
	for len(k) >= 12 {
		a, b, c = mix(a+binary.LittleEndian.Uint32(k), b+binary.LittleEndian.Uint32(k[4:]), c+binary.LittleEndian.Uint32(k[8:]))
		k = k[12:]
	}
	// The rest fills a, then b, then the upper three bytes of c, whose lowest
	// byte belongs to the length.
	for i, v := range k {
		switch shift := 8 * (i & 3); i >> 2 {
		case 0:
			a += uint32(v) << shift
		case 1:
			b += uint32(v) << shift
		default:
			c += uint32(v) << (shift + 8)
		}
	}
	return final(a, b, c)
}

// hashUint32 is hash_bytes_uint32_extended.
func hashUint32(k uint32, seed uint64) uint64 {
	a, b, c := seeded(4, seed)
	return final(a+k, b, c)
}

// hashInt64 is hashint8extended. It gives an int2 or int4 the hash that its own
// type's function does.
func hashInt64(v int64, seed uint64) uint64 {
	low, high := uint32(v), uint32(uint64(v)>>32)
	if v < 0 {
		high = ^high
	}
	return hashUint32(low^high, seed)
}
