package migrate

import "slices"

// Phase is where a migration stands. Verified is not a phase: it is the state
// of verification.
type Phase string

// The phases, in the order of a migration that goes well.
const (
	New           Phase = "new"
	Prepared      Phase = "prepared"
	Installed     Phase = "installed"
	Backfilling   Phase = "backfilling"
	Backfilled    Phase = "backfilled"
	PartlyCutOver Phase = "partly_cut_over"
	CutOver       Phase = "cut_over"
	RolledBack    Phase = "rolled_back"
	Completed     Phase = "completed"
	Aborted       Phase = "aborted"
)

// String gives the phase's name in JSON and messages.
func (p Phase) String() string { return string(p) }

// transitions are the legal moves; everything else is refused.
var transitions = map[Phase][]Phase{
	New:           {Prepared, Aborted},
	Prepared:      {Installed, Aborted},
	Installed:     {Backfilling, Aborted},
	Backfilling:   {Backfilled, Aborted},
	Backfilled:    {PartlyCutOver, CutOver, Aborted},
	PartlyCutOver: {CutOver, RolledBack},
	CutOver:       {PartlyCutOver, RolledBack, Completed},
	RolledBack:    {PartlyCutOver, CutOver, Aborted},
	Aborted:       {Prepared},
}

// CanMove reports whether a migration may go from one phase to another.
func CanMove(from, to Phase) bool { return slices.Contains(transitions[from], to) }

// Next is the command an operator runs after reaching p.
func (p Phase) Next() string {
	switch p {
	case New, Aborted:
		return "shardctl prepare"
	case Prepared:
		return "shardctl install"
	case Installed, Backfilling:
		return "shardctl backfill"
	case Backfilled:
		return "shardctl verify"
	case PartlyCutOver, RolledBack:
		return "shardctl cutover"
	case CutOver:
		return "shardctl complete"
	default:
		return ""
	}
}
