// Package histories plays random histories against the program, in one process and
// on real servers: sessions of an application with open transactions, ticks,
// chunks, rotation and pruning, one step at a time, so that one list of steps is one
// interleaving. A statement or a tick that waits for a lock stays behind while the
// others go on.
//
// When all sessions have ended, the copy is whole and the log is drained, each place
// of each database must hold exactly what the source places there, verification must
// agree, and nothing may be left in quarantine. Then the databases own the rows, are
// written, and everything is compared once more on the way back.
//
// A history is made of a number. One that fails is shrunk, and printed with the
// variables that play it again:
//
//	SHARDCTL_HISTORY_SEED=17 SHARDCTL_HISTORY_STEPS=3,4,9 go test -run TestHistories ./internal/histories
//
// SHARDCTL_HISTORIES is how many the long form plays (make chaos: 600). Defaults to 6.
package histories
