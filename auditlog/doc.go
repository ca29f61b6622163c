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
// Not here: when to install, rotate or stop; fences (made with the triggers, under the
// same lock, from package fence); the removal of registered objects (package ddl).
//
// Killed: every step is one transaction. Install run again compares the catalog and
// adds what lacks. A rotation is done or not. Nothing waits for a process.
package auditlog
