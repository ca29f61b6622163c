package migrate

import (
	"errors"
	"fmt"
)

// Exit codes of the command line. They are part of the contract with runbooks.
const (
	ExitOK          = 0
	ExitError       = 1   // cannot connect, authenticate, read or write
	ExitDifferences = 3   // verification found differences
	ExitRefused     = 4   // a gate, a preflight finding or the order of phases
	ExitLeaseHeld   = 5   // another process holds the lease
	ExitAmbiguous   = 6   // the outcome is unknown, a person must look
	ExitAborted     = 7   // a switch was aborted in time, traffic is where it was
	ExitUsage       = 64  // usage, spec, unset variable
	ExitInterrupted = 130 // stopped by INT or TERM, state saved
)

// Failure is an error that a person must act on: it has a stable code, the
// object it is about, a hint, and the exit code the process ends with.
type Failure struct {
	Code    string // stable, dotted, e.g. "spec.unknown_key"
	Message string // what happened
	Object  string // to which object, or at which place ("line 3: sourse")
	Hint    string // what to do next
	Exit    int    // one of the Exit constants
	Err     error  // the cause, kept for errors.Is and errors.As
}

// Error gives the one line that an operator reads.
func (f *Failure) Error() string {
	s := f.Message
	if f.Object != "" {
		s = f.Object + ": " + s
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Refuse makes the failure of a gate, a finding or the order of phases (exit 4).
func Refuse(code, object, message, hint string) *Failure {
	return &Failure{Code: code, Object: object, Message: message, Hint: hint, Exit: ExitRefused}
}

// Usage makes the failure of a bad command line or spec (exit 64).
func Usage(code, object, message, hint string) *Failure {
	return &Failure{Code: code, Object: object, Message: message, Hint: hint, Exit: ExitUsage}
}

// Broken wraps a technical error that needs a hint (exit 1).
func Broken(code, object, message, hint string, err error) *Failure {
	return &Failure{Code: code, Object: object, Message: message, Hint: hint, Exit: ExitError, Err: err}
}

// ExitCode is the exit code an error asks for: 0 for nil, that of the first
// Failure in the chain, else 1.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var f *Failure
	if errors.As(err, &f) {
		return f.Exit
	}
	return ExitError
}

// Failures is several failures found at once, as a spec has them.
type Failures []*Failure

// Error lists all of them, one a line.
func (fs Failures) Error() string {
	s := ""
	for i, f := range fs {
		if i > 0 {
			s += "\n"
		}
		s += f.Error()
	}
	return s
}

// Unwrap lets errors.As find the members.
func (fs Failures) Unwrap() []error {
	out := make([]error, len(fs))
	for i, f := range fs {
		out[i] = f
	}
	return out
}

var _ fmt.Stringer = Phase("")
