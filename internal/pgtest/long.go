package pgtest

import "os"

// LongForm reports whether the long form of the tests is asked for, which takes hours where
// the short one takes minutes: SHARDCTL_JOURNEY=full.
func LongForm() bool { return os.Getenv("SHARDCTL_JOURNEY") == "full" }
