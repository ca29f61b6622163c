// Package topology says who owns each logical shard, and drives what leads clients
// there. It owns the topology document, the pure function that makes it of a spec
// and the ownership rows, and the interface of a router. The drivers are packages
// of their own: pgbouncer, file, postgres and exec; package conformance is the one
// suite that all of them pass.
//
// Invariants: in a document each logical shard has exactly one home. A driver never
// writes a document over one of a later epoch, writes it as a whole or not at all,
// and changes nothing but what is its own. A router is held only between Pause and
// Resume; a Pause that fails leaves nothing held.
//
// It knows no positions, logs or fences and decides nothing: it is told what to
// write and when to hold. That clients are held makes a switch quiet, not safe:
// safety is the fences'.
//
// Killed between Pause and Resume a process leaves its routers held. Any other
// process's Router of the same spec can Resume them, as a watchdog does. Killed in
// the middle of Commit it leaves some routers with the old document and some with
// the new one, each whole; Commit again.
package topology
