package demo

import (
	"sync"

	"github.com/google/uuid"
)

// row is one row of any of the demo's tables.
type row struct {
	table   string
	id      uuid.UUID
	parent  uuid.UUID // block: its workspace; comment: its block
	body    string
	version int64
}

// ledger is what the writer was told: the newest acknowledged state of each row.
type ledger struct {
	mu           sync.Mutex
	rows         map[uuid.UUID]row
	gone         map[uuid.UUID]bool // deleted, acknowledged
	unsure       map[uuid.UUID]bool // a write of it failed: either state is right
	acknowledged int64
	failed       int64
}

func newLedger() *ledger {
	return &ledger{rows: map[uuid.UUID]row{}, gone: map[uuid.UUID]bool{}, unsure: map[uuid.UUID]bool{}}
}

// acknowledge notes rows whose COMMIT was answered.
func (l *ledger) acknowledge(rows ...row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		l.rows[r.id] = r
		delete(l.gone, r.id)
	}
}

// remove notes an acknowledged delete.
func (l *ledger) remove(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.rows, id)
		l.gone[id] = true
	}
}

// count notes the answer to one request, and the rows it touched if it failed.
func (l *ledger) count(err error, touched ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acknowledged++
		return
	}
	l.failed++
	for _, id := range touched {
		l.unsure[id] = true
	}
}

func (l *ledger) totals() (acknowledged, failed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged, l.failed
}
