// Package exec drives a router by a hook: a program of the operator's, called as
// `command… VERB` with one JSON document on its standard input, which may answer with
// one on its standard output. Exit 0 is yes, any other is a veto, with the last lines
// of standard error as the reason.
//
// It owns how a hook is run: in a process group of its own, with a small environment
// that has none of shardctl's variables, within its timeout and the caller's, and with
// bounded output. When a call ends, its group is killed, so that nothing of it holds
// clients later: what is to stay has to leave the group (setsid).
//
// It does not know what is behind the hook. That the epoch only grows is the hook's to
// keep, under a lock of its own: it answers the epoch that it holds.
//
// Invariants: calls of one Router do not overlap. A pause that fails in any way is
// followed by resume. Resume ends a pause that still runs before it releases.
//
// Killed, shardctl takes a running hook along (on Linux), but not what the hook has
// started: a hook ends with `exec PROGRAM`, or leaves nothing running.
package exec
