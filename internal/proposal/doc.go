// Package proposal makes a first spec of what a source's catalog says: which tables
// move together by which key, which are copied everywhere, which cannot be migrated
// and why. It reads catalogs and statistics, no rows, and writes nothing.
//
// Read looks, Propose decides, Render writes it down; the last two are pure
// functions, so that the same catalog gives the same text.
//
// A key is a column that several tables have by the same name and in types of one
// hash family, and what it refers to, if that is one table's primary key. Of all
// such columns the one is proposed by which most tables find their rows, by
// themselves or through parents; columns that merely have the same name (a version,
// a status) do not count, nor do such as may be NULL or have few values. An operator
// may name another one.
//
// What comes out is a proposal: how many shards there are and where they live is for
// the operator to decide, and `plan` has the last word on what it finds.
//
// Killed: nothing to undo.
package proposal
