package auditlog_test

import (
	"testing"

	"github.com/shardctl/shardctl/auditlog"
	"github.com/shardctl/shardctl/internal/layout"
)

// TestUninstallLostNeedsNoSource: the reverse log goes by its names alone, from partitions
// too, and nothing of another migration's.
func TestUninstallLostNeedsNoSource(t *testing.T) {
	t.Parallel()
	s := installed(t, stageSpec{ddl: parts, databases: 1})
	conn, byName := s.connect(t, s.env().Databases[0]), layout.ByName(s.spec)
	const ours = `SELECT tgname FROM pg_trigger WHERE tgname IN ('shardctl_m_capture', 'shardctl_m_truncate')
		UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE 'm\_capture%' UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'm\_log%'`
	s.dbs[0].Exec(t, `CREATE TABLE shardctl.mm_log_1_0 (); CREATE FUNCTION shardctl.mm_capture_1() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TABLE other (); CREATE TRIGGER shardctl_mm_capture AFTER INSERT ON other EXECUTE FUNCTION shardctl.mm_capture_1()`)
	if there, err := auditlog.Captured(t.Context(), byName, "db0", conn); err != nil || !there {
		t.Errorf("before: the reverse log is there %v, %v", there, err)
	}
	for range 2 {
		must(t, auditlog.UninstallLost(t.Context(), byName, "db0", conn))
	}
	wantRows(t, "left", s.dbs[0].Rows(t, ours))
	if there, err := auditlog.Captured(t.Context(), byName, "db0", conn); err != nil || there {
		t.Errorf("after: the reverse log is there %v, %v", there, err)
	}
	wantRows(t, "another migration's", s.dbs[0].Rows(t, `SELECT tgname FROM pg_trigger WHERE tgname LIKE 'shardctl\_mm%'
		UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE 'mm\_%' UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'mm\_log%'`),
		"shardctl_mm_capture", "mm_capture_1", "mm_log_1_0")
}
