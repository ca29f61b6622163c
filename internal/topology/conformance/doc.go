// Package conformance is the one suite that every router driver passes, against the
// real thing. It is imported by tests alone.
package conformance
