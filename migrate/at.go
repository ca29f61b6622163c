package migrate

import "slices"

// placed is an error with the database that it came from.
type placed struct {
	database string
	err      error
}

// At notes from which database an error came. It is nil for nil.
func At(database string, err error) error {
	if err == nil {
		return nil
	}
	return &placed{database, err}
}

// Error names the database first.
func (p *placed) Error() string { return "database " + p.database + ": " + p.err.Error() }

// Unwrap gives the error without its place.
func (p *placed) Unwrap() error { return p.err }

// FailedAt lists, of the databases given, those that an error came from: by At, or as
// the object of a Failure.
func FailedAt(err error, databases []string) []string {
	var found []string
	note := func(name string) {
		if slices.Contains(databases, name) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	walk(err, func(e error) {
		switch e := e.(type) {
		case *placed:
			note(e.database)
		case *Failure:
			note(e.Object)
		}
	})
	return found
}

// walk visits an error and all that it wraps.
func walk(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			walk(wrapped, visit)
		}
	}
}
