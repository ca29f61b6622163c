package doctor

import (
	"errors"
	"strings"

	"github.com/shardctl/shardctl/internal/store"
	"github.com/shardctl/shardctl/migrate"
)

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// isConnect reports whether nobody was there to ask.
func isConnect(err error) bool {
	var f *migrate.Failure
	return errors.As(err, &f) && strings.HasPrefix(f.Code, "connect.")
}
