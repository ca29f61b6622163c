// Package backfill copies the rows that were there before capture began, in
// chunks of physical pages, from the source (or a replica) to every database.
//
// It owns the chunk plan and its queue (shardctl.backfill_plan, shardctl.chunk on
// the source), the ledger on each database, the mode of each database (live or
// fast), the throttle and the pause. It does not read logs, moves no position,
// and builds nothing after the copy but the primary keys it dropped itself: a
// Finisher does the rest.
//
// # Live
//
// Catch-up may have written a newer row already, or applied the delete of a row
// that a chunk still carries. So, in this order: the newest tick is noted in the
// queue and committed; the chunk's snapshot opens and is read; then, per database
// in one transaction: control row shared; pruned_through shared, and if the note
// is below it the chunk is read again; the table's ticks excluded; keys that exist
// dropped; keys with a tombstone later than the note dropped; the rest copied; the
// ledger line; commit.
//
// # Fast
//
// While a database is empty its ticks can wait (control row held) and its primary
// keys be dropped. Every chunk's snapshot opens later than the held position, so
// the first tick afterwards re-reads all that changed meanwhile: nothing need be
// checked, and of duplicates any may survive.
//
// # Invariants
//
//   - A chunk is done for a database when that database's ledger has it, and for no
//     other reason: the line is committed with the rows. The queue only remembers, and a
//     database that fails over may lose lines at any time: they are read again in the end,
//     behind all that follows the copy.
//   - A plan's number is never used again. A relation that is rewritten gets a new
//     plan; lines of the old one count for nothing.
//   - A chunk writes only rows that its own note covers, and only under the same
//     control.plan that it was read under.
//   - An existing row is never replaced, but by one of a higher version while the
//     database's position is not beyond the chunk's note.
//   - Memory is bounded by workers × part size, whatever the rows; connections by
//     workers and databases (Connections).
//
// # Killed
//
// The chunk it had is taken over as soon as its session is gone, or 15 s after its
// last heartbeat. Parts of it that were committed are found and dropped by the next
// reader. A worker that was only stopped and wakes up late finds the ledger line,
// or tombstones pruned beyond its note, and throws its rows away.
package backfill
