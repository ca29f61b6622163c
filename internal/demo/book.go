package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"
)

// line is one row of the ledger as it is written to a file.
type line struct {
	Table   string     `json:"table,omitempty"`
	ID      uuid.UUID  `json:"id"`
	Parent  *uuid.UUID `json:"parent,omitempty"`
	Body    string     `json:"body,omitempty"`
	Version int64      `json:"version,omitempty"`
	Deleted bool       `json:"deleted,omitempty"` // acknowledged
	Unsure  bool       `json:"unsure,omitempty"`  // a write of it failed: either state is right
}

// save writes the ledger as JSON lines: what each row was acknowledged to be.
func (l *ledger) save(path string) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for id, r := range l.rows {
		out := line{Table: r.table, ID: id, Body: r.body, Version: r.version, Unsure: l.unsure[id]}
		if r.parent != uuid.Nil {
			out.Parent = &r.parent
		}
		if err := enc.Encode(out); err != nil {
			return fmt.Errorf("write the ledger: %w", err)
		}
	}
	for id := range l.gone {
		if err := enc.Encode(line{ID: id, Deleted: true, Unsure: l.unsure[id]}); err != nil {
			return fmt.Errorf("write the ledger: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}
