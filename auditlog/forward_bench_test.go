package auditlog_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/localpg"
)

// BenchmarkForward drains single-row transactions, spread over the keys, into four
// databases. On a busy machine the CPU time says more than the rate: of the server's
// processes and of this one, for each row.
func BenchmarkForward(b *testing.B) {
	const rows = 40_000
	for _, c := range []struct {
		name, schema string
	}{{"plain", "app"}, {"schemas", "shard_%d"}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, rigSpec{databases: 4, count: 64, schema: c.schema, tables: blocks()[:1],
				ddl: `CREATE TABLE public.block (id uuid PRIMARY KEY, workspace_id uuid NOT NULL, n int, body text)`})
			r.source.Exec(b, fmt.Sprintf(`INSERT INTO public.block SELECT md5(g::text)::uuid, md5((g %% 1000)::text)::uuid, g, repeat('x', 100) FROM generate_series(1, %d) g`, rows))
			r.level(b)
			r.source.Exec(b, "ANALYZE")
			parent := r.source.Value(b, "SELECT pg_read_file('postmaster.pid', 0, 20)")
			parent = parent[:strings.IndexByte(parent, '\n')]
			for b.Loop() {
				b.StopTimer()
				for i := 0; i < rows; i += 5000 {
					r.source.Exec(b, fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP UPDATE public.block SET n = n + 1 WHERE id = md5(i::text)::uuid; COMMIT; END LOOP; END $$`, i+1, i+5000))
				}
				b.StartTimer()
				start, used, ticks := time.Now(), cpu(b, parent), 0
				for cut := true; cut; ticks++ {
					cut = false
					for _, t := range r.tick(b) {
						cut = cut || t.Cut
					}
				}
				b.ReportMetric(rows/time.Since(start).Seconds(), "rows/s")
				b.ReportMetric(float64((cpu(b, parent)-used).Microseconds())/rows, "cpu-µs/row")
				b.ReportMetric(float64(ticks), "ticks")
			}
		})
	}
}

// cpu is the CPU time so far of this process and of a server's.
func cpu(b *testing.B, postmaster string) time.Duration {
	pid, err := strconv.Atoi(postmaster)
	must(b, err)
	servers, err := localpg.ServerCPU(pid)
	must(b, err)
	var own syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	return servers + time.Duration(own.Utime.Nano()+own.Stime.Nano())
}

// BenchmarkReverse drains as many single-row transactions of four databases back.
func BenchmarkReverse(b *testing.B) {
	const rows = 40_000
	r := newRig(b, rigSpec{databases: 4, count: 64, schema: "app", tables: blocks()[:1],
		ddl: `CREATE TABLE public.block (id uuid PRIMARY KEY, workspace_id uuid NOT NULL, n int, body text)`})
	r.source.Exec(b, fmt.Sprintf(`INSERT INTO public.block SELECT md5(g::text)::uuid, md5((g %% 1000)::text)::uuid, g, repeat('x', 100) FROM generate_series(1, %d) g`, rows))
	r.level(b)
	r.own(b)
	parent := r.source.Value(b, "SELECT pg_read_file('postmaster.pid', 0, 20)")
	parent = parent[:strings.IndexByte(parent, '\n')]
	for b.Loop() {
		b.StopTimer()
		for _, d := range r.dbs {
			d.Exec(b, `DO $$ DECLARE i uuid; BEGIN FOR i IN SELECT id FROM app.block LOOP UPDATE app.block SET n = n + 1 WHERE id = i; COMMIT; END LOOP; END $$`)
		}
		b.StartTimer()
		start, used := time.Now(), cpu(b, parent)
		for cut := true; cut; {
			cut = false
			for _, t := range r.back(b) {
				cut = cut || t.Cut
			}
		}
		b.ReportMetric(rows/time.Since(start).Seconds(), "rows/s")
		b.ReportMetric(float64((cpu(b, parent)-used).Microseconds())/rows, "cpu-µs/row")
	}
}
