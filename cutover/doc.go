// Package cutover switches traffic: forward from the source to the databases, and
// back. It owns the order of a switch, its gates, the window in which clients
// wait, the sequences' lanes, and the watchdog that ends a window whose process died.
//
// Forward: hold the routers, refuse new writers and wait for those in flight (one
// lock on the source), only then read the end position, drain, sequences, compare what
// is left, commit ownership and fences in that same transaction — the point of no
// return —, open the databases, flip the routers and read them back, release.
// Back: hold the routers, close every database, drain what they wrote, one transaction
// on the source — the point of no return —, flip, release.
//
// Where a switch stands is never guessed from a journal but read from the catalog and
// the ownership rows: see observe.go. A command that is run again first brings the last
// attempt to an end in the direction that its point of no return says.
//
// Invariants:
//   - There is no moment with two writable owners of a key: the databases are opened
//     after the source's fences are committed, and the source after all databases' are.
//   - Nothing is undone on a guess. A COMMIT whose answer was lost is read back under the
//     row's exclusive lock, after its backend is gone.
//   - Undo runs on a context that outlives the caller's.
//   - A process with an older term commits nothing.
//
// It does not read logs, copy or compare rows: it is given an Applier and a Verifier.
//
// Killed before the point of no return: the server rolls the lock transaction back, the
// watchdog releases the routers, traffic is where it was. Killed after it: the watchdog
// finishes, or the next run does. Killed together with its watchdog: a watchdog on another
// host (beside.go) does the same where one runs; else the routers stay
// held, status says so, the next switch in either direction begins by finishing it, and
// until then complete and abort refuse. Stopped past its deadline and woken up: the watchdog
// has ended its sessions, those of a tick under way included, and has raised the term;
// the process then reads what became of its attempt.
package cutover
