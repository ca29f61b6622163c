package auditlog_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/auditlog"
)

// rotor rotates the log of one table on the source.
type rotor struct {
	*stage
	side auditlog.Side
	conn *pgx.Conn
}

func newRotor(t testing.TB) *rotor {
	t.Helper()
	s := installed(t, stageSpec{ddl: oneBlock})
	return &rotor{s, auditlog.SourceSide(s.layout), s.connect(t, s.env().Source)}
}

// rotate switches any segment that is not empty, and retires by positions.
func (r *rotor) rotate(t testing.TB, positions ...string) auditlog.Rotated {
	t.Helper()
	out, err := r.side.Rotate(t.Context(), r.conn, positions, 1)
	must(t, err)
	return out
}

// now is a position that covers all that has ended.
func (r *rotor) now(t testing.TB) string { return r.source.Value(t, "SELECT pg_current_snapshot()") }

// segments lists the keys in both segments.
func (r *rotor) segments(t testing.TB, first, second []string) {
	t.Helper()
	wantRows(t, "segment 0", r.source.Rows(t, "SELECT n1 FROM shardctl.m_log_1_0 ORDER BY 1"), first...)
	wantRows(t, "segment 1", r.source.Rows(t, "SELECT n1 FROM shardctl.m_log_1_1 ORDER BY 1"), second...)
}

func TestRotationMovesWritersAndEmptiesWhatIsCovered(t *testing.T) {
	t.Parallel()
	r := newRotor(t)
	writer := r.source.Connect(t) // its plans are cached
	runSQL(t, writer, "INSERT INTO block VALUES (1, 1)")
	before := r.now(t)
	if got := r.rotate(t); !slices.Equal(got.Switched, []int{1}) || got.Retired != nil {
		t.Errorf("%+v", got)
	}
	runSQL(t, writer, "INSERT INTO block VALUES (2, 1)")
	r.segments(t, []string{"1"}, []string{"2"})
	if got := r.rotate(t); got.Retired != nil || got.Switched != nil {
		t.Errorf("without a position: %+v", got)
	}
	if got := r.rotate(t, before, "1:1:"); got.Retired != nil {
		t.Errorf("one position has seen nothing: %+v", got)
	}
	r.segments(t, []string{"1"}, []string{"2"})
	after := r.now(t)
	if got := r.rotate(t, after, before); !slices.Equal(got.Retired, []int{1}) || !slices.Equal(got.Switched, []int{1}) {
		t.Errorf("%+v", got)
	}
	runSQL(t, writer, "INSERT INTO block VALUES (3, 1); TRUNCATE block")
	wantRows(t, "entries", logOf(t, r.source, 1, "op, n1"), "I|2", "I|3", "T|NULL")
	r.segments(t, []string{"3", "NULL"}, []string{"2"})
	wantRows(t, "low water", r.source.Rows(t, "SELECT segment, snapshot::text FROM shardctl.low_water"), "0|"+before)
}

// A transaction that is open while its segment retires keeps it: its entry is not
// to be seen by a look before the lock.
func TestRotationWaitsForLateCommitters(t *testing.T) {
	t.Parallel()
	r := newRotor(t)
	late := begin(t, r.source)
	exec(t, late, "INSERT INTO block VALUES (1, 1)")
	r.source.Exec(t, "INSERT INTO block VALUES (2, 1)")
	r.rotate(t)
	during := r.now(t)
	if got := r.rotate(t, during); got.Retired != nil {
		t.Errorf("retired under an open transaction: %+v", got)
	}
	must(t, late.Commit(t.Context()))
	if got := r.rotate(t, during); got.Retired != nil {
		t.Errorf("retired an entry that the position does not cover: %+v", got)
	}
	r.segments(t, []string{"1", "2"}, nil)
	if got := r.rotate(t, r.now(t)); !slices.Equal(got.Retired, []int{1}) {
		t.Errorf("not retired: %+v", got)
	}
}

// The entry commits between the first look and the lock: the look after the lock
// must find it.
func TestRotationLooksAfterTheLock(t *testing.T) {
	t.Parallel()
	r := newRotor(t)
	r.source.Exec(t, "INSERT INTO block VALUES (1, 1)")
	r.rotate(t)
	position := r.now(t)
	for range 5 {
		// An older writer that goes on into the retired segment.
		late := begin(t, r.source)
		exec(t, late, "INSERT INTO shardctl.m_log_1_0 (op, n1) VALUES ('I', 2)")
		type result struct {
			rotated auditlog.Rotated
			err     error
		}
		done := make(chan result, 1)
		go func() {
			rotated, err := r.side.Rotate(t.Context(), r.conn, []string{position}, 1)
			done <- result{rotated, err}
		}()
		var got *result
		soon(t, func() bool { // it waits for the lock, or has given up
			select {
			case d := <-done:
				got = &d
				return true
			default:
				return r.source.Value(t, "SELECT count(*) FROM pg_locks WHERE relation = 'shardctl.m_log_1_0'::regclass AND NOT granted") == "1"
			}
		})
		must(t, late.Commit(t.Context()))
		if got == nil {
			d := <-done
			got = &d
		}
		must(t, got.err)
		if got.rotated.Retired != nil {
			t.Fatalf("an entry beyond the position was lost: %+v", got.rotated)
		}
		r.source.Exec(t, "DELETE FROM shardctl.m_log_1_0 WHERE n1 = 2")
	}
}

// A REPEATABLE READ writer older than the switch may still write into the old
// segment: it is not lost, and the segment is retired again later.
func TestRotationAndAnOlderRepeatableReadWriter(t *testing.T) {
	t.Parallel()
	r := newRotor(t)
	old := begin(t, r.source)
	exec(t, old, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM block")
	r.source.Exec(t, "INSERT INTO block VALUES (1, 1)")
	position := r.now(t)
	r.rotate(t)
	if got := r.rotate(t, position); !slices.Equal(got.Retired, []int{1}) {
		t.Errorf("an idle reader held the segment: %+v", got)
	}
	exec(t, old, "INSERT INTO block VALUES (2, 1)")
	must(t, old.Commit(t.Context()))
	wantRows(t, "entries", logOf(t, r.source, 1, "n1"), "2")
	if got := r.rotate(t, position); got.Retired != nil {
		t.Errorf("the late entry was lost: %+v", got)
	}
	wantRows(t, "entries", logOf(t, r.source, 1, "n1"), "2")
}

func TestRotationWaitsForTicks(t *testing.T) {
	t.Parallel()
	r := newRotor(t)
	r.source.Exec(t, "INSERT INTO block VALUES (1, 1)")
	r.rotate(t)
	tick := begin(t, r.source)
	exec(t, tick, "LOCK TABLE shardctl.m_log_1_0 IN ACCESS SHARE MODE")
	if got := r.rotate(t, r.now(t)); got.Retired != nil {
		t.Errorf("retired under a tick: %+v", got)
	}
	must(t, tick.Rollback(t.Context()))
	if got := r.rotate(t, r.now(t)); !slices.Equal(got.Retired, []int{1}) {
		t.Errorf("not retired: %+v", got)
	}
}
