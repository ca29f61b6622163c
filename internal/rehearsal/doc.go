// Package rehearsal builds, on this machine, a small world like the one that a spec
// names: a source with the schema of the spec's source and, if wanted, a sample of its
// rows; a server for the databases; a pooler for each that the spec has; and a spec
// that names these in the place of the real ones. What is then done with it is the
// caller's: the real commands, as an operator types them.
//
// It reads the real source only: definitions by pg_dump, rows by COPY in one read-only
// snapshot, keyed so that a child's row comes only with its parent's. It connects to
// no real database and to no real router, and the real DSNs are neither written to a
// file nor put on a command line.
//
// The servers are package localpg's: stopped by its context, Close removes them;
// killed, they end with the process, and their folders with the next start.
package rehearsal
