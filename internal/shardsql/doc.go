// Package shardsql writes the SQL expression of a key's logical shard, so that a
// server computes it with its own hash functions, as PARTITION BY HASH does.
//
// It owns the arithmetic from the server's hash to the shard's number and runs
// nothing. It shares no code with package shardhash, which computes the same in
// Go: each is tested against real partitions, so that one can judge the other.
//
// Invariants: the expression needs no table, function or setting of ours on the
// server, is immutable and parallel safe, gives NULL for a NULL key and nothing
// else, never overflows, and means the same under every search_path that does not
// put another schema's operators before pg_catalog's. The functions that it calls
// exist since PostgreSQL 11.
package shardsql
