// Package blueprint reads how the migrated tables are defined on the source:
// columns, keys, checks, indexes, foreign keys, triggers, partitions, sequences,
// grants, policies, and the types and functions that any of these use. It reads
// only, and keeps text that means the same on another server: a session of
// package postgres qualifies every name outside pg_catalog.
//
// Where a definition names the table itself (an index, a trigger) it is taken
// apart at that place, which is found by reading the text as SQL tokens or by a
// prefix the server is asked for, never by searching in it: a user's string may
// hold anything.
//
// It does not decide what is made on a database, nor how it is called there.
package blueprint
