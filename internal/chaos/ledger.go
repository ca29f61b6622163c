package main

import (
	"fmt"
	"maps"
	"sync"

	"github.com/google/uuid"
)

// row is what one row holds; the zero row is one that is not there.
type row struct {
	table   string
	parent  uuid.UUID // block: its workspace; comment: its block
	body    string
	version int64
}

// change is what a request makes of rows.
type change map[uuid.UUID]row

// doubt is a request whose COMMIT was not answered: all of it happened, or nothing.
type doubt struct{ before, after change }

// ledger is what the clients were told.
type ledger struct {
	mu           sync.Mutex
	rows         change
	doubts       []doubt
	doubted      map[uuid.UUID]bool
	acknowledged int
	wrong        []string // acknowledged rows that a client did not find
}

func newLedger() *ledger { return &ledger{rows: change{}, doubted: map[uuid.UUID]bool{}} }

// acknowledge notes a request whose COMMIT was answered.
func (l *ledger) acknowledge(c change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged++
	maps.Copy(l.rows, c)
}

// load notes rows that were there before any request.
func (l *ledger) load(c change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.rows, c)
}

// doubt notes a request whose COMMIT was not answered. Nobody writes its rows again.
func (l *ledger) doubt(c change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := change{}
	for id := range c {
		before[id] = l.rows[id]
		l.doubted[id] = true
	}
	l.doubts = append(l.doubts, doubt{before, c})
}

// complain notes an acknowledged row that was not where it is routed.
func (l *ledger) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acknowledged
}

// row is what a row was last acknowledged to be.
func (l *ledger) row(id uuid.UUID) row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[id]
}
