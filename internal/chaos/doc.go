// Command chaos plays whole migrations under load and hits them while they run: it kills
// and freezes commands, crashes servers and poolers, cuts connections, fills a disk, fails
// the source over, changes tables under way. At the end of each seed it holds the ledger
// of acknowledged writes against what the servers have. Its last line is one line of JSON;
// it exits 1 if a row was lost, doubled or misplaced, if a command did not come to its
// end when it was run again, or if a kind of fault that is possible here never hit.
//
//	go run ./internal/chaos [-seeds N] [-seed S]
//
// A seed decides its plan: which faults, in which stage, whether it goes back and
// forward again. -seed S plays that one alone. Moments are those of real processes and
// are not replayed.
//
// Invariants: a fault counts only if it was seen to hit something at work, which is noted
// with it; one that hit nothing is tried again in a later stage. One client owns a row, so
// the order of its writes is known; a write whose COMMIT was not answered may have
// happened or not, but as a whole. The judge uses nothing of shardctl: contents are
// compared row by row, and where a key belongs is asked of the server.
//
// Servers, commands and folders end with the process, also if it is killed (Linux); a small
// file system that root mounted then is unmounted by the next run.
package main
