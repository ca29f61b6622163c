// Package auditlog owns the audit log: what records the application's writes, and
// what brings them to the other side.
//
// # Capture
//
// A Side is one server whose writes are captured: the source (read forward) or a
// database (read in reverse). Each captured table has a typed log in two segments and
// two trigger functions that insert into the active one: the operation, the
// transaction's xid, the primary key, shard key and parent reference before and
// after. Keys only: the reader looks at the current row, so that order inside a batch
// does not matter, no session setting bends a value, and a writer pays for one INSERT.
//
// Invariants:
//   - The triggers are ENABLE ALWAYS on each table and leaf, a leaf having the row
//     trigger exactly once; the functions are SECURITY DEFINER, and no search_path of
//     the writer's means anything to them. Whoever writes, in whatever role, is
//     captured, and no write fails for want of a right on our schema. Only the migration's own applier is skipped.
//   - The first positions are committed before the first trigger.
//   - A segment is emptied only under its exclusive lock, after a look in a later
//     statement that everything in it is covered by every position; how far it reached
//     is recorded in the same transaction. Nothing is ever deleted row by row.
//   - What capture looked like is accepted in the transaction that makes it, and
//     compared at each check. DDL that may have lost writes is a clear stop.
//   - Above its hard limit the log stops growing and a gap stands, in one transaction.
//
// # The applier
//
// A tick takes a snapshot of the log's side, finds the entries beyond the position,
// commits a marker for the snapshot, reads the current rows of the keys that the
// entries name, and makes the other side equal for them in one transaction that also
// moves the position. One query a table gives each key with the location where its row
// is and one where it may have been; rows pass from COPY to COPY unread, into a staging
// table of each database that has to do with them, and are applied from there set by
// set, all statements in one message. Databases at one position share the reading.
//
// Invariants:
//   - The tables are locked before the snapshot is taken, and the marker is durable
//     before anything read in the snapshot is applied.
//   - The control row is shared, and term, owner, hold and position are checked, in the
//     transaction that writes. On the way back the database's control row is shared
//     until the source has committed.
//   - A batch is complete below its cut, and no cut leaves a TRUNCATE behind that lies
//     before entries of the batch.
//   - A delete that is issued leaves a tombstone, hit or not.
//   - On the way back only rows of the database's own shards are touched: what the
//     stored row's location or a unique value forbids is parked.
//   - No tick goes on over a gap. One of a database that owns nothing stops the applier;
//     of one that owns its shards it ends one way, and the others go on.
//   - A row that is refused for its own reasons is found by bisection and kept in
//     quarantine; the others go on. Transient errors are tried again, with first and
//     last reason told; everything else stops.
//   - No plan depends on statistics, which logs and staging tables do not have: keys are
//     looked up row by row, sets of keys are never joined by nested loops.
//
// Memory is a few blocks for each database and one row; the log's side sorts keys in its
// own temporary files. A session that breaks costs its tick; killed, the next tick does
// the same again, since an entry only says "look at this key".
//
// Not here: when to install, rotate or stop; fences (made with the triggers, under the
// same lock, from package fence); the removal of registered objects (package ddl).
//
// Killed: every step is one transaction. Install run again compares the catalog and
// adds what lacks. A rotation is done or not. Nothing waits for a process.
package auditlog
