// Package shardhash computes the logical shard of a key in Go, as PostgreSQL's
// PARTITION BY HASH does: the type's extended hash function with the partition
// seed, combined with zero, modulo the number of shards.
//
// It owns the hash and the reading of a key's bytes as COPY gives them. It
// handles no NULL (a caller decides what becomes of a row without a key), opens
// no connection, and is not imported by verify, which asks the server itself
// (package shardsql), so that an error here cannot hide itself.
//
// Invariants: a Hasher is a value without state and is safe for concurrent use;
// nothing is allocated for a key; what cannot be read as a value of the family is
// an error and never a shard. Text is hashed as its bytes, so the client's
// encoding must be the server's. Servers on big-endian machines hash text and
// uuid differently; the tables of such a server are not partitioned alike anyway.
package shardhash
