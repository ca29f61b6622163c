// Package pgbouncer drives PgBouncer: it changes the entries of a spec in an included
// databases file, holds and releases clients by PAUSE and RESUME, and reads back where
// the pooler really leads.
//
// It owns host, port and dbname of the spec's entries and, where each logical shard has
// a schema, their connect_query; besides that one comment line a migration at the top
// of the file, which keeps the epoch. Everything else stays byte for byte. Entries have
// to be there already: it adds none, since a misspelt name would then split the clients.
//
// Invariants:
//   - The file is replaced as a whole, under a lock, and only by an epoch that is not
//     earlier than the one in it.
//   - A Pause that fails leaves nothing held. Its RESUME goes the way of its PAUSE, so
//     that it cannot overtake it, and then another connection proves that nothing is.
//   - Bare PAUSE only where all entries are ours; it also is what 1.18 shows nowhere. That a
//     pooler is not held is known by RESUME being refused.
//   - RELOAD answers OK to a file that it could not read, or could read by half: only
//     ReadBack counts.
//
// Killed while it holds: the pooler stays held until any Router of the spec, in any
// process, is told to Resume. Killed during Probe: entries named shardctl_probe_… are
// left in the file and taken out by the next Probe or Commit.
package pgbouncer
