package auditlog

import (
	"github.com/shardctl/shardctl/internal/ddl"
	"github.com/shardctl/shardctl/internal/fence"
	"github.com/shardctl/shardctl/internal/logschema"
)

// Statements are all that Install runs on a side where nothing is there yet, for
// plan to print.
func Statements(s Side) []ddl.Statement {
	out := s.captureStatements()
	if !s.onSource() {
		return out
	}
	out = append(out, fence.SourceFunctions(s.Layout)...)
	for _, t := range s.Tables() {
		out = append(out, fence.SourceTriggers(s.Layout, t)...)
	}
	return out
}

// captureStatements make the logs of a side, their functions and triggers.
func (s Side) captureStatements() []ddl.Statement {
	var out []ddl.Statement
	for _, t := range s.Tables() {
		for segment := range logschema.Segments {
			out = append(out, s.segmentDDL(t, segment))
		}
		out = append(out, s.functionsDDL(t, 0)...)
		for _, root := range s.roots(t) {
			out = append(out, s.rowTrigger(t, root), s.truncateTrigger(t, root, root))
		}
		if s.onSource() {
			for _, leaf := range t.Source.Leaves {
				out = append(out, s.truncateTrigger(t, t.Spec.Name, leaf.Name))
			}
		}
	}
	return out
}
