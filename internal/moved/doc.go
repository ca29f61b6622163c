// Package moved removes from the source the rows that databases own since a cutover.
//
// It owns the checks that tell whether they may go and the one transaction in which
// they go: pre-lock, ownership rows, ACCESS EXCLUSIVE in short tries, every check once
// more, TRUNCATE of all sharded tables in one statement, and the note of it in the
// state. The session is the applier's, so that neither fences nor capture see it: a
// TRUNCATE in the log would empty the databases. Fences stay, and so do the tables.
//
// TRUNCATE never cascades. What would be emptied, fire or be told beyond the sharded
// tables is named and refused: foreign keys from other tables, triggers on TRUNCATE,
// publications. Rows without a key were left to the source and refuse too.
//
// Killed: the server rolls back, or all is done and noted. Run it again.
package moved
