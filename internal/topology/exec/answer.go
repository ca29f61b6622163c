package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/shardctl/shardctl/internal/topology"
	"github.com/shardctl/shardctl/migrate"
)

// question is what a hook is given.
type question struct {
	Verb       string             `json:"verb"`
	Migration  string             `json:"migration"`
	Epoch      int64              `json:"epoch"`  // of the document; 0 without one
	Shards     []int              `json:"shards"` // in scope
	Topology   *topology.Topology `json:"topology,omitempty"`
	DeadlineMS int64              `json:"deadline_ms"` // until it is killed
}

// answer is what a hook may say.
type answer struct {
	Epoch    *int64             `json:"epoch"` // of the document that it holds; 0 is none
	Version  string             `json:"version"`
	Topology *topology.Topology `json:"topology"` // that it holds
	Findings []migrate.Finding  `json:"findings"`
}

// mostFindings is more than anybody reads.
const mostFindings = 100

// parse reads an answer strictly: a slip of the pen must not pass for silence.
func parse(content []byte) (a answer, err error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return answer{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return answer{}, fmt.Errorf("no JSON answer: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return answer{}, errors.New("more than one JSON document")
	}
	if a.Epoch != nil && *a.Epoch < 0 || len(a.Findings) > mostFindings {
		return answer{}, fmt.Errorf("a negative epoch, or more than %d findings", mostFindings)
	}
	for i := range a.Findings {
		if err := complete(&a.Findings[i]); err != nil {
			return answer{}, err
		}
	}
	return a, nil
}

func complete(f *migrate.Finding) error {
	switch f.Severity {
	case migrate.SeverityError, migrate.SeverityWarning, migrate.SeverityInfo:
	default:
		return fmt.Errorf("severity %.20q of a finding is none of error, warning, info", string(f.Severity))
	}
	if f.Message == "" {
		return errors.New("a finding without a message")
	}
	if f.ID == "" {
		f.ID = "router.hook"
	}
	return nil
}
