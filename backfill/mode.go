package backfill

import (
	"fmt"
)

// Mode is how a database is copied to.
type Mode string

// The modes. Live checks each row against what catch-up has done; fast lets
// catch-up wait and builds the keys afterwards.
const (
	Live Mode = "live"
	Fast Mode = "fast"
)

// Situation is what the choice of a mode depends on.
type Situation struct {
	Database     string
	HasRows      bool  // in one of our tables
	HasLedger    bool  // a chunk was copied already
	Owns         bool  // it owns its shards
	Indexed      bool  // unique indexes or foreign keys stand: it was copied before, and emptied
	Bytes        int64 // to copy, of all databases together; 0 is unknown
	LogPerSecond int64 // bytes by which the logs grow; 0 is unknown
	LogSoftLimit int64
}

// fastPerSecond is what a fast copy does at the least: a quarter of what four
// pipes do on two processors, so that an estimate errs to the safe side.
const fastPerSecond = 12 << 20

// ChooseMode decides a database's mode, and says why in one clause.
func ChooseMode(s Situation) (Mode, string) {
	if why := s.notFast(); why != "" {
		return Live, why
	}
	if s.Bytes > 0 && s.LogPerSecond > 0 && s.LogSoftLimit > 0 {
		seconds := s.Bytes / fastPerSecond
		if grows := seconds * s.LogPerSecond; grows > s.LogSoftLimit/2 {
			return Live, fmt.Sprintf("while its ticks wait the log would grow to about %d MB of the %d MB it may have", grows>>20, s.LogSoftLimit>>20)
		}
	}
	return Fast, "it is empty, so ticks can wait until its keys are built"
}

// notFast says why fast mode is not allowed; "" if it is.
func (s Situation) notFast() string {
	switch {
	case s.Owns:
		return "it owns its shards"
	case s.HasLedger:
		return "part of it is copied already"
	case s.HasRows:
		return "it has rows already"
	case s.Indexed:
		return "unique indexes or foreign keys stand beside its primary keys"
	}
	return ""
}
