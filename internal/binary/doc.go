// Package binary builds shardctl, once for a test process, and drives it as an
// operator or a script does: by arguments, environment, signals, exit codes and what
// it prints. Nothing of the program's own code is called.
//
// Invariants: a command that a test starts ends with the test process, also where
// that is killed (Linux); one that does not end within Patience fails its test, with
// the stacks of its goroutines.
package binary
