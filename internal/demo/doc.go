// Package demo runs the whole journey on throw-away servers, under a live writer
// that keeps a ledger of every write it was acknowledged, and at the end compares the
// ledger with what the databases hold.
//
// It owns the servers, the data, the writer, the ledger and the comparison. It does
// not know how a migration works: it is given a function that runs one command line
// of shardctl, the same that an operator types. The comparison uses nothing of
// shardctl: contents are compared row by row, and where a row belongs is asked of a
// table that the server partitions by hash.
//
// Invariants: one client owns a row, so the order of its writes is known; a write is in
// the ledger only after its COMMIT was answered; a write that failed is counted.
//
// Stopped by its context it removes everything. Killed: the servers end with the
// process, and their folders (and containers) with the next start. Kept: everything stays that the
// script in the demo's folder removes.
package demo
