package backfill

import "sync"

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventMode        EventKind = "mode"        // a database's mode was settled; Message says why
	EventChunk       EventKind = "chunk"       // a chunk is done for all databases of this run
	EventThrottled   EventKind = "throttled"   // no new chunk starts; Message says why
	EventGoing       EventKind = "going"       // it goes on
	EventRestarted   EventKind = "restarted"   // a relation was rewritten and is copied anew
	EventUnreachable EventKind = "unreachable" // a server failed and is tried again; Message has the error
	EventKeys        EventKind = "keys"        // a fast database's keys are being built
	EventWaiting     EventKind = "waiting"     // for catch-up, before what follows the copy
	EventFinishing   EventKind = "finishing"   // indexes and constraints of a database
	EventFinished    EventKind = "finished"    // a database has all of them
	EventLost        EventKind = "lost"        // at the end a database lacks what it had; Message says what
)

// Event is something that an observer may show.
type Event struct {
	Kind     EventKind
	Database string
	Table    string
	Chunk    int
	Rows     int64 // of the chunk
	Message  string
}

// events hands events to one observer, one at a time.
type events struct {
	mu   sync.Mutex
	each func(Event)
}

func (e *events) emit(ev Event) {
	if e.each == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.each(ev)
}
