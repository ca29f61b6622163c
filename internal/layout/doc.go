// Package layout joins the spec with what the source's catalog says: each
// migrated table with its number, its key columns, the family by which they
// hash, its parents and children, and where its rows live on the databases. It
// gives the SQL fragments for "the key of a row" and "the shard of a key".
//
// It opens no connection and changes nothing. A spec that does not fit the
// source (a key column that is missing or of a type that does not hash, two
// families in one group, a parent that `via` cannot refer to) is refused with
// *migrate.Failures that name table and column, all at once.
//
// Invariants: numbers are places in the spec, from 1, and never change; a table
// with a Key finds it in at most migrate.MaxChain joins; all keys are of one family;
// with one shard every row belongs to shard 0, whatever its key.
package layout
