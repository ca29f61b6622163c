package journey

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/binary"
)

// statusKeys are the keys of status with the kinds of value that they may have.
var statusKeys = map[string]string{
	"migration": "text", "phase": "text", "epoch": "number", "next": "text",
	"capture.engine": "text", "capture.installed": "bool", "capture.backlog": "number", "capture.lag_seconds": "number null",
	"capture.apply_rows_per_s": "number null", "capture.log_bytes": "number", "capture.running": "bool",
	"backfill.percent": "number null", "backfill.rows_done": "number", "backfill.rows_estimated": "number", "backfill.rows_per_s": "number null",
	"backfill.eta_seconds": "number null", "backfill.tables": "list",
	"verify.state": "text", "verify.coverage": "number null", "verify.rows_compared": "number", "verify.differences": "number", "verify.unsettled": "number", "verify.at": "text null",
	"cutover.state": "text", "cutover.predicted_pause_ms": "number null", "cutover.last_pause_ms": "number null", "cutover.shards_moved": "number",
	"rollback.available": "bool", "rollback.reason": "text null", "rollback.lag_seconds": "number null",
	"databases": "list", "problems": "list",
}

var (
	databaseKeys = map[string]string{"name": "text", "reachable": "bool", "lag_seconds": "number null", "quarantined": "number"}
	copyKeys     = map[string]string{"name": "text", "state": "text", "chunks_done": "number", "chunks_total": "number null"}
	verifyKeys   = map[string]string{"state": "text", "mode": "text", "coverage": "number", "rows_compared": "number", "detects": "object null", "differences": "list", "truncated": "bool"}
	switchKeys   = map[string]string{"outcome": "text", "pause_ms.router": "number", "pause_ms.clients": "number null", "steps": "list", "databases": "list", "reason": "text null", "next": "text"}
	stepKeys     = map[string]string{"name": "text", "started": "text", "ms": "number", "outcome": "text"}
	routeKeys    = map[string]string{"key": "text", "shard": "number", "schema": "text", "database": "text", "epoch": "number", "owner": "text"}
	topologyKeys = map[string]string{"version": "number", "migration": "text", "epoch": "number", "shards": "list"}
	shardKeys    = map[string]string{"shard": "number", "database": "text", "host": "text", "port": "number", "dbname": "text", "schema": "text", "epoch": "number"}
	planKeys     = map[string]string{"findings": "list", "steps": "list"}
	findingKeys  = map[string]string{"id": "text", "severity": "text", "object": "text", "message": "text", "fix": "text null"}
	planStepKeys = map[string]string{"phase": "text", "summary": "text", "sql": "text", "undo": "text"}
	errorKeys    = map[string]string{"code": "text", "message": "text", "object": "text", "hint": "text", "exit": "number"}
)

// hasKeys fails the test for a key that is missing or of another kind.
func hasKeys(t testing.TB, what string, doc binary.Document, keys map[string]string) {
	t.Helper()
	for path, kinds := range keys {
		value, found := lookUp(doc, path)
		switch {
		case !found:
			t.Errorf("%s has no %s", what, path)
		case !slices.Contains(strings.Fields(kinds), kindOf(value)):
			t.Errorf("%s: %s is %v, not %s", what, path, value, kinds)
		}
	}
}

// eachHas checks the members of a list.
func eachHas(t testing.TB, what string, doc binary.Document, path string, keys map[string]string) {
	t.Helper()
	value, _ := lookUp(doc, path)
	members, _ := value.([]any)
	for i, m := range members {
		member, _ := m.(map[string]any)
		hasKeys(t, fmt.Sprintf("%s, %s[%d]", what, path, i), member, keys)
	}
}

func lookUp(doc binary.Document, path string) (any, bool) {
	var value any = map[string]any(doc)
	for _, key := range strings.Split(path, ".") {
		inner, _ := value.(map[string]any)
		next, found := inner[key]
		if !found {
			return nil, false
		}
		value = next
	}
	return value, true
}

// text gives the value at a path as text, "" if it is not there.
func text(doc binary.Document, path string) string {
	value, found := lookUp(doc, path)
	if !found {
		return ""
	}
	return fmt.Sprint(value)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "list"
	default:
		return "object"
	}
}

// status asks where the migration stands, which has to be the phase, with every key.
func (w *world) status(t testing.TB, phase string) binary.Document {
	t.Helper()
	doc := w.must(t, "status")
	w.statusHasKeys(t, doc)
	if got := text(doc, "phase"); got != phase {
		t.Fatalf("the phase is %s, not %s: %v", got, phase, doc)
	}
	return doc
}

func (w *world) statusHasKeys(t testing.TB, doc binary.Document) {
	t.Helper()
	what := "status in phase " + text(doc, "phase")
	hasKeys(t, what, doc, statusKeys)
	eachHas(t, what, doc, "databases", databaseKeys)
	eachHas(t, what, doc, "backfill.tables", copyKeys)
}
