package journey

import (
	"strings"
	"testing"
	"time"
)

// TestOracleSeesDamage proves, without shardctl, that the writers see no error of their
// own making and that the oracle sees what it is for.
func TestOracleSeesDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{migration: "none", home: []int{0, 1}, schema: "shard_%03d", blocks: 600, writers: 4, pace: time.Millisecond, always: true})
	c := w.startCrowd(t)
	c.acknowledge(t, 150)
	c.sourceServes(t, false)
	c.finish(t)
	for name, damage := range map[string]string{
		"deleted or never written": "INSERT INTO block (id, workspace_id, doc) SELECT gen_random_uuid(), workspace_id, doc FROM block LIMIT 1",
		"is nowhere":               "DELETE FROM block WHERE id = (SELECT block_id FROM comment LIMIT 1)",
		"instead of":               "UPDATE comment SET body = body || ' ' WHERE id = (SELECT min(id) FROM comment)",
		"in 0 places":              "DELETE FROM plan WHERE id = (SELECT p.id FROM plan p WHERE NOT EXISTS (SELECT FROM block WHERE plan_id = p.id) LIMIT 1)",
	} {
		w.exec(w.sourceDSN(), damage)
		if verdict := c.sourceDiffers(); !strings.Contains(verdict, name) {
			t.Errorf("after %q the oracle says %q, not %q", damage, verdict, name)
		}
	}
}
