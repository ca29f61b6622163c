// Package fence owns what forbids writes: the fences on the source, one a
// database; the closed fence and the placement guards on databases. It writes
// their definitions, enables and disables them inside a caller's transaction, and
// reads their state back. When to do which is the caller's.
//
// What a fence forbids is in the catalog, never in a row: a fence that reads an
// ownership row lets a writer with an older snapshot through. The row is read for
// the words of the message only. All functions are SECURITY DEFINER with a pinned
// search_path; all triggers let the migration's applier pass and are ENABLE ALWAYS
// or DISABLE, so that a replica-role session does not slip by.
//
//   - Source fence K, on each sharded table and all its partitions, with the
//     database's shards in the function's text: AFTER ROW, so that it judges the
//     row as it was finally written, old and new; BEFORE TRUNCATE. A derived row's
//     parents are read and locked FOR KEY SHARE: their keys cannot change into or
//     out of the fenced shards, because their own fence forbids it, so that only
//     their removal has to be held off; a stronger lock would make two sessions
//     that first add children and then update the parent deadlock. A missing
//     parent refuses INSERT and UPDATE and lets DELETE pass, or a cascade of rows
//     that did not move would break. Made dormant, enabled by a switch.
//   - Closed fence, on each table of a database: BEFORE STATEMENT, all writes.
//     Up until the database is opened; on everywhere tables until they are owned.
//   - Placement guard, on each sharded table of an open database: AFTER ROW for
//     rows and key changes that map to another location. With one shard there is
//     nothing to guard.
//
// A refused write fails with SQLSTATE 25006 (read_only_sql_transaction), which
// drivers take for "not the primary any more"; one that the guard refuses with
// 23514 (check_violation), since trying elsewhere does not help. Refusals are
// counted by a sequence, because a count in a table goes with the error.
//
// Killed: definitions and states change in the caller's transaction only.
package fence
