package shardhash

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The families of key types; the types of one family hash alike.
const (
	Int  = "int"  // int2, int4, int8
	UUID = "uuid" // uuid
	Text = "text" // text, varchar
)

const (
	// partitionSeed is HASH_PARTITION_SEED of src/include/catalog/partition.h.
	partitionSeed = 0x7A5B22367996DCFD
	// combined is what hash_combine64 adds to the hash of the first key column:
	// the rest of its formula is made of the hash so far, which is zero.
	combined = 0x49a0f4dd15e5a8e3
)

// Hasher gives the shard of a key of one family, among a number of shards.
type Hasher struct {
	family string
	count  uint64
}

// New makes a Hasher. The count is from 1 to 2^31-1.
func New(family string, count int) (Hasher, error) {
	if family != Int && family != UUID && family != Text {
		return Hasher{}, fmt.Errorf("hash key: no family of types %q", family)
	}
	if count < 1 || count > math.MaxInt32 {
		return Hasher{}, fmt.Errorf("hash key: a count of %d shards is not from 1 to %d", count, math.MaxInt32)
	}
	return Hasher{family: family, count: uint64(count)}, nil
}

func (h Hasher) shard(hash uint64) int { return int((hash + combined) % h.count) }

// ShardInt is the shard of an integer of any width. The family must be Int.
func (h Hasher) ShardInt(v int64) int { return h.shard(hashInt64(v, partitionSeed)) }

// ShardUUID is the shard of a uuid. The family must be UUID.
func (h Hasher) ShardUUID(v [16]byte) int { return h.shard(hashBytes(v[:], partitionSeed)) }

// ShardBytes is the shard of a text given as its bytes in the server's encoding.
// The family must be Text.
func (h Hasher) ShardBytes(v []byte) int { return h.shard(hashBytes(v, partitionSeed)) }

// ShardText is the shard of a key in text form: as a server prints it, escapes of
// COPY undone. It is never NULL.
func (h Hasher) ShardText(value []byte) (int, error) {
	switch h.family {
	case Int:
		v, err := parseInt(value)
		if err != nil {
			return 0, err
		}
		return h.ShardInt(v), nil
	case UUID:
		v, err := parseUUID(value)
		if err != nil {
			return 0, err
		}
		return h.ShardUUID(v), nil
	}
	return h.ShardBytes(value), nil
}

// ShardBinary is the shard of a key in the binary form of COPY and the protocol.
// It is never NULL.
func (h Hasher) ShardBinary(value []byte) (int, error) {
	switch {
	case h.family == Text:
		return h.ShardBytes(value), nil
	case h.family == UUID && len(value) == 16:
		return h.ShardBytes(value), nil
	case h.family == Int && len(value) == 8:
		return h.ShardInt(int64(binary.BigEndian.Uint64(value))), nil
	case h.family == Int && len(value) == 4:
		return h.ShardInt(int64(int32(binary.BigEndian.Uint32(value)))), nil
	case h.family == Int && len(value) == 2:
		return h.ShardInt(int64(int16(binary.BigEndian.Uint16(value)))), nil
	}
	return 0, fmt.Errorf("hash key: %d bytes are no binary value of family %s", len(value), h.family)
}
