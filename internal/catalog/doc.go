// Package catalog reads what the system catalogs say about user tables: their
// columns with what a copy must know of each, their primary keys, their leaf
// partitions. It writes nothing and keeps nothing.
//
// It expects a session of package postgres: with search_path = pg_catalog every
// name that the server prints for a type, an expression or a collation is
// schema-qualified unless it is built in, so that the text means the same on any
// other server.
//
// What cannot be migrated at all (a table that is missing, a view, one without a
// primary key) is a *migrate.Failure that names the table and the way out; all
// that are found in one call come together. Killed: nothing to undo.
package catalog
