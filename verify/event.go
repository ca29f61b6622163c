package verify

// Event tells how a pass goes on.
type Event struct {
	Kind      EventKind
	Table     string // on the source
	Rows      int64  // of this table, read on the source so far
	Estimated int64  // rows of this table
	Keys      int    // narrowing: keys looked at one by one so far
	Total     int    // narrowing: of so many
	Reason    string // retrying: why
}

// EventKind says what an event is about.
type EventKind string

// The kinds.
const (
	Reading   EventKind = "reading"   // both sides are read
	Narrowing EventKind = "narrowing" // keys that may differ are looked at
	Retrying  EventKind = "retrying"  // a server failed in a way that may pass
	TableDone EventKind = "table_done"
)

func (v *Verifier) observe(e Event) {
	if v.cfg.Observe == nil {
		return
	}
	v.observing.Lock()
	defer v.observing.Unlock()
	v.cfg.Observe(e)
}
