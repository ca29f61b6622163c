package journey

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestSourceThatWentBack: the source is restored to before the cutover, and then to
// before install. Its fences are down then, and both sides could be written; doctor says
// so and raises them.
func TestSourceThatWentBack(t *testing.T) {
	t.Parallel()
	w := quiet(t, "back")
	w.must(t, "prepare")
	w.remember(t, "prepared")
	w.copied(t)
	w.remember(t, "copied")
	w.must(t, "cutover", "--yes")
	w.travel(t, "copied")
	w.exec(w.sourceDSN(), touch) // nothing refuses it: this is what is wrong
	found := w.doctor(t, 4)
	if back := of(found, "owner", "broken"); len(back) != 2 || !strings.Contains(back[0].evidence, "went back in time") {
		t.Fatalf("owner: %+v", found)
	}
	if len(of(found, "fence.source", "broken")) != 2 {
		t.Errorf("fences: %+v", found)
	}
	w.raised(t, "owner", "fence.source", "phase")
	w.status(t, "cut_over")
	// A source from before install has no fences that could be raised.
	w.travel(t, "prepared")
	w.exec(w.sourceDSN(), touch)
	w.raised(t, "owner", "fence.source")
}

// touch writes every row and changes none.
const touch = "UPDATE public.block SET version = version"

// raised repairs a source that went back in time: writes are refused, what is named is
// well, and no term is drawn twice. The positions stay broken: what they speak of is gone.
func (w *world) raised(t *testing.T, well ...string) {
	t.Helper()
	mended := w.doctor(t, 4, "--repair", "--yes")
	for _, id := range well {
		if wrong := of(mended, id, "broken"); len(wrong) > 0 {
			t.Errorf("after the repair: %+v", wrong)
		}
	}
	if err := w.fails(w.sourceDSN(), touch); !strings.Contains(err, "25006") {
		t.Errorf("a write on the source after the repair: %s", err)
	}
	for i := range w.databases() {
		seen := w.texts(w.databaseDSN(i), "SELECT term::text FROM shardctl.control")[0]
		if behind := w.texts(w.sourceDSN(), "SELECT last_value::text FROM shardctl.term_seq WHERE last_value < $1::text::bigint", seen); len(behind) > 0 {
			t.Errorf("the source draws terms from %s, a database has seen %s", behind[0], seen)
		}
	}
}

// remember copies the source's files as they are now.
func (w *world) remember(t testing.TB, moment string) {
	t.Helper()
	data := w.dataDirectory(t)
	w.offline(t, fmt.Sprintf("cp -a '%s' '%[1]s.%s'", data, moment))
	t.Cleanup(func() { _ = exec.Command("rm", "-rf", data+"."+moment).Run() })
}

// travel takes the source back to a moment.
func (w *world) travel(t testing.TB, moment string) {
	t.Helper()
	data := w.dataDirectory(t)
	w.offline(t, fmt.Sprintf("rm -rf '%s' && mv '%[1]s.%s' '%[1]s'", data, moment))
}

func (w *world) dataDirectory(t testing.TB) string {
	t.Helper()
	return w.texts(w.sourceDSN(), "SHOW data_directory")[0]
}

// offline runs a shell command while the source is down.
func (w *world) offline(t testing.TB, command string) {
	t.Helper()
	w.source.Stop(t, "fast")
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", command, err, out)
	}
	w.source.Start(t)
}

// fails gives the error of a statement that must have one.
func (w *world) fails(dsn, sql string) (failure string) {
	w.t.Helper()
	w.on(dsn, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		if err == nil {
			return fmt.Errorf("%s did not fail", sql)
		}
		failure = err.Error()
		return nil
	})
	return failure
}
