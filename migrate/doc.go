// Package migrate is the inner vocabulary of shardctl: the spec, the phases and
// their legal moves, the shard map, findings and steps, failures with exit
// codes, and the runner. Everything depends inward on it; it depends on no
// other package of this module, opens no connection, holds no SQL and computes
// no shard of a key: verify imports it and must not reach the hash in Go.
//
// Invariants: a Spec that Decode returned is complete and consistent; a DSN is a
// Secret and never formats as itself; the phase table is the only place that
// says which command may follow which.
package migrate
