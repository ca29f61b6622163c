package journey

import (
	"fmt"
	"os"
)

// disks is what a full disk does to a switch.
var disks = []obstacle{{"a database's disk is full", 4, []string{"db0", "No space left on device"}, fullDisk}}

// fullDisk lets the file of a table's large values lead to a device that is always full,
// and writes one.
func fullDisk(s *siege) ([]string, func()) {
	database := s.w.databaseDSN(0)
	file := s.w.texts(database, `SELECT current_setting('data_directory') || '/' || pg_relation_filepath(reltoastrelid) FROM pg_class
	WHERE oid = 'shard_000.block'::regclass AND pg_relation_size(reltoastrelid) = 0`)
	if len(file) != 1 {
		s.t.Fatal("shard_000.block has large values before the test writes one")
	}
	s.w.exec(database, "CHECKPOINT")
	must(s.t, os.Rename(file[0], file[0]+".kept"))
	must(s.t, os.Symlink("/dev/full", file[0]))
	const large = "INSERT INTO public.block (id, workspace_id, doc) SELECT '%s', '%s', to_jsonb(string_agg(md5(i::text), '')) FROM generate_series(1, 20000) i"
	s.w.exec(s.w.sourceDSN(), fmt.Sprintf(large, extra, s.workspaceOf(0)))
	return nil, func() {
		must(s.t, os.Remove(file[0]))
		must(s.t, os.Rename(file[0]+".kept", file[0]))
		s.w.exec(s.w.sourceDSN(), "DELETE FROM public.block WHERE id = '"+extra+"'")
		// A session that met the full file has it open.
		s.w.exec(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'shardctl %'")
		s.again()
	}
}
