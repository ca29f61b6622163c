// Package postgres drives routers that are the application's own library: it reads
// the topology document from a table of a PostgreSQL database, and listens on a
// channel to learn of a new one.
//
// It owns one row for each migration: epoch and document. Schema and table are made
// when they are missing, and stay: readers depend on them. A notification carries
// migration and epoch alone, as it may have no more than 8000 bytes; readers take the
// document from the table.
//
// Invariants: row and notification are one transaction. The epoch of a row only grows,
// but for Forget, which makes it 0 and leaves the document: readers go on with it.
//
// It holds no clients: a reader that has not learned of a switch yet is refused by the
// fences, and reads the row again. It does not know who reads, and grants nothing.
//
// Killed in the middle of Commit it leaves the old row or the new one. A Commit whose
// session broke is tried once more on a new one: the same epoch again is no change.
// Stopped in the middle of it, the server ends it within a second: a watchdog has to write
// the row while clients wait.
package postgres
