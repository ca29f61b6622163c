// Package ddl holds definitions as data: a statement with the object that it
// makes and the SQL that removes it again. A plan prints them, Create registers
// and runs them, Remove walks the registry backwards.
//
// Invariants: an object is registered on the source, committed, before it is
// created; an undo removes nothing but that object and succeeds where it is
// absent; it never cascades into what is not ours.
//
// Killed between registration and creation: the registry names an object that
// does not exist, which both a second Create and Remove tolerate. Killed in the
// middle of Remove: what was removed is gone or still registered; Remove again.
package ddl
