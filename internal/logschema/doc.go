// Package logschema holds the names of everything shardctl makes inside a
// PostgreSQL server: logs, tombstones, functions, triggers, and the session
// setting that marks an applier. It holds no SQL that runs, so that the package
// that judges (verify) and the packages it judges can agree on names without
// sharing code.
//
// Invariants: a name is a pure function of the migration's name, a table's
// number (its place in the spec, from 1) and a database's place (from 1); with
// the longest migration name allowed it fits the 63 bytes of an identifier, so
// no server ever truncates it; two different objects never share a name.
package logschema
