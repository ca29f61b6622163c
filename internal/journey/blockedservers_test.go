package journey

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/shardctl/shardctl/internal/localpg"
)

// servers are those that do not serve, or are others.
var servers = []obstacle{
	{"a database is read-only", 4, []string{"db1", "read-only"}, altered("SET default_transaction_read_only = on", "RESET default_transaction_read_only")},
	{"a database takes no more connections", 4, []string{"no query through it reaches", "app_db1", "too many connections"}, altered("CONNECTION LIMIT 0", "CONNECTION LIMIT -1")},
	{"databases behind each other's DSN", 4, []string{"db0", "not the database that the migration was prepared on"}, func(s *siege) ([]string, func()) {
		_, first := set("DB0_DSN", func(s *siege) string { return secretDSN(s.w.targetOf(1).Port(), operator, "app_db1") })(s)
		_, second := set("DB1_DSN", func(s *siege) string { return secretDSN(s.w.targetOf(0).Port(), operator, "app_db0") })(s)
		return nil, func() { second(); first() }
	}},
	{"an empty database behind a DSN", 4, []string{"db1", "not the database that the migration was prepared on"}, set("DB1_DSN", func(s *siege) string { return secretDSN(s.w.targetOf(1).Port(), operator, "postgres") })},
	{"the source is a standby", 4, []string{"source", "in recovery"}, func(s *siege) ([]string, func()) {
		standby, err := localpg.NewStandby(context.Background(), s.w.source.Cluster)
		must(s.t, err)
		_, undo := set("SOURCE_DSN", func(*siege) string { return secretDSN(standby.Port(), operator, "app") })(s)
		return nil, func() { undo(); must(s.t, standby.Close()) }
	}},
	{"a database is slow", 4, []string{"catchup", "the last drain took"}, statements(0,
		`CREATE FUNCTION public.slow() RETURNS bool LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.26); RETURN true; END';
		ALTER TABLE shardctl.position ADD CONSTRAINT slow CHECK (public.slow()) NOT VALID`,
		"ALTER TABLE shardctl.position DROP CONSTRAINT slow; DROP FUNCTION public.slow()")},
	{"a database's disk is full", 4, []string{"db0", "No space left on device"}, fullDisk},
	{"a database is down", 1, []string{"db1"}, func(s *siege) ([]string, func()) {
		s.w.targetOf(1).Stop(s.t, "fast")
		return nil, func() { s.w.targetOf(1).Start(s.t); s.again() }
	}},
}

// altered changes a database's own properties.
func altered(do, undo string) func(*siege) ([]string, func()) {
	return func(s *siege) ([]string, func()) {
		dsn := s.w.targetOf(1).DSN("postgres")
		s.w.exec(dsn, "ALTER DATABASE app_db1 "+do)
		return nil, func() { s.w.exec(dsn, "ALTER DATABASE app_db1 "+undo) }
	}
}

// fullDisk puts a table on a small file system in memory that is full, and writes to it.
func fullDisk(s *siege) ([]string, func()) {
	folder, err := os.MkdirTemp(s.w.dir, "disk")
	must(s.t, err)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "shardctl-journey", folder).CombinedOutput(); err != nil {
		s.t.Skipf("no small file system can be had: %s", out)
	}
	space := folder + "/space"
	server := s.w.targetOf(0).DSN("postgres")
	must(s.t, os.Mkdir(space, 0o700))
	must(s.t, exec.Command("chown", "postgres", space).Run())
	s.w.exec(server, "CREATE TABLESPACE small LOCATION '"+space+"'")
	s.w.exec(s.w.databaseDSN(0), "ALTER TABLE shard_000.block SET TABLESPACE small")
	filler, err := os.Create(folder + "/filler")
	must(s.t, err)
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := filler.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	must(s.t, filler.Close())
	const large = "INSERT INTO public.block (id, workspace_id, doc) SELECT '%s', '%s', to_jsonb(string_agg(md5(i::text), '')) FROM generate_series(1, 20000) i"
	s.w.exec(s.w.sourceDSN(), fmt.Sprintf(large, extra, s.workspaceOf(0)))
	return nil, func() {
		must(s.t, os.Remove(filler.Name()))
		s.w.exec(s.w.sourceDSN(), "DELETE FROM public.block WHERE id = '"+extra+"'")
		s.w.exec(s.w.databaseDSN(0), "ALTER TABLE shard_000.block SET TABLESPACE pg_default")
		s.w.exec(server, "CHECKPOINT")
		s.w.exec(server, "DROP TABLESPACE small")
		must(s.t, exec.Command("umount", folder).Run())
	}
}
