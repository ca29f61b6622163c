// Package postgres holds what every part needs of a PostgreSQL connection:
// pinned settings, so that no role or database default bends a value; quoting;
// the identity of a server; the class of an error; locks taken so that we give
// way and not an application; and ending a backend for certain.
//
// It knows nothing of shardctl's state. It connects directly, never through a
// pooler: advisory locks and SET leak across clients there. A DSN never appears
// in its errors.
//
// Killed: a session's transaction is rolled back by the server; nothing here
// outlives a session.
package postgres
