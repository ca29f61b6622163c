// Package journey holds the acceptance tests: they build the binary and drive it
// through whole migrations on real servers, as an operator would, while writers work
// through a real PgBouncer.
//
// It knows shardctl by its contract alone: command lines, exit codes, JSON, and the
// catalog. Its writers and its oracle share no code with what they judge: where a key
// belongs is asked of a table that the server partitions by hash, what a row should
// hold of the ledger that its writer keeps of every acknowledged state.
//
// What the tests hold to be true at every moment:
//   - No writer sees an error, but where a test stops the source itself.
//   - A writer reads what it wrote: each update and delete gives the row as it was
//     before, which must be what the ledger has.
//   - Where the application writes, every row of the ledger is there once, with its
//     contents, at its place, and no other row is.
//
// With SHARDCTL_JOURNEY=full the crash tests kill 20 times instead of a few. If the
// test process is killed, servers and commands end with it.
package journey
