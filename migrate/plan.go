package migrate

// Severity of a finding. An error blocks the migration.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)

// Finding is one thing that a preflight check saw.
type Finding struct {
	ID       string   `json:"id"` // stable, e.g. "key.null"
	Severity Severity `json:"severity"`
	Object   string   `json:"object"`
	Message  string   `json:"message"`
	Fix      *string  `json:"fix"` // SQL, or null
}

// Step is one thing that a phase will do, with the way back.
type Step struct {
	Phase   string `json:"phase"`
	Summary string `json:"summary"`
	SQL     string `json:"sql"`
	Undo    string `json:"undo"`
}

// Plan is what `plan` prints: read-only.
type Plan struct {
	Findings []Finding `json:"findings"`
	Steps    []Step    `json:"steps"`
}

// Blocked reports whether a finding forbids going on.
func (p Plan) Blocked() bool {
	for _, f := range p.Findings {
		if f.Severity == SeverityError {
			return true
		}
	}
	return false
}
