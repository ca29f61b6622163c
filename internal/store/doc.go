// Package store owns schema shardctl: the state of migrations on the source and
// on each database. It creates the tables and is the only place that takes the
// control locks, so that their order is the same everywhere.
//
// Invariants:
//   - Every control table has a primary key.
//   - A control row is read under its lock or only shown, never acted on: a stale
//     process commits after a take-over otherwise. First the advisory lock, then the
//     row: sharers starve a changer on a row lock alone.
//   - A position is saved in the transaction that writes its data.
//   - A marker is committed, synchronously, before anything read at its snapshot is applied.
//   - No DSN is stored.
//
// It decides nothing: what a phase, an owner or a term means is the caller's.
//
// Killed: every function is one statement or part of the caller's transaction.
// A lease's session lock is released by the server; its row stays and names the
// last holder.
package store
