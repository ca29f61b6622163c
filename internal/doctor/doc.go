// Package doctor examines every invariant of a migration and says what it saw: each
// check has a state, the object it is about, the evidence, and the way out. It also
// mends what can be mended safely.
//
// Examine reads only. It looks at the databases first and at the source after them:
// whatever changes hands changes on the source first, so that a database that knows
// more than the source proves that the source went back in time. A check that could
// not look is "not run" with the reason, never ok. What does not apply in a phase is
// left out.
//
// A mend is one transaction under the locks that a switch would take, and does
// nothing if what it was planned for is no longer so. Mends never move rows: fences
// that have to stand are raised again, capture that was stopped goes on, a key that an
// operator gives up leaves the quarantine. Where writes may have been missed, the last
// verification is made stale first. When to mend, and who is asked, is the caller's.
//
// Nothing but cmd may import this package: it knows every part.
//
// Killed: a mend is done or not.
package doctor
