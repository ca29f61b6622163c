package journey

import (
	"context"

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
