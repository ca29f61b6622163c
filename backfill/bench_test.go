package backfill_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/backfill"
	"github.com/shardctl/shardctl/internal/layout"
	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// wide is a table of about 300 bytes a row, over 16 shards of four databases.
func wide(rows int) setup {
	const columns = `(id uuid PRIMARY KEY, ws bigint NOT NULL, parent uuid, kind text NOT NULL, body text, version int NOT NULL, at timestamptz NOT NULL)`
	return setup{
		shards: 16, databases: 4,
		ddl: "CREATE TABLE block " + columns + fmt.Sprintf(`; INSERT INTO block SELECT gen_random_uuid(), (random() * 1e6)::bigint, gen_random_uuid(), 'text', repeat(md5(i::text), 6), 1, now()
			FROM generate_series(1, %d) i`, rows),
		tables: []migrate.Table{{Name: name("block"), Key: migrate.Key{Column: "ws"}}},
		target: map[string]string{"block": columns},
	}
}

// indexes builds two indexes on every database, as a reference and a finisher do.
func (f *fixture) indexes(t testing.TB) {
	var wg sync.WaitGroup
	for _, db := range f.databases {
		wg.Go(func() { db.Exec(t, "CREATE INDEX ON app.block (ws); CREATE INDEX ON app.block (parent)") })
	}
	wg.Wait()
}

// pipes copies with one filtered `COPY … | COPY` of psql a database.
func (f *fixture) pipes(t testing.TB, table *layout.Table) {
	var wg sync.WaitGroup
	for d, db := range f.databases {
		shards := fmt.Sprint(f.spec.Shards.ShardsOf(d))
		list := strings.ReplaceAll(strings.Trim(shards, "[]"), " ", ",")
		query := fmt.Sprintf("COPY (SELECT * FROM block x WHERE %s IN (%s)) TO STDOUT", f.l.ShardSQL(table, "x.ws"), list)
		wg.Go(func() {
			cmd := exec.Command("sh", "-c", `set -o pipefail; psql -XqAt -d "$FROM" -c "$QUERY" | psql -Xq -d "$TO" -c "COPY app.block FROM STDIN"`)
			cmd.Path = "/bin/bash"
			cmd.Args[0] = "bash"
			cmd.Env = append(os.Environ(), "FROM="+f.source.DSN(), "TO="+db.DSN(), "QUERY="+query)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("pipe to %s: %v: %s", d, err, out)
			}
		})
	}
	wg.Wait()
}

// BenchmarkCopy compares a backfill with four parallel filtered COPY pipes, side
// by side, indexes included; the ratio is of the medians of three rounds.
// SHARDCTL_BENCH_ROWS sets the size.
func BenchmarkCopy(b *testing.B) {
	rows := 300_000
	if n, err := strconv.Atoi(os.Getenv("SHARDCTL_BENCH_ROWS")); err == nil {
		rows = n
	}
	f := (&pool{pgtest.NewDatabases(b, 5)}).fixture(b, wide(rows))
	f.source.Exec(b, "VACUUM ANALYZE block")
	table := f.l.Tables[0]
	ways := map[string]func(){
		"pipes": func() { f.pipes(b, table) },
		"live":  func() { f.bench(b, backfill.Live) },
		"fast":  func() { f.bench(b, backfill.Fast) },
	}
	took, cpu := map[string][]time.Duration{}, map[string][]time.Duration{}
	for b.Loop() {
		for range 3 {
			for _, way := range []string{"pipes", "live", "fast"} {
				f.empty(b)
				started, before := time.Now(), f.serverCPU(b)
				ways[way]()
				f.indexes(b)
				took[way] = append(took[way], time.Since(started))
				cpu[way] = append(cpu[way], f.serverCPU(b)-before)
				f.counted(b, rows)
			}
		}
	}
	for _, way := range []string{"pipes", "live", "fast"} {
		b.Logf("%s: %v, CPU of the servers %v", way, took[way], cpu[way])
		b.ReportMetric(median(took[way])/median(took["pipes"]), way+"/pipes")
		b.ReportMetric(median(cpu[way])/median(cpu["pipes"]), way+"/pipes-cpu")
	}
}

func median(list []time.Duration) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2].Seconds()
}

// serverCPU is what all processes of the server have used, those that ended
// included: on a machine that others use, a steadier measure than time.
func (f *fixture) serverCPU(t testing.TB) time.Duration {
	postmaster := f.source.Value(t, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)")
	var ticks int64
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended: its parent counts it
		}
		// After the name in brackets: state, ppid, …, utime, stime, cutime, cstime.
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, first := filepath.Base(filepath.Dir(file)), 11
		switch {
		case pid == postmaster:
			ticks += sumOf(t, fields[first:first+4])
		case fields[1] == postmaster:
			ticks += sumOf(t, fields[first:first+2])
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

func sumOf(t testing.TB, fields []string) (sum int64) {
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		must(t, err)
		sum += n
	}
	return sum
}

func (f *fixture) bench(b *testing.B, mode backfill.Mode) {
	cfg := f.config()
	cfg.Mode, cfg.Workers = mode, 0
	if n, err := strconv.Atoi(os.Getenv("SHARDCTL_BENCH_WORKERS")); err == nil {
		cfg.Workers = n
	}
	f.run(b, cfg)
}

// empty puts the fixture back to where nothing is copied.
func (f *fixture) empty(t testing.TB) {
	f.source.Exec(t, "DELETE FROM shardctl.chunk; DELETE FROM shardctl.backfill_plan; DELETE FROM shardctl.backfill_mode; UPDATE shardctl.migration SET phase = 'installed'")
	for _, db := range f.databases {
		db.Exec(t, "DROP INDEX IF EXISTS app.block_ws_idx, app.block_parent_idx; TRUNCATE app.block; DELETE FROM shardctl.ledger")
		db.Exec(t, "CHECKPOINT")
	}
}

func (f *fixture) counted(t testing.TB, rows int) {
	sum := 0
	for _, db := range f.databases {
		n, err := strconv.Atoi(db.Value(t, "SELECT count(*) FROM app.block"))
		must(t, err)
		sum += n
	}
	if sum != rows {
		t.Fatalf("%d of %d rows arrived", sum, rows)
	}
}

// BenchmarkSource compares what a backfill costs the source with one plain COPY TO
// of the table, on a server of its own.
func BenchmarkSource(b *testing.B) {
	const rows = 300_000
	cluster := pgtest.NewCluster(b, pgtest.ClusterOptions{Settings: []string{"max_connections=60"}})
	p := &pool{append([]*pgtest.Database{cluster.NewDatabase(b)}, pgtest.NewDatabases(b, 4)...)}
	f := p.fixture(b, wide(rows))
	f.source.Exec(b, "VACUUM ANALYZE block")
	cpu := map[string][]time.Duration{}
	for b.Loop() {
		for range 3 {
			for way, do := range map[string]func(){
				"copy":     func() { f.copyTo(b) },
				"backfill": func() { f.bench(b, backfill.Live) },
			} {
				f.empty(b)
				before := f.serverCPU(b)
				do()
				cpu[way] = append(cpu[way], f.serverCPU(b)-before)
			}
		}
	}
	b.Logf("CPU of the source: %v", cpu)
	b.ReportMetric(median(cpu["backfill"])/median(cpu["copy"]), "backfill/copy-cpu")
}

func (f *fixture) copyTo(t testing.TB) {
	cmd := exec.Command("psql", "-XqAt", "-d", f.source.DSN(), "-c", "COPY block TO STDOUT")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}
