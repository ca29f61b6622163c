// Package restart starts a database's copy anew after a gap: the log lost entries that
// the database has not seen, so its rows may be stale and nobody knows which. It is
// emptied, and its position, ledger and tombstones begin again; the next backfill
// copies it.
//
// Only a database that owns nothing is touched. The caller holds the operator's lease,
// and those of the applier and the verifier: a catch-up would go on from positions that
// it remembers, a verification from passes that are void.
//
// The order is what keeps every moment safe. A gap stands for the database, as its row
// on the source or in what the log has lost, and refuses each tick until its last step:
//
//  1. The term is raised, so that nobody who was at work before commits any more.
//  2. What verification knows of the database becomes stale, its copy unfinished.
//  3. Capture records again, if it was stopped, with an empty log, and who may have
//     written without being recorded has ended.
//  4. A snapshot of the source, and its marker. Whatever changes beyond it is in the log;
//     whatever it sees is seen by each chunk that is read from now on.
//  5. On the database, in one transaction: a new number of the copy, all its rows gone,
//     the position at the marker. A chunk whose note is older than the marker is refused
//     by the number of the tick up to which tombstones count as pruned.
//  6. The gap's row goes, unless capture was stopped again meanwhile.
//
// Killed: each step is one transaction or may be done twice. Before the last one the gap
// stands and the command, run again, begins from the first; after it nothing is left.
package restart
