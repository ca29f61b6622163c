package auditlog

import (
	"errors"

	"github.com/shardctl/shardctl/internal/postgres"
)

// passing reports whether an error may pass by itself, so that what failed is
// tried again: all else stops the applier.
func passing(err error) bool {
	return errors.Is(err, errStalled) || errors.Is(err, errMoved) || errors.Is(err, errUnfinished) || postgres.Passing(err)
}
