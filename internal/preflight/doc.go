// Package preflight finds, before anything is changed, what would stop a migration
// or bend its rows. Each check is a file: it looks and returns findings with stable
// ids; it never changes anything and decides nothing.
//
// A check that could not look returns an error, never an empty list: "not found"
// and "could not look" are different answers. Findings of severity error block.
//
// Killed: nothing to clean up, it only reads.
package preflight
