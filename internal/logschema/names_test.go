package logschema_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/logschema"
)

// all gives every name for one migration, table, database and shard.
func all(m string, table, database, shard int) []string {
	return []string{
		logschema.Log(m, table, 0), logschema.Log(m, table, 1), logschema.Tombstones(m, table), logschema.Switch(m),
		logschema.FenceHits(m), logschema.Capture(m, table), logschema.CaptureTruncate(m, table),
		logschema.Fence(m, table, database), logschema.FenceTruncate(m, database),
		logschema.Closed(m), logschema.Guard(m, table, shard),
		logschema.Store(m, table, shard), logschema.HandDown(m, table, shard),
		logschema.CaptureTrigger(m), logschema.CaptureTruncateTrigger(m),
		logschema.FenceTrigger(m, database), logschema.FenceTruncateTrigger(m, database),
		logschema.ClosedTrigger(m), logschema.GuardTrigger(m),
		logschema.StoreTrigger(m), logschema.HandDownTrigger(m),
	}
}

func TestNamesFitAnIdentifier(t *testing.T) {
	longest := strings.Repeat("m", logschema.MaxMigration)
	for _, name := range all(longest, 9999, 9999, 99999) {
		if len(name) > 63 {
			t.Errorf("%s has %d bytes, an identifier has 63", name, len(name))
		}
	}
}

func TestNamesDiffer(t *testing.T) {
	seen := map[string]int{}
	for i, name := range all("m", 1, 1, 1) {
		if before, ok := seen[name]; ok {
			t.Errorf("objects %d and %d are both called %s", before, i, name)
		}
		seen[name] = i
	}
	for _, name := range all("m_1", 1, 1, 1) {
		if _, ok := seen[name]; ok {
			t.Errorf("migrations m and m_1 share the name %s", name)
		}
	}
}
