package auditlog

import (
	"errors"

	"github.com/shardctl/shardctl/internal/postgres"
	"github.com/shardctl/shardctl/migrate"
)

// passing reports whether an error may pass by itself, so that what failed is
// tried again: all else stops the applier.
func passing(err error) bool {
	if errors.Is(err, errStalled) || errors.Is(err, errMoved) || errors.Is(err, errUnfinished) || postgres.Transient(err) {
		return true
	}
	var f *migrate.Failure
	if !errors.As(err, &f) {
		return false
	}
	switch f.Code {
	case "connect.failed":
		return true
	case "connect.refused":
		return postgres.Transient(f.Err)
	}
	return false
}
